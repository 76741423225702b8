"""Task of a live migration, and its status by the records of Nova.

Nova gives no task id for a migration, but keeps a record of each. A task is the first
record of a server with a higher id than the newest record before the start. The task id
is the same whether it is built before the start, or afterwards from the record.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from opendrs.errors import PlatformError
from opendrs.model import GuestId, LiveMigration, NodeId
from opendrs.platforms.openstack.mobility import MIGRATING
from opendrs.platforms.openstack.responses import (
    LiveMigrationProgress,
    MigrationRecord,
    Server,
)
from opendrs.ports import Progress, TaskId, TaskState, TaskStatus

LIVE = "live-migration"
ACTIVE_STATUSES = frozenset(
    {"accepted", "queued", "preparing", "running", "post-migrating"}
)
"""Source: Nova 34, statuses of a live migration in progress."""
_COMPLETED = "completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationTask:
    """Live migration of one server.

    Attributes:
        guest: Id of the guest.
        server: UUID of the server; empty if the guest was not found.
        source: Source node.
        target: Target node.
        after: Id of the newest record of the server before this migration; 0 if none.
    """

    guest: GuestId
    server: str
    source: NodeId
    target: NodeId
    after: int

    @property
    def id(self) -> TaskId:
        """Return the task id, which contains all fields."""
        return TaskId(json.dumps(asdict(self), ensure_ascii=False))

    @classmethod
    def parse(cls, text: TaskId) -> MigrationTask:
        """Return the task with the id *text*.

        Raises:
            PlatformError: It is no id of such a task.
        """
        try:
            return cls(**json.loads(text))
        except (ValueError, TypeError):
            raise PlatformError(f"{text}: not a task of OpenStack") from None


def task_of(
    migration: LiveMigration,
    server: Server | None,
    records: Sequence[MigrationRecord],
) -> MigrationTask:
    """Return the task of *migration*, from what Nova has recorded.

    If the newest record is this migration, the task is that record. Otherwise the
    migration was not started, and its record would be the next.

    Args:
        migration: The migration.
        server: The server; None if it does not exist.
        records: All records of the server.
    """
    if server is None:
        return MigrationTask(
            guest=migration.guest,
            server="",
            source=migration.source,
            target=migration.target,
            after=0,
        )
    ordered = sorted(records, key=lambda record: record.id)
    if ordered and _belongs(ordered[-1], migration, server):
        ordered.pop()
    return next_task(migration, server, ordered)


def next_task(
    migration: LiveMigration, server: Server, records: Sequence[MigrationRecord]
) -> MigrationTask:
    """Return the task of *migration*, which is about to be started."""
    return MigrationTask(
        guest=migration.guest,
        server=server.id,
        source=migration.source,
        target=migration.target,
        after=max((record.id for record in records), default=0),
    )


def _belongs(record: MigrationRecord, migration: LiveMigration, server: Server) -> bool:
    """Return whether *record* may be that of *migration*.

    The target of a refused migration is not recorded. A completed one counts only
    while the server is on the target: earlier, it may have been there and back.
    """
    if record.migration_type != LIVE or record.source_compute != migration.source:
        return False
    if record.status == _COMPLETED:
        on_target = server.host == migration.target
        return on_target and record.dest_compute == migration.target
    return record.dest_compute in (None, migration.target)


def record_of(
    task: MigrationTask, records: Sequence[MigrationRecord]
) -> MigrationRecord | None:
    """Return the record of *task*; None if there is none (yet)."""
    later = [
        record
        for record in records
        if record.id > task.after
        and record.migration_type == LIVE
        and record.source_compute == task.source
        and record.dest_compute in (None, task.target)
    ]
    return min(later, key=lambda record: record.id, default=None)


def status_of(
    task: MigrationTask,
    record: MigrationRecord | None,
    server: Server | None,
    *,
    progress: LiveMigrationProgress | None = None,
    error: str = "",
) -> TaskStatus:
    """Return the status of *task*.

    Args:
        task: The task.
        record: Its record; None if there is none.
        server: The server; None if it does not exist.
        progress: The migration in progress; None if not known.
        error: Why it failed, if known.
    """
    if record is None:
        if server is not None and _is_starting(task, server):
            return TaskStatus(TaskState.RUNNING, "accepted")
        where = "deleted" if server is None else f"on {server.host}"
        return TaskStatus(
            TaskState.LOST, f"{task.guest}: no such migration; the server is {where}"
        )
    if record.status in ACTIVE_STATUSES:
        return TaskStatus(
            TaskState.RUNNING,
            record.status,
            None if progress is None else progress_of(progress),
        )
    if record.status == _COMPLETED:
        return TaskStatus(TaskState.DONE, f"{task.guest} runs on {task.target}")
    reason = f": {error}" if error else ""
    return TaskStatus(
        TaskState.FAILED, f"migration {record.id} is {record.status}{reason}"
    )


def _is_starting(task: MigrationTask, server: Server) -> bool:
    """Return whether Nova has accepted a migration without a record so far."""
    return server.task_state == MIGRATING and server.host == task.source


def progress_of(migration: LiveMigrationProgress) -> Progress:
    """Return the bytes of memory and disks together."""
    total = _sum(migration.memory_total_bytes, migration.disk_total_bytes)
    remaining = _sum(migration.memory_remaining_bytes, migration.disk_remaining_bytes)
    # Nova reports 0 of 0 bytes before the copy begins.
    return Progress(total=total, remaining=remaining) if total else Progress()


def _sum(memory: int | None, disk: int | None) -> int | None:
    return None if memory is None else memory + (disk or 0)
