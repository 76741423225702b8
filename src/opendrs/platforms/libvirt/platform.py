"""A cluster of libvirt hosts as a platform."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from threading import Lock

from opendrs.errors import PlatformError, PlatformUnavailableError, UnsupportedError
from opendrs.model import Action, Migration, NodeId, Rule, Snapshot
from opendrs.platforms.libvirt.answers import Sight
from opendrs.platforms.libvirt.client import Host
from opendrs.platforms.libvirt.migration import Effort
from opendrs.platforms.libvirt.observation import Observer
from opendrs.platforms.libvirt.questions import abort, sight, uuid_of
from opendrs.platforms.libvirt.settings import LibvirtSettings
from opendrs.platforms.libvirt.task import Task
from opendrs.platforms.libvirt.verdict import NOWHERE, Evidence, progress_of, verdict
from opendrs.ports import Progress, TaskId, TaskStatus

_LOCAL = ":///"  # a URI without a host
_ABORT_TRIES = 50
_ABORT_PAUSE = 0.1


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
            NodeId(node): Host(NodeId(node), uri, settings.timeout)
            for node, uri in settings.nodes.items()
        }
        self._observer = Observer(name=name, hosts=self._hosts, settings=settings)
        self._lock = Lock()
        self._efforts: dict[Task, Effort] = {}
        self._last: dict[Task, Progress] = {}

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
        return self._observer.snapshot(self._rules)

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
        migration = self._supported(action)
        source = self._hosts[migration.source]
        uuid = _found(source, migration)
        if uuid is None:
            raise PlatformError(f"{migration.guest} is not on {migration.source}")
        task = Task.of(migration, uuid)
        with self._lock:
            if not self._busy_with(task):
                _require_idle(task, source.ask(partial(sight, uuid=uuid)))
                self._last.pop(task, None)
                self._efforts[task] = Effort(task, source, self._settings)
        return task.id

    def find(self, action: Action) -> TaskId:
        """Return the task that *action* would have been given.

        Raises:
            UnsupportedError: It is not a live migration between two nodes of
                the cluster.
            PlatformUnavailableError: The guest may be on a host that does not
                answer.
        """
        migration = self._supported(action)
        for node in (migration.source, migration.target):
            uuid = _found(self._hosts[node], migration)
            if uuid is not None:
                return Task.of(migration, uuid).id
        return Task.of(migration, "").id

    def status(self, task: TaskId) -> TaskStatus:
        """Return how *task* stands, as both hosts have it.

        Raises:
            PlatformError: A host on which it depends cannot be asked.
        """
        known = self._known(task)
        if not known.uuid:
            return verdict(known, NOWHERE)
        effort = self._efforts.get(known)
        # In this order: a guest that has left the source is on the target.
        ended = effort is not None and not effort.under_way
        source = self._sight(known.source, known)
        self._note_pace(known, source)
        return verdict(
            known,
            Evidence(
                source=source,
                target=self._sight_if_it_answers(known.target, known),
                under_way=effort is not None and not ended,
                failure=effort.failure if effort and ended else None,
                last=self._last.get(known),
            ),
        )

    def abort(self, task: TaskId) -> None:
        """Give up the migration; a task that has ended stays as it is.

        Raises:
            PlatformError: The source cannot be asked, or cannot abort any
                more: after the switch to post-copy, say.
        """
        known = self._known(task)
        source = self._hosts[known.source]
        effort = self._efforts.get(known)
        for _ in range(_ABORT_TRIES):
            if not known.uuid or source.ask(partial(abort, uuid=known.uuid)):
                return
            # Started a moment ago, it may not have come as far as a job.
            if effort is None or effort.ended_within(_ABORT_PAUSE):
                return
        raise PlatformError(
            f"the migration of {known.guest} is at a point where {known.source} "
            "cannot abort it"
        )

    def _supported(self, action: Action) -> Migration:
        if not isinstance(action, Migration):
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

    def _known(self, text: TaskId) -> Task:
        task = Task.read(text)
        self._require_nodes(task.source, task.target)
        return task

    def _busy_with(self, task: Task) -> bool:
        effort = self._efforts.get(task)
        return effort is not None and effort.under_way

    def _note_pace(self, task: Task, source: Sight) -> None:
        """Keep how fast it went: once a migration is given up, nobody tells."""
        if source.job is None:
            return
        progress = progress_of(source.job)
        if progress.dirty_rate is not None:
            self._last[task] = progress

    def _sight(self, node: NodeId, task: Task) -> Sight:
        return self._hosts[node].ask(partial(sight, uuid=task.uuid))

    def _sight_if_it_answers(self, node: NodeId, task: Task) -> Sight | PlatformError:
        try:
            return self._sight(node, task)
        except PlatformUnavailableError as error:
            return error


def _found(host: Host, migration: Migration) -> str | None:
    """Return the uuid of the guest on *host*, or None.

    Guests whose name is not enough are called `name@node`.
    """
    for name in (migration.guest, migration.guest.removesuffix(f"@{host.node}")):
        uuid = host.ask(partial(uuid_of, name=name))
        if uuid is not None:
            return uuid
    return None


def _require_idle(task: Task, seen: Sight) -> None:
    domain = seen.domain
    if domain is None or not domain.active:
        raise PlatformError(f"{task.guest} does not run on {task.source}")
    if domain.arriving:
        raise PlatformError(f"{task.guest} is still arriving on {task.source}")
    if seen.job is not None:
        raise PlatformError(f"{task.guest} is being migrated already")
