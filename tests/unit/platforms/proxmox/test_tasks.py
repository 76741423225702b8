"""Tasks of Proxmox VE: identifiers, targets and causes in logs, task ids."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from opendrs.errors import PlatformError
from opendrs.model import DiskMove, GuestId, LiveMigration, NodeId, Transfer
from opendrs.platforms.proxmox.responses import LogRow, ResourceRow, TaskRow
from opendrs.platforms.proxmox.tasks import (
    ProxmoxTask,
    Upid,
    log_detail,
    log_target,
    parse_task,
    running_operation,
    task_of,
)
from opendrs.ports import TaskId

UPID = "UPID:pve1:00000B9F:00093C5F:6B029CF9:qmigrate:100:drs@pve!t1:"
MOVE = LiveMigration(GuestId("web"), NodeId("n1"), NodeId("n2"))
DISK_MOVE = DiskMove(GuestId("web"), NodeId("n1"), "scsi0", "one", "two")


def log(*lines: str) -> list[LogRow]:
    return [LogRow(n=number, t=line) for number, line in enumerate(lines, 1)]


def test_upid_has_node_start_type_and_guest() -> None:
    upid = Upid.parse(UPID)

    assert (upid.node, upid.type, upid.id) == ("pve1", "qmigrate", "100")
    assert upid.started_at == 0x6B029CF9


@pytest.mark.parametrize("text", ["", "UPID:pve1", UPID[:-1], None, 5, f"{UPID}\n"])
def test_other_text_is_no_upid(text: object) -> None:
    with pytest.raises(PlatformError):
        Upid.parse(text)


@pytest.mark.parametrize(
    ("line", "target"),
    [
        ("2026-11-22 08:13:42 starting migration of VM 101 to node 'pve2' (x)", "pve2"),
        ("2026-11-22 08:13:42 starting migration of CT 110 to node 'pve3' (x)", "pve3"),
        ("Requesting HA migration for VM 100 to node pve2", "pve2"),
        ("trying to acquire lock...", None),
    ],
)
def test_target_is_in_the_log(line: str, target: str | None) -> None:
    assert log_target(log("task started by HA resource agent", line)) == target


def test_detail_of_a_failed_task_is_the_cause_and_its_last_lines() -> None:
    detail = log_detail(
        log(
            "2026 # /usr/bin/ssh root@10.78.0.2 /bin/true",
            "2026 ssh: connect to host 10.78.0.2 port 22: Connection refused",
            "2026 ERROR: migration aborted (duration 00:00:00): Can't connect",
            "TASK ERROR: migration aborted",
        )
    )

    assert detail.startswith("Can't connect; ")
    assert "Connection refused" in detail
    assert "TASK" not in detail


def test_detail_of_a_long_log_has_only_its_last_lines() -> None:
    detail = log_detail(log(*(f"line {number}" for number in range(100))))

    assert detail == "; ".join(f"line {number}" for number in range(95, 100))


def test_log_that_is_absent_or_empty_has_no_cause() -> None:
    absent = log("unable to open file - No such file or directory")

    assert log_detail(absent) == ""
    assert log_detail(log("no content")) == ""


@pytest.mark.parametrize(
    ("kind", "end", "expected"),
    [
        ("vzdump", None, "backup"),
        ("vzdump", 5, None),
        ("qmigrate", None, None),
        ("vncproxy", None, None),
    ],
)
def test_running_job_of_a_guest_is_its_operation(
    kind: str, end: int | None, expected: str | None
) -> None:
    tasks = [TaskRow(upid="u", type=kind, id="100", endtime=end)]

    assert running_operation(tasks, 100) == expected
    assert running_operation(tasks, 101) is None


def test_equal_migrations_have_equal_task_ids() -> None:
    task = ProxmoxTask.from_action(MOVE, "qemu", 100)

    assert parse_task(task.id) == task
    assert ProxmoxTask.from_action(MOVE, "qemu", 100).id == task.id
    assert json.loads(task.id).keys() == {"guest", "kind", "vmid", "source", "target"}
    assert task.sid == "vm:100"
    assert ProxmoxTask.from_action(MOVE, "lxc", 101).sid == "ct:101"


@pytest.mark.parametrize(
    "action", [MOVE, DISK_MOVE], ids=lambda each: type(each).__name__
)
@pytest.mark.parametrize("vmid", [0, 100])
def test_task_id_contains_the_task(action: Transfer, vmid: int) -> None:
    row = ResourceRow(id="qemu/100", type="qemu", vmid=vmid)

    task = task_of(action, row if vmid else None)

    assert parse_task(task.id) == task
    assert (task.guest, task.vmid, task.source) == ("web", vmid, "n1")


def test_tasks_of_a_guest_are_different() -> None:
    other = replace(DISK_MOVE, disk="scsi1")

    assert len({task_of(each, None).id for each in (MOVE, DISK_MOVE, other)}) == 3


@pytest.mark.parametrize("text", ["", "{}", "[]", UPID, '{"guest": 1, "vmid": "x"}'])
def test_other_text_is_no_task_id(text: str) -> None:
    with pytest.raises(PlatformError):
        parse_task(TaskId(text))
