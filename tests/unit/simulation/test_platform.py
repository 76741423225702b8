"""Simulated platform: durations, shared links, and faults."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given

from opendrs.errors import PlatformError, PlatformUnavailableError, UnsupportedError
from opendrs.model import (
    GIB,
    Action,
    ColdMigration,
    GuestId,
    GuestState,
    LiveMigration,
    Mobility,
    NodeId,
    NodeState,
    PowerOff,
    PowerOn,
    Pressure,
    Snapshot,
    Stall,
    Usage,
)
from opendrs.ports import TaskId, TaskState
from opendrs.simulation import SimulatedClock, SimulatedPlatform
from support.builders import NOON, cluster, guest, node
from support.strategies import snapshots

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
VM, PEER = GuestId("vm"), GuestId("peer")
MOVE = LiveMigration(VM, A, B)
SLOW_LINK = float(GIB)  # bytes a second: a GiB each


def three_nodes() -> Snapshot:
    return cluster(
        {"a": 0.6, "b": 0.1, "c": 0.1}, {"vm": ("a", 0.1), "peer": ("a", 0.1)}
    )


def simulated_cluster(
    origin: Snapshot | None = None, *, bandwidth: float = SLOW_LINK, swing: float = 0.0
) -> tuple[SimulatedPlatform, SimulatedClock]:
    clock = SimulatedClock(NOON)
    platform = SimulatedPlatform(
        origin or three_nodes(), clock, bandwidth=bandwidth, load_variation=swing
    )
    return platform, clock


def node_of(platform: SimulatedPlatform, name: GuestId = VM) -> NodeId:
    return platform.observe().guests[name].node


@given(snapshots())
def test_first_observation_is_initial_snapshot(origin: Snapshot) -> None:
    clock = SimulatedClock(origin.taken_at)

    seen = SimulatedPlatform(origin, clock).observe()

    assert seen.guests == origin.guests
    assert seen.rules == origin.rules
    for name, first in origin.nodes.items():
        if first.state in (NodeState.ONLINE, NodeState.MAINTENANCE):
            assert seen.nodes[name].usage.memory == first.usage.memory
            assert seen.nodes[name].usage.cpu == pytest.approx(first.usage.cpu)


def test_migration_takes_time_and_ends_on_target() -> None:
    platform, clock = simulated_cluster()

    task = platform.start(MOVE)
    clock.sleep(5)
    halfway = platform.status(task)
    clock.sleep(60)

    assert halfway.state is TaskState.RUNNING
    assert halfway.progress is not None
    assert halfway.progress.remaining is not None
    # 5 of 10 GiB are sent, and what the guest wrote meanwhile is to come.
    assert 5 * GIB <= halfway.progress.remaining <= 8 * GIB
    assert platform.status(task).state is TaskState.DONE
    assert node_of(platform) == B


def test_migrating_memory_grows_on_target_until_done() -> None:
    platform, clock = simulated_cluster()

    platform.start(MOVE)
    clock.sleep(5)
    halfway = platform.observe()
    clock.sleep(60)
    after = platform.observe()

    assert halfway.nodes[A].usage.memory == 60 * GIB
    assert halfway.nodes[B].usage.memory == pytest.approx(15 * GIB, rel=1e-6)
    assert halfway.guests[VM].occupied_nodes == (A, B)
    assert after.nodes[A].usage.memory == pytest.approx(50 * GIB, rel=1e-6)
    assert after.nodes[B].usage.memory == pytest.approx(20 * GIB, rel=1e-6)


def seconds_until_done(platform: SimulatedPlatform, clock: SimulatedClock) -> float:
    task = platform.find(MOVE)
    while platform.status(task).state is TaskState.RUNNING:
        clock.sleep(0.25)
    return (clock.now() - NOON).total_seconds()


def test_parallel_migrations_share_node_link() -> None:
    alone, clock_alone = simulated_cluster()
    alone.start(MOVE)
    shared, clock_shared = simulated_cluster()
    shared.start(MOVE)
    shared.start(LiveMigration(PEER, A, C))

    quick = seconds_until_done(alone, clock_alone)

    assert seconds_until_done(shared, clock_shared) == pytest.approx(2 * quick, rel=0.1)


def test_same_seed_gives_same_observations() -> None:
    seen = []
    for _ in range(2):
        platform, clock = simulated_cluster(swing=0.1)
        platform.start(MOVE)
        clock.sleep(7)
        seen.append(platform.observe())

    assert seen[0] == seen[1]


def test_observation_frequency_has_no_effect() -> None:
    often, clock_often = simulated_cluster(swing=0.1)
    once, clock_once = simulated_cluster(swing=0.1)
    for platform in (often, once):
        platform.start(MOVE)
    for _ in range(64):
        clock_often.sleep(0.125)
        often.observe()
    clock_once.sleep(8)

    seen, expected = often.observe(), once.observe()

    assert seen.guests == expected.guests
    assert seen.nodes[B].usage.memory == pytest.approx(expected.nodes[B].usage.memory)


def test_load_varies_and_uptime_grows() -> None:
    origin = cluster({"a": 0.6, "b": 0.1}, {})
    grown = replace(
        origin, guests={VM: guest("vm", "a", 0.3, uptime=100.0, limit=None)}
    )
    platform, clock = simulated_cluster(grown, swing=0.1)

    clock.sleep(200)
    seen = platform.observe().guests[VM]

    assert seen.uptime == 300.0
    assert seen.usage.cpu != 3.0
    assert seen.usage.cpu == pytest.approx(3.0, rel=0.2)


def test_pressure_and_load_average_follow_the_load() -> None:
    strained = node("a", 0.8, load_average=9.0, pressure=Pressure(cpu=Stall(0.2, 0.0)))
    origin = cluster({"a": 0.8, "b": 0.1}, {"vm": ("a", 0.3)})
    platform, clock = simulated_cluster(
        replace(origin, nodes={**origin.nodes, A: strained})
    )

    platform.start(MOVE)
    clock.sleep(120)
    relieved = platform.observe().nodes[A]

    assert relieved.load_average == pytest.approx(6.0)
    assert relieved.pressure.cpu.some == pytest.approx(0.08)


INITIAL_PRESSURE = Pressure(cpu=Stall(0.9, 0.3))


def stall_after_migration(source: float, target: float) -> Stall:
    """Return the pressure of `vm` after a migration between nodes of such loads."""
    origin = cluster({"a": source, "b": target}, {})
    waiting = guest("vm", "a", 0.1, pressure=INITIAL_PRESSURE)
    platform, clock = simulated_cluster(replace(origin, guests={VM: waiting}))
    platform.start(MOVE)
    clock.sleep(120)
    assert node_of(platform) == B
    return platform.observe().guests[VM].pressure.cpu


def test_guest_stall_follows_load_of_its_node() -> None:
    # By hand: at 0.9 of the cores 0.16 of the time is stalled, at 0.6 a quarter.
    relieved = stall_after_migration(0.9, 0.5)

    assert relieved.some == pytest.approx(0.9 / 4)
    assert relieved.full == pytest.approx(0.3 / 4)
    assert stall_after_migration(0.9, 0.1) == Stall(0.0, 0.0)
    assert stall_after_migration(0.6, 0.9) == Stall(1.0, 1.0)


def test_stall_on_idle_node_stays_with_guest() -> None:
    strained = stall_after_migration(0.3, 0.5)

    assert strained.some == pytest.approx(0.9 + 0.04)
    assert strained.full == pytest.approx(0.3)
    assert stall_after_migration(0.3, 0.2) == INITIAL_PRESSURE.cpu


def test_stall_of_guest_on_failed_node_is_unknown() -> None:
    origin = cluster({"a": 0.9, "b": 0.1}, {})
    waiting = guest("vm", "a", 0.1, pressure=INITIAL_PRESSURE)
    platform, _ = simulated_cluster(replace(origin, guests={VM: waiting}))

    platform.fail_node(A)

    assert platform.observe().guests[VM].pressure == Pressure()


def test_non_converging_migration_can_be_aborted() -> None:
    platform, clock = simulated_cluster()
    platform.make_non_converging(VM)
    task = platform.start(MOVE)
    clock.sleep(3600)
    still = platform.status(task).state

    platform.abort(task)

    assert still is TaskState.RUNNING
    assert platform.status(task).state is TaskState.FAILED
    assert node_of(platform) == A
    assert platform.observe().guests[VM].migrating_to is None


def test_abort_of_finished_task_has_no_effect() -> None:
    platform, clock = simulated_cluster()
    task = platform.start(MOVE)
    clock.sleep(100)

    platform.abort(task)

    assert platform.status(task).state is TaskState.DONE


def test_failed_target_leaves_guest_on_source() -> None:
    platform, clock = simulated_cluster()
    platform.schedule_fault(4, lambda: platform.fail_node(B))
    task = platform.start(MOVE)

    clock.sleep(60)

    assert platform.status(task).state is TaskState.FAILED
    assert platform.status(task).detail == "b died"
    assert platform.observe().guests[VM].state is GuestState.RUNNING
    assert platform.observe().nodes[B].usage == Usage()
    assert node_of(platform) == A


def test_failed_source_takes_guests_down() -> None:
    platform, clock = simulated_cluster()
    platform.schedule_fault(4, lambda: platform.fail_node(A))
    task = platform.start(MOVE)

    clock.sleep(60)

    assert platform.status(task).state is TaskState.FAILED
    assert platform.observe().guests[VM].state is GuestState.UNKNOWN


def test_scheduled_faults_occur_at_their_time() -> None:
    platform, clock = simulated_cluster()
    platform.schedule_fault(50, lambda: platform.fail_node(B))
    task = platform.start(MOVE)

    clock.sleep(1000)

    # It was done before the node died, although it was not observed.
    assert platform.status(task).state is TaskState.DONE
    assert platform.observe().guests[VM].state is GuestState.UNKNOWN


def test_cut_link_fails_migrations() -> None:
    platform, clock = simulated_cluster()
    task = platform.start(MOVE)
    clock.sleep(2)

    platform.cut_link(B)
    broken = platform.status(task)
    again = platform.status(platform.start(MOVE))
    platform.restore_link(B)
    restored = platform.status(platform.start(MOVE))

    assert broken.state is TaskState.FAILED
    assert " b " in broken.detail
    assert again.state is TaskState.FAILED
    assert restored.state is TaskState.RUNNING


def test_disconnected_platform_is_unavailable_but_advances() -> None:
    platform, clock = simulated_cluster()
    task = platform.start(MOVE)
    platform.disconnect()
    clock.sleep(100)

    with pytest.raises(PlatformUnavailableError, match="does not answer"):
        platform.status(task)
    platform.reconnect()
    assert platform.status(task).state is TaskState.DONE


def test_unknown_task_is_lost() -> None:
    platform, _ = simulated_cluster()

    assert platform.status(TaskId("what?")).state is TaskState.LOST
    assert platform.status(platform.find(MOVE)).state is TaskState.LOST


def test_forgotten_task_is_lost() -> None:
    platform, _ = simulated_cluster()
    task = platform.start(MOVE)

    platform.forget_task(MOVE)

    assert platform.status(task).state is TaskState.LOST


def test_find_returns_started_task() -> None:
    platform, _ = simulated_cluster()

    assert platform.start(MOVE) == platform.find(MOVE)


@pytest.mark.parametrize(
    "action",
    [
        pytest.param(LiveMigration(VM, B, C), id="not on the source"),
        pytest.param(LiveMigration(GuestId("x"), A, B), id="unknown guest"),
        pytest.param(LiveMigration(VM, A, NodeId("z")), id="unknown target"),
        pytest.param(LiveMigration(VM, A, A), id="to where it is"),
        pytest.param(PowerOff(A), id="not empty"),
        pytest.param(PowerOn(NodeId("z")), id="unknown node"),
    ],
)
def test_impossible_action_is_rejected(action: Action) -> None:
    platform, _ = simulated_cluster()

    with pytest.raises(PlatformError):
        platform.start(action)


def test_second_migration_of_guest_is_rejected() -> None:
    platform, _ = simulated_cluster()
    platform.start(MOVE)

    with pytest.raises(PlatformError, match="already being migrated"):
        platform.start(LiveMigration(VM, A, C))


def test_cold_migration_restarts_guest_on_target() -> None:
    origin = cluster({"a": 0.6, "b": 0.1}, {})
    tied = guest(
        "vm", "a", 0.3, mobility=Mobility.COLD, mobility_detail="a disk", uptime=500.0
    )
    platform, clock = simulated_cluster(replace(origin, guests={VM: tied}))

    with pytest.raises(UnsupportedError, match="a disk"):
        platform.start(MOVE)
    platform.start(ColdMigration(VM, A, B))
    clock.sleep(60)

    assert node_of(platform) == B
    assert platform.observe().guests[VM].uptime == pytest.approx(48.0)


def test_nodes_power_off_and_on() -> None:
    platform, clock = simulated_cluster()
    platform.start(PowerOff(C))
    clock.sleep(60)
    powered_off = platform.observe().nodes[C].state
    platform.start(PowerOn(C))
    clock.sleep(120)

    assert powered_off is NodeState.OFFLINE
    assert platform.observe().nodes[C].state is NodeState.ONLINE


def test_migrations_in_initial_snapshot_complete() -> None:
    origin = cluster({"a": 0.6, "b": 0.1}, {"vm": ("a", 0.1)}, moving={"vm": "b"})
    platform, clock = simulated_cluster(origin)

    clock.sleep(100)

    assert node_of(platform) == B
    assert platform.observe().taken_at == NOON + timedelta(seconds=100)


def test_old_snapshot_starts_at_current_time() -> None:
    clock = SimulatedClock(NOON + timedelta(days=1000))
    platform = SimulatedPlatform(three_nodes(), clock, bandwidth=SLOW_LINK)
    task = platform.start(MOVE)

    clock.sleep(60)

    assert platform.status(task).state is TaskState.DONE
    assert platform.observe().taken_at == clock.now()


def test_stopped_guest_is_not_migrated() -> None:
    origin = cluster({"a": 0.6, "b": 0.1}, {})
    stopped = guest("vm", "a", 0.3, state=GuestState.STOPPED)
    platform, _ = simulated_cluster(replace(origin, guests={VM: stopped}))

    with pytest.raises(PlatformError, match="its state is stopped"):
        platform.start(MOVE)
