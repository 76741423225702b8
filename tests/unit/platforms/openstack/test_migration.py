"""Task of a migration, and its status by the records of Nova."""

from __future__ import annotations

from typing import Any

import pytest

from opendrs.errors import PlatformError
from opendrs.model import GuestId, LiveMigration, NodeId
from opendrs.platforms.openstack.migration import (
    MigrationTask,
    next_task,
    progress_of,
    record_of,
    status_of,
    task_of,
)
from opendrs.platforms.openstack.responses import MigrationRecord
from opendrs.ports import Progress, TaskId, TaskState
from support.cloud_responses import progress, record, server, uuid

MOVE = LiveMigration(GuestId("a/1"), NodeId("h1"), NodeId("h2"))
ON_SOURCE, ON_TARGET = server("a", "h1"), server("a", "h2")
STARTING = server("a", "h1", task_state="migrating")


def task(after: int = 0) -> MigrationTask:
    return MigrationTask(
        guest=MOVE.guest,
        server=uuid("a"),
        source=MOVE.source,
        target=MOVE.target,
        after=after,
    )


def test_task_id_contains_all_that_is_needed() -> None:
    assert MigrationTask.parse(task(3).id) == task(3)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"guest": "a"}', "qmigrate:1"])
def test_task_id_of_other_form_raises_error(text: str) -> None:
    with pytest.raises(PlatformError):
        MigrationTask.parse(TaskId(text))


@pytest.mark.parametrize("status", ["running", "preparing", "completed", "error"])
def test_task_is_same_before_start_and_from_its_record(status: str) -> None:
    earlier = (record(4, "completed"), record(5, "cancelled"))
    before = next_task(MOVE, ON_SOURCE, earlier)
    seen = ON_TARGET if status == "completed" else ON_SOURCE

    after = task_of(MOVE, seen, (*earlier, record(6, status)))

    assert before == after == task(5)


def test_rejected_migration_without_target_is_found() -> None:
    found = task_of(MOVE, ON_SOURCE, (record(6, "error", dest_compute=None),))

    assert found == task(0)


@pytest.mark.parametrize(
    ("newest", "seen"),
    [
        (record(6, "completed"), ON_SOURCE),  # it has been there and back
        (record(6, "running", dest_compute="h3"), ON_SOURCE),
        (record(6, "completed", source_compute="h3"), ON_TARGET),
        (record(6, "confirmed", migration_type="resize"), ON_SOURCE),
    ],
)
def test_other_migration_is_not_the_task(newest: MigrationRecord, seen: Any) -> None:  # noqa: ANN401
    found = task_of(MOVE, seen, (record(5, "completed"), newest))

    assert found == task(6)
    assert record_of(found, (newest,)) is None
    assert status_of(found, None, seen).state is TaskState.LOST


def test_task_of_unknown_guest_is_lost() -> None:
    found = task_of(MOVE, None, ())

    assert status_of(found, None, None).state is TaskState.LOST


def test_record_is_first_one_after_the_start() -> None:
    records = (record(7, "completed"), record(6, "cancelled"), record(5, "error"))

    found = record_of(task(5), records)

    assert found is not None
    assert found.id == 6


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("accepted", TaskState.RUNNING),
        ("queued", TaskState.RUNNING),
        ("preparing", TaskState.RUNNING),
        ("running", TaskState.RUNNING),
        ("post-migrating", TaskState.RUNNING),
        ("completed", TaskState.DONE),
        ("cancelled", TaskState.FAILED),
        ("failed", TaskState.FAILED),
        ("error", TaskState.FAILED),
    ],
)
def test_status_follows_record(status: str, state: TaskState) -> None:
    found = status_of(task(), record(1, status), ON_SOURCE, error="No valid host")

    assert found.state is state
    assert ("No valid host" in found.detail) is (state is TaskState.FAILED)


def test_running_record_of_server_on_target_is_running() -> None:
    found = status_of(task(), record(1, "running"), ON_TARGET)

    assert found.state is TaskState.RUNNING


def test_accepted_migration_without_record_is_running() -> None:
    assert status_of(task(), None, STARTING).state is TaskState.RUNNING
    assert status_of(task(), None, ON_SOURCE).state is TaskState.LOST


def test_progress_is_memory_and_disks() -> None:
    seen = progress(
        "h2",
        memory_total_bytes=100,
        memory_remaining_bytes=40,
        disk_total_bytes=1000,
        disk_remaining_bytes=1000,
    )

    assert progress_of(seen) == Progress(total=1100, remaining=1040)
    assert progress_of(progress("h2")) == Progress()
