"""Incus adapter on a real cluster: balance, evacuate, fail, kill."""

from __future__ import annotations

import json
import signal
import subprocess
from contextlib import suppress
from threading import Event

import pytest

from integration.incus_lab import LARGE_DISK, MEMBERS, IncusLab
from integration.incus_operator import IncusOperator
from integration.libvirt_lab import eventually
from opendrs.errors import PlatformError, UnsupportedError
from opendrs.model import GuestId, GuestState, LiveMigration, NodeId, NodeState
from opendrs.platforms.incus import IncusPlatform
from opendrs.ports import TaskId, TaskState, TaskStatus

pytestmark = [pytest.mark.shared, pytest.mark.lab]

N1, N2, N3 = (NodeId(name) for name in MEMBERS)
V1 = GuestId("v1")


def ended(platform: IncusPlatform, task: TaskId) -> TaskStatus:
    for _ in range(600):
        status = platform.status(task)
        if status.state is not TaskState.RUNNING:
            return status
        Event().wait(0.5)
    pytest.fail("the task does not end")


def test_show_plan_and_apply_migrate_a_running_machine(
    incus_lab: IncusLab, operator: IncusOperator
) -> None:
    incus_lab.vm("v1", "n3")
    incus_lab.load("n3", 80, 8.0)

    shown = operator.runs("show", "lab", "--format", "json")
    plan = operator.plans()
    applied = operator.runs("apply", "lab", "--yes")

    assert shown.returncode == 0, shown.stderr
    assert [step["guest"] for step in plan["steps"]] == ["v1"]
    assert applied.returncode == 0, applied.stdout + applied.stderr
    instance = incus_lab.api("/1.0/instances/v1")
    assert instance["location"] == plan["steps"][0]["target"]
    assert instance["status"] == "Running"
    assert int(instance["config"]["volatile.rebalance.last_move"]) > 0


def _memory_share(platform: IncusPlatform) -> float:
    node = platform.observe().nodes[N1]
    assert node.capacity is not None
    return (node.usage.memory or 0) / node.capacity.memory


def test_member_figures_are_those_that_the_lab_sets(incus_lab: IncusLab) -> None:
    incus_lab.load("n1", 50, 3.2)
    platform = incus_lab.platform()

    # Incus 7.0 keeps the resources of a member for about 10 s.
    eventually(lambda: _memory_share(platform) > 0.4, 20, "the memory is the new one")
    node = platform.observe().nodes[N1]

    assert node.capacity is not None
    assert node.capacity.cpu == 16
    assert node.load_average == 3.2
    assert _memory_share(platform) == pytest.approx(0.5, rel=0.01)


def test_running_migration_is_seen_by_another_process(incus_lab: IncusLab) -> None:
    incus_lab.vm("v1", "n1", *LARGE_DISK)
    platform, other = incus_lab.platform(), incus_lab.platform()
    move = LiveMigration(V1, N1, N2)
    before = other.find(move)
    task = platform.start(move)

    eventually(
        lambda: other.observe().guests[V1].migrating_to == N2, 10, "the target is known"
    )
    during, seen = other.status(task).state, other.observe().guests[V1]
    with pytest.raises(PlatformError):
        other.start(LiveMigration(V1, N1, N3))
    with pytest.raises(UnsupportedError):
        other.abort(task)

    assert before == task == other.find(move)
    assert during is TaskState.RUNNING
    assert (seen.node, seen.state) == (N1, GuestState.RUNNING)
    assert ended(platform, task).state is TaskState.DONE
    assert ended(other, task).state is TaskState.DONE
    assert incus_lab.location("v1") == "n2"


def test_evacuated_member_is_in_maintenance_and_no_target(incus_lab: IncusLab) -> None:
    incus_lab.vm("v1", "n1")
    incus_lab.incus("cluster", "evacuate", "n3", "--force")
    platform = incus_lab.platform()

    seen = platform.observe()
    with pytest.raises(PlatformError):
        platform.start(LiveMigration(V1, N1, N3))

    assert seen.nodes[N3].state is NodeState.MAINTENANCE
    assert incus_lab.location("v1") == "n1"


def test_guest_of_an_evacuated_member_is_left_to_incus(incus_lab: IncusLab) -> None:
    incus_lab.vm("v1", "n3")
    incus_lab.incus("cluster", "evacuate", "n3", "--force")

    guest = incus_lab.platform().observe().guests[V1]
    incus_lab.incus("cluster", "restore", "n3", "--force")

    assert guest.node != N3
    assert "n3" in (guest.managed_by or "")
    assert incus_lab.platform().observe().guests[V1].managed_by is None


