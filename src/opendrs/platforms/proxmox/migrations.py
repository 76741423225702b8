"""Migrations of guests: checks before the start, the request, and the status."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from opendrs.errors import (
    PlatformError,
    PlatformUnavailableError,
    UnsupportedError,
)
from opendrs.model import (
    ColdMigration,
    GuestKind,
    LiveMigration,
    Migration,
    Relocation,
    Snapshot,
)
from opendrs.platforms.proxmox.cluster_view import GUEST_TYPES
from opendrs.platforms.proxmox.disk_copies import unseen_copies
from opendrs.platforms.proxmox.ha import (
    IGNORE,
    MOVING_STATES,
    SETTLED_STATES,
    HaStatus,
)
from opendrs.platforms.proxmox.observation import ProxmoxClusterReader
from opendrs.platforms.proxmox.outcome import (
    PveMigrationEvidence,
    is_moving,
    migration_status,
    newest,
)
from opendrs.platforms.proxmox.preconditions import Preconditions
from opendrs.platforms.proxmox.queries import Queries
from opendrs.platforms.proxmox.responses import ResourceRow, TaskRow
from opendrs.platforms.proxmox.settings import KIB, ProxmoxSettings
from opendrs.platforms.proxmox.started_tasks import StartedTasks
from opendrs.platforms.proxmox.tasks import (
    HA_REQUEST,
    MIGRATIONS,
    ProxmoxTask,
    Upid,
    is_running,
    require_startable,
)
from opendrs.ports import TaskState, TaskStatus


@dataclass(frozen=True, slots=True)
class PveMigrations:
    """Migrations of the guests of one cluster.

    Attributes:
        queries: The requests.
        settings: The settings of migrations.
        reader: The reader of the cluster.
        started: Tasks that this process started.
    """

    queries: Queries
    settings: ProxmoxSettings
    reader: ProxmoxClusterReader
    started: StartedTasks

    def start(
        self,
        migration: Migration,
        task: ProxmoxTask,
        row: ResourceRow,
        resources: Iterable[ResourceRow],
        observed: Snapshot | None,
    ) -> None:
        """Request *migration*, unless it is in progress already.

        Args:
            migration: The migration.
            task: Its task.
            row: The row of its guest.
            resources: Rows of nodes, guests and storages.
            observed: The last snapshot, with the disks that the limits have decided
                about; None if there is none.

        Raises:
            UnsupportedError: The kind of migration does not suit the guest.
            PlatformUnavailableError: There is no answer; it may have started.
            PlatformError: It is not possible.
        """
        self._require_kind(migration, row)
        if self._is_in_progress(task, row):
            return
        is_stopped = isinstance(migration, Relocation)
        require_startable(task, row, resources, "stopped" if is_stopped else "running")
        self.queries.require_settled(task.guest, row.hastate)
        known = self._require_preconditions(task, observed)
        parameters = self._parameters(task, known, is_running=row.status == "running")
        upid = Upid.parse(
            self.queries.migrate(task.source, task.kind, task.vmid, parameters)
        )
        self.started.add(task, upid)
        self.reader.remember_target(upid.text, task.target)

    def status(self, task: ProxmoxTask) -> TaskStatus:
        """Return the status of *task* according to both nodes and the HA manager.

        Raises:
            PlatformError: A node that determines the status cannot be queried.
        """
        started = self.started.upid_of(task)
        since = started.started_at if started else None
        unavailable: PlatformUnavailableError | None = None
        try:
            rows = self.started.rows(task)
        except PlatformUnavailableError as error:
            rows, unavailable = (), error
        running = newest(rows, MIGRATIONS, since, is_running)
        if running is not None:
            return TaskStatus(TaskState.RUNNING, f"task {running.upid}")
        ha = self._ha_evidence(task, rows)
        if ha is not None and is_moving(task, ha):
            return TaskStatus(TaskState.RUNNING, "the HA manager migrates it")
        # Read last: a guest that is on the source now was not moved by an ended task.
        place = self.queries.guest_place(task.kind, task.vmid)
        if unavailable is not None and place.node != task.target:
            raise unavailable
        evidence = PveMigrationEvidence(
            place=place, tasks=rows, ha=ha, started_after=since
        )
        return migration_status(
            task, evidence, self.settings.ha_timeout, self.queries.log_detail
        )

    def _ha_evidence(
        self, task: ProxmoxTask, tasks: Iterable[TaskRow]
    ) -> HaStatus | None:
        """Return the HA manager if it migrates the guest.

        The HA manager knows a new resource only some seconds after the API does.
        """
        ha = self.queries.ha_status()
        last = newest(tasks, MIGRATIONS)
        is_requested = last is not None and last.type == HA_REQUEST
        if ha.disarm_mode == IGNORE or not (task.sid in ha.services or is_requested):
            return None
        return ha

    def _require_kind(self, action: Migration, row: ResourceRow) -> None:
        is_container = GUEST_TYPES[row.type] is GuestKind.CONTAINER
        if isinstance(action, Relocation):
            return
        if is_container and isinstance(action, LiveMigration):
            raise UnsupportedError(f"{action.guest}: containers do not migrate live")
        if is_container and not self.settings.restart_containers:
            raise UnsupportedError(
                f"{action.guest}: migrates by a restart; set restart_containers"
            )
        if not is_container and isinstance(action, ColdMigration):
            raise UnsupportedError(
                f"{action.guest}: virtual machines that run migrate live only"
            )

    def _is_in_progress(self, task: ProxmoxTask, row: ResourceRow) -> bool:
        """Return True if the migration needs no request.

        Raises:
            PlatformError: Another process migrates the guest.
        """
        if row.hastate is None and not row.lock and task not in self.started:
            running = newest(
                self.queries.tasks_of(row.node or "", task.vmid, MIGRATIONS),
                MIGRATIONS,
                predicate=is_running,
            )
            if running is not None:
                raise PlatformError(f"{task.guest}: being migrated: {running.upid}")
            return False
        if task.source == task.target:
            return False
        status = self.status(task)
        if task in self.started:
            if status.state is TaskState.RUNNING:
                return True
            self.started.discard(task)
        return self._is_moved_along(task, row, status)

    def _is_moved_along(
        self, task: ProxmoxTask, row: ResourceRow, status: TaskStatus
    ) -> bool:
        """Return True if the HA manager migrates the guest to the target by itself.

        Raises:
            PlatformError: Another process migrates the guest.
        """
        if row.hastate is not None:
            if row.node == task.target and row.hastate in SETTLED_STATES:
                return True
            service = self.queries.ha_status().services.get(task.sid)
            if (
                service is not None
                and service.state in MOVING_STATES
                and service.target == task.target
            ):
                return True
        if status.state is TaskState.RUNNING:
            raise PlatformError(f"{task.guest}: being migrated: {status.detail}")
        return False

    def _require_preconditions(
        self, task: ProxmoxTask, observed: Snapshot | None
    ) -> Preconditions:
        """Return the preconditions of a migration that is possible.

        Raises:
            PlatformError: The guest cannot migrate to the target, or with a copy of a
                disk that the limits have not decided about.
        """
        try:
            known, disks = self.reader.guests.read_guest(
                task.source, task.kind, task.vmid, task.target
            )
        except PlatformUnavailableError as error:
            # Nothing was requested: the controller may try again.
            raise PlatformError(str(error)) from None
        unseen = unseen_copies(task, known, disks, observed)
        blockers = (*known.blockers, *unseen)
        target_blocker = known.target_blocker(task.target, self.settings)
        if target_blocker is not None:
            blockers = (*blockers, target_blocker)
        if blockers:
            raise PlatformError(f"{task.guest}: cannot migrate: {'; '.join(blockers)}")
        return known

    def _parameters(
        self, task: ProxmoxTask, known: Preconditions, *, is_running: bool
    ) -> dict[str, object]:
        """Return the parameters of the request; only those that are needed."""
        settings = self.settings
        parameters: dict[str, object] = {"target": task.target}
        if settings.bandwidth is not None:
            parameters["bwlimit"] = settings.bandwidth // KIB
        if GUEST_TYPES[task.kind] is GuestKind.CONTAINER:
            if is_running:
                parameters["restart"] = True
                parameters["timeout"] = round(settings.container_timeout)
            if settings.target_storage is not None:
                parameters["target_storage"] = settings.target_storage
            return parameters
        if is_running:
            parameters["online"] = True
        if known.local_disks:
            parameters["with_local_disks"] = True
            if settings.target_storage is not None:
                parameters["targetstorage"] = settings.target_storage
        # Versions without the parameter do not report the state either.
        if is_running and settings.keep_connections and known.has_connection_state:
            parameters["with_conntrack_state"] = True
        return parameters
