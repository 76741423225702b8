"""Platform for an Incus cluster with live migration of virtual machines."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable
from datetime import UTC, datetime
from threading import Lock
from time import monotonic

from opendrs.errors import (
    PlatformError,
    PlatformUnavailableError,
    UnsupportedError,
)
from opendrs.model import (
    Action,
    GuestId,
    LiveMigration,
    Migration,
    Relocation,
    Rule,
    Snapshot,
    format_list,
)
from opendrs.platforms.incus import queries
from opendrs.platforms.incus.client import IncusClient, IncusNotFoundError
from opendrs.platforms.incus.migration import (
    MIGRATING,
    IncusTask,
    running_jobs,
    task_status,
)
from opendrs.platforms.incus.mobility import unseen_pools
from opendrs.platforms.incus.observation import IncusClusterReader
from opendrs.platforms.incus.operations import FollowedOperation
from opendrs.platforms.incus.responses import READY, RUNNING, STOPPED, Instance
from opendrs.platforms.incus.settings import IncusSettings
from opendrs.platforms.incus.values import (
    InstanceKey,
    instance_key,
    last_move,
    parse_time,
)
from opendrs.ports import TaskId, TaskState, TaskStatus

logger = logging.getLogger(__name__)

OFFLINE = "Offline"
LAST_MOVE = "volatile.rebalance.last_move"
MAX_FOLLOWED = 1000  # operations whose end is known; more than run at the same time
REJECTION_PAUSE = 600.0  # seconds for which a guest stays after Incus rejected its move


class IncusPlatform:
    """Incus cluster; virtual machines migrate live.

    A finished migration is recorded in `volatile.rebalance.last_move` of the instance,
    so that the cooldown of the rebalancer of Incus counts it.
    """

    def __init__(
        self, name: str, settings: IncusSettings, rules: Iterable[Rule] = ()
    ) -> None:
        """Create the platform without connecting to the cluster.

        Args:
            name: The name of the cluster.
            settings: The connection, and what is migrated.
            rules: Placement rules of the operator, in addition to those of Incus.

        Raises:
            ConfigurationError: A certificate or key cannot be read.
        """
        self._name = name
        self._settings = settings
        self._rules = tuple(rules)
        self._client = IncusClient(settings)
        self._reader = IncusClusterReader(self._client, settings)
        self._observed: Snapshot | None = None
        self._lock = Lock()
        self._followed: dict[IncusTask, FollowedOperation] = {}
        self._rejections: dict[InstanceKey, tuple[str, float]] = {}

    @property
    def name(self) -> str:
        """Return the name of the cluster."""
        return self._name

    def observe(self) -> Snapshot:
        """Return a snapshot of the cluster.

        A member that does not respond is a node in the state unknown.

        Raises:
            PlatformUnavailableError: No member responds.
            PermissionDeniedError: The certificate is not trusted.
            UnsupportedError: The server is not a cluster of Incus.
        """
        self._observed = self._reader.read_snapshot(
            self._rules, self._current_rejections()
        )
        return self._observed

    def start(self, action: Action) -> TaskId:
        """Start a live migration, or a relocation, and return immediately.

        A migration that this process already has in progress is not started again.

        Raises:
            UnsupportedError: *action* is not a live migration or relocation to another
                node.
            PlatformError: The guest does not run on the source, or does for a
                relocation, has an operation in progress or a disk on another pool than
                in the last snapshot, the target is not online, or Incus rejects the
                migration.
        """
        migration = _require_supported(action)
        key = self._managed_key(migration.guest)
        instance = queries.read_instance(self._client, key)
        task = IncusTask.of_instance(migration, instance)
        with self._lock:
            followed = self._followed.get(task)
            if followed is not None and followed.latest and followed.latest.is_running:
                return task.id
            self._require_startable(migration, instance)
            try:
                operation = queries.start_move(
                    self._client,
                    key,
                    migration.target,
                    live=not isinstance(migration, Relocation),
                )
            except PlatformUnavailableError:
                raise
            except PlatformError as error:
                self._rejections[key] = str(error), monotonic()
                raise
            self._keep(task, FollowedOperation(self._client, operation))
        return task.id

    def find(self, action: Action) -> TaskId:
        """Return the id of the task that *action* would have.

        Raises:
            UnsupportedError: *action* is not a live migration or relocation to another
                node.
            PlatformUnavailableError: The cluster is unreachable.
        """
        migration = _require_supported(action)
        instance = self._find_instance(instance_key(migration.guest))
        return IncusTask.of_instance(migration, instance).id

    def status(self, task: TaskId) -> TaskStatus:
        """Return the status of *task*, by its operation or the location of the guest.

        Raises:
            PlatformError: The cluster is unreachable, or the instance does not respond.
        """
        parsed = IncusTask.parse(task)
        try:
            return self._status(parsed)
        except PlatformUnavailableError:
            status = self._status_of_lost_source(parsed)
            if status is None:
                raise
            return status

    def abort(self, task: TaskId) -> None:
        """Abort the migration; has no effect on a task that has ended.

        Raises:
            UnsupportedError: The migration is in progress. Incus cannot cancel it: to
                cancel its connection leaves operations that never end.
            PlatformError: The cluster is unreachable.
        """
        parsed = IncusTask.parse(task)
        followed = self._follow(parsed)
        operation = followed.refresh() if followed is not None else None
        if operation is None or not operation.is_running:
            return
        raise UnsupportedError(
            f"{parsed.guest}: Incus cannot cancel the migration to {parsed.target}; it "
            "continues"
        )

    def _status(self, task: IncusTask) -> TaskStatus:
        followed = self._follow(task)
        operation = followed.refresh() if followed is not None else None
        if operation is not None and operation.is_running:
            return task_status(task, operation, None)
        instance = self._find_instance(instance_key(task.guest))
        status = task_status(task, operation, instance)
        if status.state is TaskState.DONE and instance is not None:
            self._record_move(instance)
        return status

    def _status_of_lost_source(self, task: IncusTask) -> TaskStatus | None:
        """Return LOST if the source is offline with the guest; otherwise None."""
        members = {m.server_name: m for m in queries.read_members(self._client)}
        source = members.get(task.source)
        if source is None or source.status != OFFLINE:
            return None
        key = instance_key(task.guest)
        for instance in queries.read_instances(self._client):
            if instance.key == key and instance.location == task.source:
                return TaskStatus(
                    TaskState.LOST, f"{task.source} is offline, with {task.guest} on it"
                )
        return None

    def _managed_key(self, guest: GuestId) -> InstanceKey:
        key = instance_key(guest)
        if not self._settings.manages(key[0]):
            raise UnsupportedError(f"{guest}: its project is not in projects")
        return key

    def _require_startable(self, migration: Migration, instance: Instance) -> None:
        """Check what Incus does not check, or only after the start."""
        if instance.location != migration.source:
            raise PlatformError(
                f"{migration.guest}: not on {migration.source}, but on "
                f"{instance.location}"
            )
        is_relocation = isinstance(migration, Relocation)
        expected = (STOPPED,) if is_relocation else (RUNNING, READY)
        if instance.status_code not in expected:
            state = "stopped" if is_relocation else "running"
            raise PlatformError(
                f"{migration.guest}: not {state}, but {instance.status.lower()}"
            )
        observed = self._observed.guests if self._observed is not None else {}
        if pools := unseen_pools(instance, observed.get(migration.guest)):
            raise PlatformError(
                f"{migration.guest}: has a disk on {format_list(pools)} that is not in "
                "the last snapshot, and may have to be copied"
            )
        jobs = running_jobs(queries.read_operations(self._client))
        if (job := jobs.get(instance.key)) is not None:
            raise PlatformError(f"{migration.guest}: in progress: {job.description}")
        # Incus accepts an evacuated member as the target.
        target = queries.read_member(self._client, migration.target)
        if target.status != "Online":
            raise PlatformError(
                f"{migration.target}: expected Online, got {target.status}"
            )

    def _follow(self, task: IncusTask) -> FollowedOperation | None:
        """Return the operation of *task*; None if it is neither known nor running.

        An operation that another process started is searched by its instance and its
        target.
        """
        with self._lock:
            if (followed := self._followed.get(task)) is not None:
                return followed
            jobs = running_jobs(queries.read_operations(self._client))
            job = jobs.get(instance_key(task.guest))
            if job is None or job.migration is None:
                return None
            if job.description != MIGRATING or job.target not in (None, task.target):
                return None
            followed = FollowedOperation(self._client, job.migration)
            if job.target is not None:
                self._keep(task, followed)
            return followed

    def _keep(self, task: IncusTask, followed: FollowedOperation) -> None:
        """Keep the operation of *task*, and forget those of the oldest tasks."""
        self._followed.pop(task, None)
        self._followed[task] = followed
        while len(self._followed) > MAX_FOLLOWED:
            del self._followed[next(iter(self._followed))]

    def _find_instance(self, key: InstanceKey) -> Instance | None:
        try:
            return queries.read_instance(self._client, key)
        except IncusNotFoundError:
            return None

    def _record_move(self, instance: Instance) -> None:
        """Set the time of the last move, unless it was set since the arrival."""
        recorded, arrived = last_move(instance), parse_time(instance.last_used_at)
        if recorded is not None and (arrived is None or recorded >= arrived):
            return
        now = datetime.now(UTC).timestamp()  # noqa: TID251 -- Incus compares it
        try:
            queries.set_config(
                self._client, instance.key, {LAST_MOVE: str(math.ceil(now))}
            )
        except PlatformError as error:
            logger.warning("%s: %s not set: %s", instance.name, LAST_MOVE, error)

    def _current_rejections(self) -> dict[InstanceKey, str]:
        now = monotonic()
        with self._lock:
            self._rejections = {
                key: (reason, at)
                for key, (reason, at) in self._rejections.items()
                if now - at < REJECTION_PAUSE
            }
            return {key: reason for key, (reason, _) in self._rejections.items()}


def _require_supported(action: Action) -> Migration:
    if not isinstance(action, LiveMigration | Relocation):
        raise UnsupportedError(
            "Incus: expected a live migration or a relocation, got "
            f"{type(action).__name__}"
        )
    if action.source == action.target:
        raise UnsupportedError(f"{action.guest}: already on {action.target}")
    return action
