"""Outcome of migrations and of moves of disks, from what the cluster reports."""

from __future__ import annotations

import pytest

from opendrs.model import GuestId, NodeId
from opendrs.platforms.proxmox.ha import HaService, HaStatus
from opendrs.platforms.proxmox.outcome import (
    GuestPlace,
    PveMigrationEvidence,
    disk_move_status,
    migration_status,
)
from opendrs.platforms.proxmox.responses import TaskRow
from opendrs.platforms.proxmox.tasks import DiskMoveTask, ProxmoxTask
from opendrs.ports import TaskState

TASK = ProxmoxTask(GuestId("web"), "qemu", 100, NodeId("n1"), NodeId("n2"))
SOURCE, TARGET = GuestPlace("n1"), GuestPlace("n2")


def row(kind: str, start: int, end: int | None = None, status: str = "OK") -> TaskRow:
    return TaskRow(
        upid=f"UPID:{kind}:{start}",
        node="n1",
        type=kind,
        id="100",
        starttime=start,
        endtime=end,
        status=None if end is None else status,
    )


def ha(
    state: str, node: str = "n1", target: str | None = None, now: int = 20
) -> HaStatus:
    return HaStatus(
        services={"vm:100": HaService(state, node, target)}, reported_at=now
    )


def state(evidence: PveMigrationEvidence) -> TaskState:
    return migration_status(TASK, evidence, 60, lambda _: "cause").state


@pytest.mark.parametrize(
    ("place", "manager", "expected"),
    [
        (TARGET, None, TaskState.DONE),
        (GuestPlace("n2", "migrate"), None, TaskState.RUNNING),
        (TARGET, ha("started", "n2"), TaskState.DONE),
        (TARGET, ha("migrate", "n1", "n2"), TaskState.RUNNING),
        (TARGET, ha("started", "n1"), TaskState.RUNNING),
        (TARGET, ha("request_stop", "n2"), TaskState.RUNNING),
        (TARGET, ha("error", "n2"), TaskState.FAILED),
    ],
)
def test_guest_on_target_is_done_when_lock_and_ha_have_settled(
    place: GuestPlace, manager: HaStatus | None, expected: TaskState
) -> None:
    evidence = PveMigrationEvidence(place=place, ha=manager)

    assert state(evidence) is expected


@pytest.mark.parametrize(
    "tasks",
    [(), (row("qmigrate", 1, 2, "migration aborted"),), (row("qmigrate", 1, 2),)],
)
def test_guest_on_source_without_a_running_task_has_failed(
    tasks: tuple[TaskRow, ...],
) -> None:
    assert state(PveMigrationEvidence(place=SOURCE, tasks=tasks)) is TaskState.FAILED


REQUEST = row("hamigrate", 10, 12)


@pytest.mark.parametrize(
    ("tasks", "manager", "expected"),
    [
        ((REQUEST,), ha("started"), TaskState.RUNNING),
        ((REQUEST,), ha("migrate", "n1", "n2"), TaskState.RUNNING),
        ((REQUEST,), ha("migrate", "n1", "n3"), TaskState.FAILED),
        ((REQUEST,), ha("error"), TaskState.FAILED),
        ((REQUEST,), ha("started", now=80), TaskState.FAILED),
        ((row("hamigrate", 10, 12, "refused"),), ha("started"), TaskState.FAILED),
        ((REQUEST, row("qmigrate", 14, 15, "x")), ha("started"), TaskState.FAILED),
        ((row("qmigrate", 4, 5, "x"), REQUEST), ha("started"), TaskState.RUNNING),
        ((), ha("started"), TaskState.FAILED),
    ],
)
def test_request_to_the_ha_manager_is_followed_to_the_migration(
    tasks: tuple[TaskRow, ...], manager: HaStatus, expected: TaskState
) -> None:
    evidence = PveMigrationEvidence(place=SOURCE, tasks=tasks, ha=manager)

    assert state(evidence) is expected


def test_tasks_before_the_start_are_those_of_former_migrations() -> None:
    tasks = (row("qmigrate", 1, 2, "migration aborted"),)
    evidence = PveMigrationEvidence(place=SOURCE, tasks=tasks, started_after=5)

    status = migration_status(TASK, evidence, 60, lambda _: "cause")

    assert "cause" not in status.detail


@pytest.mark.parametrize("node", [None, "n3"])
def test_guest_on_neither_node_is_lost(node: str | None) -> None:
    evidence = PveMigrationEvidence(place=GuestPlace(node))

    assert state(evidence) is TaskState.LOST


DISK_MOVE = DiskMoveTask(
    GuestId("web"), "qemu", 100, NodeId("n1"), "scsi0", "one", "two"
)
FAILED_MOVE = row("qmmove", 1, 2, "storage migration failed")


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [
        ({"scsi0": "two:disk,size=1G", "scsi1": "one:disk"}, TaskState.DONE),
        ({"scsi0": "one:disk,size=1G", "scsi1": "two:disk"}, TaskState.FAILED),
        ({"scsi0": "three:disk,size=1G"}, TaskState.LOST),
        ({"unused0": "two:disk"}, TaskState.LOST),
    ],
)
@pytest.mark.parametrize("last", [None, FAILED_MOVE, row("qmmove", 1, 2)])
def test_storage_of_the_disk_determines_the_outcome(
    configuration: dict[str, object], expected: TaskState, last: TaskRow | None
) -> None:
    status = disk_move_status(DISK_MOVE, configuration, last, lambda _: "cause")

    assert status.state is expected


def test_failed_move_of_a_disk_has_its_cause_and_the_lock() -> None:
    configuration = {"scsi0": "one:disk", "lock": "disk"}

    status = disk_move_status(DISK_MOVE, configuration, FAILED_MOVE, lambda _: "cause")

    assert status.detail.startswith("storage migration failed; cause; ")
    assert status.detail.endswith("locked: disk")


@pytest.mark.parametrize(
    ("unused", "is_named"), [("one:disk", True), ("three:disk", False)]
)
def test_unused_disk_on_the_source_is_named(unused: str, *, is_named: bool) -> None:
    configuration = {"scsi0": "two:disk", "unused3": unused}

    status = disk_move_status(DISK_MOVE, configuration, None, lambda _: "")

    assert ("unused3" in status.detail) is is_named
