"""A cluster of libvirt hosts as a platform."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from threading import Lock

from opendrs.errors import PlatformError, PlatformUnavailableError, UnsupportedError
from opendrs.model import Action, LiveMigration, NodeId, Rule, Snapshot
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

_LOCAL = ":///"  # a URI without a host
_ABORT_TRIES = 50
_ABORT_INTERVAL = 0.1


class LibvirtPlatform:
    """Several libvirt hosts that migrate guests to one another."""

    def __init__(
        self, name: str, settings: LibvirtSettings, rules: Iterable[Rule] = ()
    ) -> None:
        """Connect to nothing yet.

        Args:
            name: What the operator calls the cluster.
            settings: Its hosts, and how guests move between them.
            rules: The placement rules in force; libvirt knows none.
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
        """Return the cluster as it is now.

        A host that cannot be reached is a node in state unknown.

        Raises:
            ConfigurationError: A URI cannot be used, or libvirt is not installed.
            PlatformUnavailableError: Not one host can be reached.
            PermissionDeniedError: A host refused.
        """
        return self._reader.read_snapshot(self._rules)

    def start(self, action: Action) -> TaskId:
        """Start a live migration and return at once.

        A migration that this process has already under way is not started
        again; one that another process has is refused, as is a guest that is
        no longer on the source.

        Raises:
            UnsupportedError: It is not a live migration between two nodes of
                the cluster that can reach one another.
            PlatformError: The guest does not run on the source, or is being
                migrated already; or the source cannot be asked.
        """
        migration = self._require_supported(action)
        source = self._hosts[migration.source]
        uuid = _find_uuid(source, migration)
        if uuid is None:
            raise PlatformError(f"{migration.guest} is not on {migration.source}")
        task = LibvirtTask.from_migration(migration, uuid)
        with self._lock:
            if not self._is_migrating(task):
                _require_idle(task, source.query(partial(read_location, uuid=uuid)))
                self._last_progress.pop(task, None)
                self._started[task] = StartedMigration(task, source, self._settings)
        return task.id

    def find(self, action: Action) -> TaskId:
        """Return the task that *action* would have been given.

        Raises:
            UnsupportedError: It is not a live migration between two nodes of
                the cluster.
            PlatformUnavailableError: The guest may be on a host that does not
                answer.
        """
        migration = self._require_supported(action)
        for node in (migration.source, migration.target):
            uuid = _find_uuid(self._hosts[node], migration)
            if uuid is not None:
                return LibvirtTask.from_migration(migration, uuid).id
        return LibvirtTask.from_migration(migration, "").id

    def status(self, task: TaskId) -> TaskStatus:
        """Return how *task* stands, as both hosts have it.

        Raises:
            PlatformError: A host on which it depends cannot be asked.
        """
        parsed = self._parse_task(task)
        if not parsed.uuid:
            return migration_status(parsed, NOT_FOUND)
        migration = self._started.get(parsed)
        # In this order: a guest that has left the source is on the target.
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
        """Give up the migration; a task that has ended stays as it is.

        Raises:
            PlatformError: The source cannot be asked, or cannot abort any
                more: after the switch to post-copy, say.
        """
        parsed = self._parse_task(task)
        source = self._hosts[parsed.source]
        migration = self._started.get(parsed)
        for _ in range(_ABORT_TRIES):
            if not parsed.uuid or source.query(
                partial(abort_migration, uuid=parsed.uuid)
            ):
                return
            # Started a moment ago, it may not have come as far as a job.
            if migration is None or migration.wait_for_end(_ABORT_INTERVAL):
                return
        raise PlatformError(
            f"the migration of {parsed.guest} is at a point where {parsed.source} "
            "cannot abort it"
        )

    def _require_supported(self, action: Action) -> LiveMigration:
        if not isinstance(action, LiveMigration):
            raise UnsupportedError(
                f"libvirt can only migrate live, not {type(action).__name__}"
            )
        self._require_nodes(action.source, action.target)
        if action.source == action.target:
            raise UnsupportedError(f"{action.guest} is on {action.target} already")
        if _LOCAL in self._settings.peer_uri(action.target):
            raise UnsupportedError(
                f"{action.source} cannot reach {action.target} by the URI given: set "
                f"migration_uris.{action.target} to one that names a host"
            )
        return action

    def _require_nodes(self, *nodes: NodeId) -> None:
        for node in nodes:
            if node not in self._hosts:
                raise UnsupportedError(f"{node} is not a node of {self._name}")

    def _parse_task(self, text: TaskId) -> LibvirtTask:
        task = LibvirtTask.parse(text)
        self._require_nodes(task.source, task.target)
        return task

    def _is_migrating(self, task: LibvirtTask) -> bool:
        migration = self._started.get(task)
        return migration is not None and migration.is_running

    def _record_progress(self, task: LibvirtTask, source: LocationReport) -> None:
        """Keep how fast it went: once a migration is given up, nobody tells."""
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


def _find_uuid(host: LibvirtConnection, migration: LiveMigration) -> str | None:
    """Return the uuid of the guest on *host*, or None.

    Guests whose name is not enough are called `name@node`.
    """
    for name in (migration.guest, migration.guest.removesuffix(f"@{host.node}")):
        uuid = host.query(partial(find_uuid, name=name))
        if uuid is not None:
            return uuid
    return None


def _require_idle(task: LibvirtTask, report: LocationReport) -> None:
    domain = report.domain
    if domain is None or not domain.is_active:
        raise PlatformError(f"{task.guest} does not run on {task.source}")
    if domain.is_incoming:
        raise PlatformError(f"{task.guest} is still arriving on {task.source}")
    if report.job is not None:
        raise PlatformError(f"{task.guest} is being migrated already")
