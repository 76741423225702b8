"""`opendrs run` in automatic mode on a real Incus cluster: balance, fail, kill."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from integration.incus_lab import LARGE_DISK, IncusLab
from integration.incus_operator import IncusOperator
from integration.libvirt_lab import eventually
from opendrs.model import GuestId
from opendrs.ports import Outcome
from opendrs.store import Access, SqliteStore

pytestmark = [pytest.mark.shared, pytest.mark.lab]

V1 = GuestId("v1")
BUSY, IDLE = (80, 8.0), (5, 0.1)  # percent of memory, load average


def wait_until_left(lab: IncusLab, name: str, member: str) -> str:
    """Wait until an instance runs on another member, and return that."""
    eventually(lambda: lab.location(name) != member, 60, f"{name} has left {member}")
    assert lab.api(f"/1.0/instances/{name}")["status"] == "Running"
    return lab.location(name)


def test_run_migrates_a_running_machine(
    incus_lab: IncusLab, operator: IncusOperator
) -> None:
    incus_lab.vm("v1", "n3")
    incus_lab.load("n3", *BUSY)

    with operator.controller():
        wait_until_left(incus_lab, "v1", "n3")


def test_run_with_a_dead_member_balances_the_others(
    incus_lab: IncusLab, operator: IncusOperator
) -> None:
    incus_lab.vm("v1", "n3")

    with operator.controller():
        eventually(lambda: "no steps planned" in operator.logged(), 30, "a decision")
        incus_lab.kill_member("n2")
        eventually(lambda: incus_lab.status("n2") == "Offline", 40, "n2 is offline")
        incus_lab.load("n3", *BUSY)
        target = wait_until_left(incus_lab, "v1", "n3")

    assert target == "n1"


def test_run_does_not_choose_an_evacuated_member(
    incus_lab: IncusLab, operator: IncusOperator
) -> None:
    incus_lab.vm("v1", "n3")
    incus_lab.incus("cluster", "evacuate", "n2", "--force")
    incus_lab.load("n2", *IDLE)
    incus_lab.load("n3", *BUSY)

    with operator.controller():
        target = wait_until_left(incus_lab, "v1", "n3")

    assert target == "n1"


def test_run_after_a_rejected_move_migrates_another_machine(
    incus_lab: IncusLab, operator: IncusOperator
) -> None:
    incus_lab.vm("v1", "n3")
    incus_lab.vm("v2", "n3")
    incus_lab.api("/1.0/instances/v1/backups", "POST", {"name": "b"})
    incus_lab.load("n3", *BUSY)

    with operator.controller():
        wait_until_left(incus_lab, "v2", "n3")

    assert incus_lab.location("v1") == "n3"
    assert "backup" in operator.logged().lower()


def test_killed_run_is_continued_and_starts_nothing_twice(
    incus_lab: IncusLab, operator: IncusOperator
) -> None:
    incus_lab.vm("v1", "n3", *LARGE_DISK)
    incus_lab.load("n3", *BUSY)
    platform = incus_lab.platform()

    with operator.controller() as killed:
        eventually(
            lambda: platform.observe().guests[V1].migrating_to is not None,
            60,
            "the migration is in progress",
        )
        killed.kill()
        killed.wait()
    target = platform.observe().guests[V1].migrating_to
    with operator.controller():
        wait_until_left(incus_lab, "v1", "n3")
        eventually(lambda: "done" in operator.logged(), 30, "it is recorded")

    with SqliteStore(operator.home / "record.sqlite", Access.READ) as store:
        (record,) = store.recent(datetime.min.replace(tzinfo=UTC))
    assert record.outcome is Outcome.DONE
    assert incus_lab.location("v1") == target
