"""Platform for a cluster of libvirt hosts."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from threading import Lock

from opendrs.errors import PlatformError, PlatformUnavailableError, UnsupportedError
from opendrs.model import (
    Action,
    LiveMigration,
    Migration,
    NodeId,
    Relocation,
    Rule,
    Snapshot,
)
from opendrs.platforms.libvirt.client import LibvirtConnection
from opendrs.platforms.libvirt.migration import LibvirtTask, StartedMigration
from opendrs.platforms.libvirt.migration_outcome import (
    NOT_FOUND,
    MigrationEvidence,
    migration_status,
    parse_progress,
)
from opendrs.platforms.libvirt.observation import LibvirtClusterReader
from opendrs.platforms.libvirt.queries import abort_migration, find_uuid, read_location
from opendrs.platforms.libvirt.responses import LocationReport
from opendrs.platforms.libvirt.settings import LibvirtSettings
from opendrs.ports import Progress, TaskId, TaskStatus

LOCAL = ":///"  # a URI without a host
_ABORT_TRIES = 50
_ABORT_INTERVAL = 0.1


class LibvirtPlatform:
    """Cluster of libvirt hosts with peer-to-peer live migration."""

    def __init__(
        self, name: str, settings: LibvirtSettings, rules: Iterable[Rule] = ()
    ) -> None:
        """Create the platform without connecting to the hosts.

        Args:
            name: The name of the cluster.
            settings: The hosts, and the settings of migrations.
            rules: The placement rules, in addition to those in metadata of guests.
        """
        self._name = name
        self._settings = settings
        self._rules = tuple(rules)
        self._hosts = {
            NodeId(node): LibvirtConnection(NodeId(node), uri, settings.timeout)
            for node, uri in settings.nodes.items()
        }
        self._reader = LibvirtClusterReader(
            name=name, hosts=self._hosts, settings=settings
        )
        self._lock = Lock()
        self._started: dict[LibvirtTask, StartedMigration] = {}
        self._last_progress: dict[LibvirtTask, Progress] = {}

    @property
    def name(self) -> str:
        """Return the name of the cluster."""
        return self._name

    def observe(self) -> Snapshot:
        """Return a snapshot of the cluster.

        An unreachable host is a node in the state unknown.

        Raises:
            ConfigurationError: A URI cannot be used, or libvirt is not installed.
            PlatformUnavailableError: All hosts are unreachable.
            PermissionDeniedError: A host denied access.
        """
        return self._reader.read_snapshot(self._rules)

    def start(self, action: Action) -> TaskId:
        """Start a live migration, or a relocation, and return immediately.

        A migration that this process already has in progress is not started again.

        Raises:
            UnsupportedError: *action* is not a live migration or relocation between
                two nodes of the cluster that can reach each other.
            PlatformError: The guest does not run on the source, or does for a
                relocation, another process is migrating it, or the source cannot be
                queried.
        """
        migration = self._require_supported(action)
        source = self._hosts[migration.source]
        uuid = _find_uuid(source, migration)
        if uuid is None:
            raise PlatformError(f"{migration.guest}: not on {migration.source}")
        task = LibvirtTask.from_migration(migration, uuid)
        with self._lock:
            if not self._is_migrating(task):
                _require_idle(
                    task,
                    source.query(partial(read_location, uuid=uuid)),
                    is_active=not isinstance(migration, Relocation),
                )
                self._last_progress.pop(task, None)
                self._started[task] = StartedMigration(task, source, self._settings)
        return task.id

    def find(self, action: Action) -> TaskId:
        """Return the id of the task that *action* would have.

        Raises:
            UnsupportedError: *action* is not a live migration or relocation between
                two nodes of the cluster.
            PlatformUnavailableError: The guest may be on an unreachable host.
        """
        migration = self._require_supported(action)
        for node in (migration.source, migration.target):
            uuid = _find_uuid(self._hosts[node], migration)
            if uuid is not None:
                return LibvirtTask.from_migration(migration, uuid).id
        return LibvirtTask.from_migration(migration, "").id

    def status(self, task: TaskId) -> TaskStatus:
        """Return the status of *task* according to both hosts.

        Raises:
            PlatformError: A host that determines the status cannot be queried.
        """
        parsed = self._parse_task(task)
        if not parsed.uuid:
            return migration_status(parsed, NOT_FOUND)
        migration = self._started.get(parsed)
        # Source first: a guest that has left the source is on the target.
        has_ended = migration is not None and not migration.is_running
        source = self._report_of(parsed.source, parsed)
        self._record_progress(parsed, source)
        return migration_status(
            parsed,
            MigrationEvidence(
                source=source,
                target=self._report_or_error(parsed.target, parsed),
                call_is_running=migration is not None and not has_ended,
                error_text=migration.error_text if migration and has_ended else None,
                last_progress=self._last_progress.get(parsed),
            ),
        )

    def abort(self, task: TaskId) -> None:
        """Abort the migration; has no effect on a task that has ended.

        Raises:
            PlatformError: The source cannot be queried, or can no longer abort, for
                example after the switch to post-copy.
        """
        parsed = self._parse_task(task)
        source = self._hosts[parsed.source]
        migration = self._started.get(parsed)
        for _ in range(_ABORT_TRIES):
            if not parsed.uuid or source.query(
                partial(abort_migration, uuid=parsed.uuid)
            ):
                return
            # The job of a migration that was just started may not exist yet.
            if migration is None or migration.wait_for_end(_ABORT_INTERVAL):
                return
        raise PlatformError(
            f"{parsed.guest}: {parsed.source} cannot abort the migration in its "
            "current phase"
        )

    def _require_supported(self, action: Action) -> Migration:
        if not isinstance(action, LiveMigration | Relocation):
            raise UnsupportedError(
                "libvirt: expected a live migration or a relocation, got "
                f"{type(action).__name__}"
            )
        self._require_nodes(action.source, action.target)
        if action.source == action.target:
            raise UnsupportedError(f"{action.guest}: already on {action.target}")
        if LOCAL in self._settings.peer_uri(action.target):
            raise UnsupportedError(
                f"{action.target}: its URI is local, so {action.source} cannot reach "
                f"it; set migration_uris.{action.target} to a URI with a host name"
            )
        return action

    def _require_nodes(self, *nodes: NodeId) -> None:
        for node in nodes:
            if node not in self._hosts:
                raise UnsupportedError(f"{node}: not a node of {self._name}")

    def _parse_task(self, text: TaskId) -> LibvirtTask:
        task = LibvirtTask.parse(text)
        self._require_nodes(task.source, task.target)
        return task

    def _is_migrating(self, task: LibvirtTask) -> bool:
        migration = self._started.get(task)
        return migration is not None and migration.is_running

    def _record_progress(self, task: LibvirtTask, source: LocationReport) -> None:
        """Record the dirty rate, which libvirt no longer reports after an abort."""
        if source.job is None:
            return
        progress = parse_progress(source.job)
        if progress.dirty_rate is not None:
            self._last_progress[task] = progress

    def _report_of(self, node: NodeId, task: LibvirtTask) -> LocationReport:
        return self._hosts[node].query(partial(read_location, uuid=task.uuid))

    def _report_or_error(
        self, node: NodeId, task: LibvirtTask
    ) -> LocationReport | PlatformError:
        try:
            return self._report_of(node, task)
        except PlatformUnavailableError as error:
            return error


def _find_uuid(host: LibvirtConnection, migration: Migration) -> str | None:
    """Return the uuid of the guest on *host*; None if it is not there.

    Guests with ambiguous names have the id `name@node`.
    """
    for name in (migration.guest, migration.guest.removesuffix(f"@{host.node}")):
        uuid = host.query(partial(find_uuid, name=name))
        if uuid is not None:
            return uuid
    return None


def _require_idle(
    task: LibvirtTask, report: LocationReport, *, is_active: bool
) -> None:
    domain = report.domain
    if domain is None or domain.is_active is not is_active:
        state = "running" if is_active else "shut off"
        raise PlatformError(f"{task.guest}: not {state} on {task.source}")
    if domain.is_incoming:
        raise PlatformError(
            f"{task.guest}: its migration to {task.source} is still in progress"
        )
    if report.job is not None:
        raise PlatformError(f"{task.guest}: another migration is in progress")