def test_member_that_dies_is_unknown_and_the_others_are_observed(
    incus_lab: IncusLab,
) -> None:
    incus_lab.vm("v1", "n1")
    incus_lab.vm("v3", "n3")
    platform = incus_lab.platform()
    platform.observe()
    incus_lab.kill_member("n3")

    soon = platform.observe()
    eventually(lambda: incus_lab.status("n3") == "Offline", 40, "n3 is offline")
    later = platform.observe()

    for seen in (soon, later):
        assert seen.nodes[N3].state is NodeState.UNKNOWN
        assert seen.nodes[N1].online
        assert seen.guests[V1].state is GuestState.RUNNING
    assert later.guests[GuestId("v3")].state is GuestState.UNKNOWN
    with pytest.raises(PlatformError):
        platform.start(LiveMigration(V1, N1, N3))


def test_source_that_dies_during_a_migration_fails_it(incus_lab: IncusLab) -> None:
    incus_lab.vm("v1", "n3", *LARGE_DISK)
    platform = incus_lab.platform()
    task = platform.start(LiveMigration(V1, N3, N2))
    Event().wait(2)
    incus_lab.kill_member("n3")

    states = set()
    for _ in range(120):
        with suppress(PlatformError):
            states.add(platform.status(task).state)
        if states - {TaskState.RUNNING}:
            break
        Event().wait(1)

    assert states - {TaskState.RUNNING} <= {TaskState.FAILED, TaskState.LOST}
    assert states - {TaskState.RUNNING}


def test_rejected_move_is_reported_with_the_reason_of_incus(
    incus_lab: IncusLab,
) -> None:
    incus_lab.vm("v1", "n1")
    incus_lab.incus("config", "set", "v1", "migration.stateful=false", check=False)
    incus_lab.incus(
        "query",
        "-X",
        "POST",
        "-d",
        '{"name": "b"}',
        "--wait",
        "/1.0/instances/v1/backups",
    )
    platform = incus_lab.platform()

    with pytest.raises(PlatformError) as caught:
        platform.start(LiveMigration(V1, N1, N2))

    assert "backup" in str(caught.value).lower()
    assert "backup" in (platform.observe().guests[V1].mobility_detail or "").lower()


def test_killed_apply_is_resumed_and_starts_nothing_twice(
    incus_lab: IncusLab, operator: IncusOperator
) -> None:
    incus_lab.vm("v1", "n3", *LARGE_DISK)
    incus_lab.load("n3", 80, 8.0)
    platform = incus_lab.platform()
    killed = subprocess.Popen(  # noqa: S603 - our own command
        operator.command("apply", "lab", "--yes"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    eventually(
        lambda: platform.observe().guests[V1].migrating_to is not None,
        30,
        "the migration is in progress",
    )
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    target = platform.observe().guests[V1].migrating_to

    resumed = operator.runs("apply", "lab", "--yes")

    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert "v1" in resumed.stdout + resumed.stderr
    assert incus_lab.location("v1") == target
    assert incus_lab.api("/1.0/instances/v1")["status"] == "Running"


def test_machine_in_another_project_migrates(
    incus_lab: IncusLab, operator: IncusOperator
) -> None:
    with incus_lab.project("web") as (certificate, key):
        words = ("v1", "--project", "web")
        incus_lab.incus("create", "--empty", "--vm", *words, "--target", "n3")
        incus_lab.incus("start", *words)
        incus_lab.load("n3", 80, 8.0)
        operator.configure(projects=["web"], certificate=certificate, key=key)

        applied = operator.runs("apply", "lab", "--yes")
        instance = incus_lab.api("/1.0/instances/v1?project=web")

    assert applied.returncode == 0, applied.stdout + applied.stderr
    assert instance["location"] != "n3"
    assert instance["status"] == "Running"
    assert int(instance["config"]["volatile.rebalance.last_move"]) > 0


def test_member_that_is_not_scheduled_is_no_target(
    incus_lab: IncusLab, operator: IncusOperator
) -> None:
    incus_lab.vm("v1", "n3")
    incus_lab.load("n2", 5, 0.1)
    incus_lab.load("n3", 80, 8.0)
    incus_lab.incus("cluster", "set", "n2", "scheduler.instance=manual")

    plan = operator.plans()
    incus_lab.incus("cluster", "unset", "n2", "scheduler.instance")

    assert [step["target"] for step in plan["steps"]] == ["n1"]
    assert [step["target"] for step in operator.plans()["steps"]] == ["n2"]


def test_rebalancer_of_incus_keeps_what_it_can_move(
    incus_lab: IncusLab, operator: IncusOperator
) -> None:
    incus_lab.vm("v1", "n3")
    incus_lab.load("n3", 80, 8.0)
    operator.use_socket(rebalancer="auto")
    off = operator.plans()

    incus_lab.incus("config", "set", "cluster.rebalance.interval=600")
    on = operator.plans()
    incus_lab.incus("config", "unset", "cluster.rebalance.interval")

    assert [step["guest"] for step in off["steps"]] == ["v1"]
    assert on["steps"] == []
    assert "rebalancer of Incus" in json.dumps(on["skipped"])
