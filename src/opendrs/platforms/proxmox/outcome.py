"""Outcome of a migration or of the move of a disk, determined from the cluster alone.

The process that asks may not have started it. The location of the guest, its lock and
the state of its HA service are authoritative, and for disks the configuration of the
guest; tasks and their logs explain failures. Under HA, the request is one task and the
migration another, started by root some seconds later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from opendrs.platforms.proxmox.configured_disks import disk_storages
from opendrs.platforms.proxmox.ha import MOVING_STATES, SETTLED_STATES, HaStatus
from opendrs.platforms.proxmox.responses import TaskRow
from opendrs.platforms.proxmox.tasks import (
    HA_REQUEST,
    MOVES,
    DiskMoveTask,
    ProxmoxTask,
)
from opendrs.ports import TaskState, TaskStatus

_SUCCESS = ("OK", "WARNINGS")


@dataclass(frozen=True, slots=True)
class GuestPlace:
    """Place of a guest.

    Attributes:
        node: Its node; None if it is not in the cluster.
        lock: Its lock; None if it is not locked.
    """

    node: str | None = None
    lock: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PveMigrationEvidence:
    """Observations about one migration.

    Attributes:
        place: Place of the guest, read after the tasks.
        tasks: Ended migrations of the guest on the source node, in any order.
        ha: The HA manager; None if it does not manage the guest.
        started_after: Time in seconds since 1970 before which tasks belong to former
            migrations; None if unknown.
    """

    place: GuestPlace
    tasks: tuple[TaskRow, ...] = ()
    ha: HaStatus | None = None
    started_after: int | None = None


ReadLog = Callable[[TaskRow], str]


def migration_status(
    task: ProxmoxTask,
    evidence: PveMigrationEvidence,
    ha_timeout: float,
    read_log: ReadLog,
) -> TaskStatus:
    """Return the status of *task*.

    Args:
        task: The migration.
        evidence: The observations.
        ha_timeout: Seconds in which the HA manager must begin a migration.
        read_log: Function that returns the cause of a failed task from its log.
    """
    place = evidence.place
    if place.node == task.target:
        return _status_on_target(task, evidence)
    if place.node != task.source:
        where = f"is on {place.node}" if place.node else "is not in the cluster"
        return TaskStatus(TaskState.LOST, f"{task.guest} {where}")
    if evidence.ha is not None:
        return _status_of_service(task, evidence, evidence.ha, ha_timeout, read_log)
    move = newest(evidence.tasks, MOVES, evidence.started_after)
    return _not_moved(task, place, move, read_log)


def disk_move_status(
    task: DiskMoveTask,
    configuration: Mapping[str, object],
    last: TaskRow | None,
    read_log: ReadLog,
) -> TaskStatus:
    """Return the status of *task* when no disk of the guest is being moved.

    Args:
        task: The move of a disk.
        configuration: The configuration of the guest, read after the tasks.
        last: The task that ended last and may be *task*; None if there is none.
        read_log: Function that returns the cause of a failed task from its log.
    """
    storages = disk_storages(configuration)
    storage = storages.get(task.disk)
    where = f"{task.disk} of {task.guest} is on {storage}"
    if storage == task.target_storage:
        left = [
            key
            for key, name in storages.items()
            if key.startswith("unused") and name == task.source_storage
        ]
        if left:
            where += f"; {task.source_storage} has the unused disk {', '.join(left)}"
        return TaskStatus(TaskState.DONE, where)
    if storage is None:
        return TaskStatus(TaskState.LOST, f"{task.guest} has no disk {task.disk}")
    if storage != task.source_storage:
        return TaskStatus(TaskState.LOST, where)
    lock = configuration.get("lock")
    return _failure(where, lock if isinstance(lock, str) else None, last, read_log)


def is_moving(task: ProxmoxTask, ha: HaStatus) -> bool:
    """Return True if the HA manager migrates the guest to the target of *task*."""
    service = ha.services.get(task.sid)
    return (
        service is not None
        and service.state in MOVING_STATES
        and service.target in (None, task.target)
    )


def newest(
    tasks: Iterable[TaskRow],
    types: Iterable[str],
    since: int | None = None,
    predicate: Callable[[TaskRow], bool] = lambda _: True,
) -> TaskRow | None:
    """Return the task of one of *types* that started last; None if there is none."""
    kinds = frozenset(types)
    found = [
        task
        for task in tasks
        if task.type in kinds and (task.starttime or 0) >= (since or 0)
    ]
    matching = [task for task in found if predicate(task)]
    return max(matching, key=lambda task: task.starttime or 0, default=None)


def _status_on_target(task: ProxmoxTask, evidence: PveMigrationEvidence) -> TaskStatus:
    if lock := evidence.place.lock:
        return TaskStatus(
            TaskState.RUNNING, f"{task.guest} is locked on {task.target}: {lock}"
        )
    service = evidence.ha.services.get(task.sid) if evidence.ha else None
    if service is not None and service.state == "error":
        return TaskStatus(
            TaskState.FAILED, f"{task.guest} is on {task.target} in the HA state error"
        )
    is_settled = service is None or service.state in SETTLED_STATES
    if not is_settled or (service is not None and service.node == task.source):
        return TaskStatus(
            TaskState.RUNNING, f"HA manager: {service.state if service else ''}"
        )
    return TaskStatus(TaskState.DONE, f"{task.guest} is on {task.target}")


def _status_of_service(
    task: ProxmoxTask,
    evidence: PveMigrationEvidence,
    ha: HaStatus,
    ha_timeout: float,
    read_log: ReadLog,
) -> TaskStatus:
    """Return the status of a guest of the HA manager that is on its source."""
    service = ha.services.get(task.sid)
    if service is not None and service.state == "error":
        return TaskStatus(
            TaskState.FAILED,
            f"{task.guest} is on {task.source} in the HA state error; disable it and "
            "fix it first",
        )
    if service is not None and service.state in MOVING_STATES:
        if is_moving(task, ha):
            return TaskStatus(TaskState.RUNNING, f"HA manager: {service.state}")
        return TaskStatus(
            TaskState.FAILED,
            f"the HA manager migrates {task.guest} to {service.target} instead",
        )
    request = newest(evidence.tasks, (HA_REQUEST,), evidence.started_after)
    since = evidence.started_after if request is None else request.starttime
    move = newest(evidence.tasks, MOVES, since)
    if request is None or move is not None or not _succeeded(request):
        return _not_moved(task, evidence.place, move or request, read_log)
    waited = (ha.reported_at or 0) - (request.endtime or 0)
    if waited > ha_timeout:
        state = service.state if service else "unknown"
        return TaskStatus(
            TaskState.FAILED,
            f"the HA manager accepted the request and did not begin within "
            f"{ha_timeout:g} s (state {state}); {task.guest} is on {task.source}",
        )
    return TaskStatus(TaskState.RUNNING, "requested from the HA manager")


def _not_moved(
    task: ProxmoxTask, place: GuestPlace, last: TaskRow | None, read_log: ReadLog
) -> TaskStatus:
    """Return the status of a guest on its source without a running migration."""
    return _failure(f"{task.guest} is on {task.source}", place.lock, last, read_log)


def _failure(
    where: str, lock: str | None, last: TaskRow | None, read_log: ReadLog
) -> TaskStatus:
    """Return the status of a task that has changed nothing and does not run.

    Args:
        where: Where the guest or the disk is.
        lock: The lock of the guest, if any.
        last: The last task; None if there is none.
        read_log: Function that returns the cause of a failed task from its log.
    """
    if lock is not None:
        where += f", locked: {lock}"
    if last is None or _succeeded(last):
        return TaskStatus(
            TaskState.FAILED,
            f"nothing in progress: it failed, was aborted, or never started; {where}",
        )
    detail = "; ".join(filter(None, (last.status, read_log(last))))
    return TaskStatus(TaskState.FAILED, f"{detail}; {where}")


def _succeeded(task: TaskRow) -> bool:
    return (task.status or "").startswith(_SUCCESS)
