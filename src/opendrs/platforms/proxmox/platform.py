"""Platform for a Proxmox VE cluster."""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock

from opendrs.errors import (
    PermissionDeniedError,
    PlatformError,
    PlatformUnavailableError,
    UnsupportedError,
)
from opendrs.model import (
    Action,
    ColdMigration,
    GuestKind,
    LiveMigration,
    Migration,
    Relocation,
    Rule,
    Snapshot,
)
from opendrs.platforms.proxmox.client import ProxmoxClient
from opendrs.platforms.proxmox.cluster_view import GUEST_TYPES, guest_ids, guest_rows
from opendrs.platforms.proxmox.disk_copies import unseen_copies
from opendrs.platforms.proxmox.ha import (
    IGNORE,
    MOVING_STATES,
    SETTLED_STATES,
    HaStatus,
    is_settled,
)
from opendrs.platforms.proxmox.login import read_login
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
from opendrs.platforms.proxmox.tasks import (
    HA_REQUEST,
    MIGRATIONS,
    ProxmoxTask,
    Upid,
    is_running,
    require_startable,
)
from opendrs.ports import TaskId, TaskState, TaskStatus


class ProxmoxPlatform:
    """Cluster of Proxmox VE 8 or 9."""

    def __init__(
        self, name: str, settings: ProxmoxSettings, rules: Iterable[Rule] = ()
    ) -> None:
        """Read the secrets, without connecting.

        Args:
            name: The name of the cluster.
            settings: The API hosts, and the settings of migrations.
            rules: Placement rules in addition to those of the cluster.

        Raises:
            ConfigurationError: A secret or a certificate cannot be read.
        """
        self._name = name
        self._settings = settings
        self._rules = tuple(rules)
        self._client = ProxmoxClient(settings, read_login(f"platform {name}", settings))
        self._queries = Queries(self._client, settings)
        self._reader = ProxmoxClusterReader(
            name=name, queries=self._queries, settings=settings
        )
        self._observed: Snapshot | None = None
        self._lock = Lock()
        self._started: dict[ProxmoxTask, Upid] = {}

    @property
    def name(self) -> str:
        """Return the name of the cluster."""
        return self._name

    @property
    def request_count(self) -> int:
        """Return the number of requests so far."""
        return self._client.request_count

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def observe(self) -> Snapshot:
        """Return a snapshot of the cluster.

        A node that does not answer is in the state unknown.

        Raises:
            PermissionDeniedError: The login is rejected, lacks a privilege, or a host
                has another certificate than the pinned one.
            PlatformUnavailableError: No API host answers.
        """
        self._observed = self._reader.read_snapshot(self._rules)
        return self._observed

    def start(self, action: Action) -> TaskId:
        """Request a migration and return immediately.

        A migration that this process already has in progress is not requested again,
        nor is that of a guest that the HA manager migrates along with another one.

        Raises:
            UnsupportedError: *action* is not a live migration of a virtual machine, a
                cold migration of a container, or the relocation of a stopped guest.
            PlatformUnavailableError: There is no answer; the migration may have
                started.
            PlatformError: The guest is not on the source, is being migrated, cannot
                migrate to the target, or has a local disk that the last observation
                did not read.
        """
        migration = _require_supported(action)
        resources = self._queries.resources()
        row = self._find_row(migration, resources)
        if row is None:
            raise PlatformError(f"{migration.guest}: not in the cluster")
        task = ProxmoxTask.from_action(migration, row.type, row.vmid or 0)
        self._require_kind(migration, row)
        with self._lock:
            if not self._is_in_progress(task, row):
                require_startable(
                    task,
                    row,
                    resources,
                    "stopped" if isinstance(migration, Relocation) else "running",
                )
                self._require_settled(task, row)
                known = self._require_preconditions(task)
                upid = Upid.parse(
                    self._queries.migrate(
                        task.source,
                        task.kind,
                        task.vmid,
                        self._parameters(
                            task, known, is_running=row.status == "running"
                        ),
                    )
                )
                self._started[task] = upid
                self._reader.remember_target(upid.text, task.target)
        return task.id

    def find(self, action: Action) -> TaskId:
        """Return the id of the task that *action* would have.

        Raises:
            UnsupportedError: *action* is not a migration.
            PlatformError: The cluster cannot be queried.
        """
        migration = _require_supported(action)
        row = self._find_row(migration, self._queries.resources())
        if row is None:
            return ProxmoxTask.from_action(migration, "", 0).id
        return ProxmoxTask.from_action(migration, row.type, row.vmid or 0).id

    def status(self, task: TaskId) -> TaskStatus:
        """Return the status of *task* according to both nodes and the HA manager.

        Raises:
            PlatformError: A node that determines the status cannot be queried.
        """
        return self._status(ProxmoxTask.parse(task))

    def abort(self, task: TaskId) -> None:
        """Stop the task of a migration; has no effect on a task that has ended.

        Raises:
            PermissionDeniedError: The HA manager runs the migration, and the privilege
                Sys.Modify on the node is missing.
            PlatformError: The source node cannot be queried.
        """
        parsed = ProxmoxTask.parse(task)
        if not parsed.vmid:
            return
        rows = self._queries.migrations_of(parsed.source, parsed.vmid)
        running = newest(rows, MIGRATIONS, predicate=is_running)
        if running is None:
            return
        try:
            self._queries.stop_task(parsed.source, running.upid)
        except PermissionDeniedError as error:
            raise PermissionDeniedError(
                f"{error}; only the owner of a task stops it without Sys.Modify on "
                f"/nodes/{parsed.source}"
            ) from None

    def _status(self, task: ProxmoxTask) -> TaskStatus:
        if not task.vmid:
            return TaskStatus(TaskState.LOST, f"{task.guest} is not in the cluster")
        started = self._started.get(task)
        since = started.started_at if started else None
        tasks = self._migrations_of(task)
        rows = () if isinstance(tasks, PlatformError) else tasks
        running = newest(rows, MIGRATIONS, since, is_running)
        if running is not None:
            return TaskStatus(TaskState.RUNNING, f"task {running.upid}")
        ha = self._ha_evidence(task, rows)
        if ha is not None and is_moving(task, ha):
            return TaskStatus(TaskState.RUNNING, "the HA manager migrates it")
        # Read last: a guest that is on the source now was not moved by an ended task.
        place = self._queries.guest_place(task.kind, task.vmid)
        if isinstance(tasks, PlatformError) and place.node != task.target:
            raise tasks
        evidence = PveMigrationEvidence(
            place=place, tasks=rows, ha=ha, started_after=since
        )
        return migration_status(
            task, evidence, self._settings.ha_timeout, self._queries.log_detail
        )

    def _migrations_of(
        self, task: ProxmoxTask
    ) -> tuple[TaskRow, ...] | PlatformUnavailableError:
        """Return the migrations on the source node, or why it does not answer.

        A migration that this process started is followed by its identifier. Under HA,
        this is the request, and others follow it.
        """
        started = self._started.get(task)
        try:
            row = None if started is None else self._queries.task(started)
            if row is not None and (is_running(row) or row.type != HA_REQUEST):
                return (row,)
            return self._queries.migrations_of(task.source, task.vmid)
        except PlatformUnavailableError as error:
            return error

    def _ha_evidence(
        self, task: ProxmoxTask, tasks: Iterable[TaskRow]
    ) -> HaStatus | None:
        """Return the HA manager if it migrates the guest.

        The HA manager knows a new resource only some seconds after the API does.
        """
        ha = self._queries.ha_status()
        last = newest(tasks, MIGRATIONS)
        is_requested = last is not None and last.type == HA_REQUEST
        if ha.disarm_mode == IGNORE or not (task.sid in ha.services or is_requested):
            return None
        return ha

    def _find_row(
        self, action: Migration, resources: Iterable[ResourceRow]
    ) -> ResourceRow | None:
        rows = guest_rows(resources)
        ids = guest_ids(rows, self._settings.guest_ids)
        return next((row for row in rows if ids[row.vmid or 0] == action.guest), None)

    def _require_kind(self, action: Migration, row: ResourceRow) -> None:
        is_container = GUEST_TYPES[row.type] is GuestKind.CONTAINER
        if isinstance(action, Relocation):
            return
        if is_container and isinstance(action, LiveMigration):
            raise UnsupportedError(f"{action.guest}: containers do not migrate live")
        if is_container and not self._settings.restart_containers:
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
        if row.hastate is None and not row.lock and task not in self._started:
            running = newest(
                self._queries.migrations_of(row.node or "", task.vmid),
                MIGRATIONS,
                predicate=is_running,
            )
            if running is not None:
                raise PlatformError(f"{task.guest}: being migrated: {running.upid}")
            return False
        if task.source == task.target:
            return False
        status = self._status(task)
        if task in self._started:
            if status.state is TaskState.RUNNING:
                return True
            self._started.pop(task)
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
            service = self._queries.ha_status().services.get(task.sid)
            if (
                service is not None
                and service.state in MOVING_STATES
                and service.target == task.target
            ):
                return True
        if status.state is TaskState.RUNNING:
            raise PlatformError(f"{task.guest}: being migrated: {status.detail}")
        return False

    def _require_settled(self, task: ProxmoxTask, row: ResourceRow) -> None:
        """Check that the HA manager does not act on the guest.

        Raises:
            PlatformError: It does.
        """
        if row.hastate is None or row.hastate in SETTLED_STATES:
            return
        if not is_settled(self._queries.ha_status(), row.hastate):
            raise PlatformError(f"{task.guest}: HA state {row.hastate}")

    def _require_preconditions(self, task: ProxmoxTask) -> Preconditions:
        """Return the preconditions of a migration that is possible.

        Raises:
            PlatformError: The guest cannot migrate to the target, or with a copy of a
                disk that the limits have not decided about.
        """
        try:
            known, disks = self._reader.guests.read_guest(
                task.source, task.kind, task.vmid, task.target
            )
        except PlatformUnavailableError as error:
            # Nothing was requested: the controller may try again.
            raise PlatformError(str(error)) from None
        unseen = unseen_copies(task, known, disks, self._observed)
        blockers = (*known.blockers, *unseen)
        target_blocker = known.target_blocker(task.target, self._settings)
        if target_blocker is not None:
            blockers = (*blockers, target_blocker)
        if blockers:
            raise PlatformError(f"{task.guest}: cannot migrate: {'; '.join(blockers)}")
        return known

    def _parameters(
        self, task: ProxmoxTask, known: Preconditions, *, is_running: bool
    ) -> dict[str, object]:
        """Return the parameters of the request; only those that are needed."""
        settings = self._settings
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


def _require_supported(action: Action) -> Migration:
    if not isinstance(action, LiveMigration | ColdMigration | Relocation):
        raise UnsupportedError(f"proxmox: not supported: {type(action).__name__}")
    return action
