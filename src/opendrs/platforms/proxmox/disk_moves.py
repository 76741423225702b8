"""Moves of disks to another storage of the node: checks, the request, and the status.

The configuration of the guest is authoritative: it names the storage of the source
until the copy is complete, and that of the target afterwards. The request contains the
digest of the configuration that was checked, so that the API rejects it if another
process has changed the guest since.

Source:
    Documentation of the API of Proxmox VE: `POST /nodes/{node}/qemu/{vmid}/move_disk`
    with `disk` and `lxc/{vmid}/move_volume` with `volume`. Both return a task, of the
    types qmmove and move_volume. Volumes of running containers cannot be moved.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from opendrs.errors import PlatformError, PlatformUnavailableError
from opendrs.model import GuestKind
from opendrs.platforms.proxmox.cluster_view import GUEST_TYPES
from opendrs.platforms.proxmox.configured_disks import disk_storages
from opendrs.platforms.proxmox.observation import ProxmoxClusterReader
from opendrs.platforms.proxmox.outcome import disk_move_status, newest
from opendrs.platforms.proxmox.queries import Queries
from opendrs.platforms.proxmox.responses import ResourceRow
from opendrs.platforms.proxmox.settings import KIB, ProxmoxSettings
from opendrs.platforms.proxmox.started_tasks import StartedTasks
from opendrs.platforms.proxmox.tasks import (
    DISK_MOVES,
    MIGRATIONS,
    DiskMoveTask,
    Upid,
    is_running,
    require_on_node,
)
from opendrs.ports import TaskState, TaskStatus


@dataclass(frozen=True, slots=True)
class PveDiskMoves:
    """Moves of the disks of one cluster.

    Attributes:
        queries: The requests.
        settings: The settings of the cluster.
        reader: The reader of the cluster.
        started: Tasks that this process started.
    """

    queries: Queries
    settings: ProxmoxSettings
    reader: ProxmoxClusterReader
    started: StartedTasks

    def start(
        self, task: DiskMoveTask, row: ResourceRow, resources: Iterable[ResourceRow]
    ) -> None:
        """Request a move, unless this process has it in progress already.

        Args:
            task: The move.
            row: The row of its guest.
            resources: Rows of nodes, guests and storages.

        Raises:
            PlatformUnavailableError: There is no answer; it may have started.
            PlatformError: It is not possible.
        """
        require_on_node(task, row)
        if self._is_in_progress(task):
            return
        _require_movable(task, row, resources)
        self.queries.require_settled(task.guest, row.hastate)
        configuration = self._configuration(task, task.node)
        _require_on_source(task, configuration)
        upid = Upid.parse(
            self.queries.move_disk(
                task.node,
                task.kind,
                task.vmid,
                task.disk,
                self._parameters(task, configuration),
            )
        )
        self.started.add(task, upid)
        self.reader.remember_disk_move(upid.text, task)

    def status(self, task: DiskMoveTask) -> TaskStatus:
        """Return the status of *task* according to its node and its guest.

        It is unknown to another process which disk of the guest is being moved.

        Raises:
            PlatformError: The node of the task or of the guest cannot be queried.
        """
        started = self.started.upid_of(task)
        since = started.started_at if started else None
        unavailable: PlatformUnavailableError | None = None
        try:
            rows = self.started.rows(task)
        except PlatformUnavailableError as error:
            rows, unavailable = (), error
        running = newest(rows, DISK_MOVES, since, is_running)
        if running is not None:
            return TaskStatus(TaskState.RUNNING, f"task {running.upid}")
        # Read last: a disk that is on the source now was not moved by an ended task.
        place = self.queries.guest_place(task.kind, task.vmid)
        if unavailable is not None and place.node in (None, task.node):
            raise unavailable  # elsewhere, its disks are not moved by this node
        if place.node is None:
            return TaskStatus(TaskState.LOST, f"{task.guest} is not in the cluster")
        return disk_move_status(
            task,
            self._configuration(task, place.node),
            newest(rows, DISK_MOVES, since),
            self.queries.log_detail,
        )

    def _configuration(self, task: DiskMoveTask, node: str) -> Mapping[str, object]:
        return self.reader.guests.read_disk_move(node, task.kind, task.vmid)

    def _is_in_progress(self, task: DiskMoveTask) -> bool:
        """Return True if the move needs no request.

        Raises:
            PlatformError: The guest is being migrated, or one of its disks moved, and
                this process has not requested that.
        """
        types = DISK_MOVES | MIGRATIONS
        rows = self.queries.tasks_of(task.node, task.vmid, types)
        running = newest(rows, types, predicate=is_running)
        if running is None:
            self.started.discard(task)
            return False
        started = self.started.upid_of(task)
        if started is not None and started.text == running.upid:
            return True
        raise PlatformError(f"{task.guest}: being moved: {running.upid}")

    def _parameters(
        self, task: DiskMoveTask, configuration: Mapping[str, object]
    ) -> dict[str, object]:
        """Return the parameters of the request apart from the disk."""
        parameters: dict[str, object] = {
            "storage": task.target_storage,
            "delete": True,
        }
        if isinstance(digest := configuration.get("digest"), str):
            parameters["digest"] = digest
        if self.settings.bandwidth is not None:
            parameters["bwlimit"] = self.settings.bandwidth // KIB
        return parameters


def _require_movable(
    task: DiskMoveTask, row: ResourceRow, resources: Iterable[ResourceRow]
) -> None:
    """Check what the API would accept and then not carry out.

    Raises:
        PlatformError: The guest is locked, in another state, or a container that runs,
            or the node cannot use the target now.
    """
    is_container = GUEST_TYPES[task.kind] is GuestKind.CONTAINER
    expected = ("stopped",) if is_container else ("running", "stopped")
    if row.status not in expected:
        states = " or ".join(expected)
        status = row.status or "unknown"
        raise PlatformError(f"{task.guest}: not {states}: {status}")
    if row.lock:
        raise PlatformError(f"{task.guest}: locked: {row.lock}")
    targets = [
        each
        for each in resources
        if (each.type, each.node, each.storage)
        == ("storage", task.node, task.target_storage)
    ]
    if not any(each.status == "available" for each in targets):
        state = targets[0].status if targets else "absent"
        raise PlatformError(
            f"{task.node}: storage {task.target_storage} not available: {state}"
        )


def _require_on_source(task: DiskMoveTask, configuration: Mapping[str, object]) -> None:
    """Check that the disk is on the storage that it is to leave.

    Raises:
        PlatformError: It is on another one, or absent.
    """
    storage = disk_storages(configuration).get(task.disk)
    if storage != task.source_storage or storage == task.target_storage:
        raise PlatformError(
            f"{task.guest}: disk {task.disk}: expected on {task.source_storage}, is "
            f"{'absent' if storage is None else f'on {storage}'}"
        )
