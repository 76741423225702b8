"""The simulated platform takes time, shares its links, and can break."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given

from builders import NOON, cluster, guest, node
from opendrs.errors import (
    PlatformError,
    PlatformUnavailableError,
    UnsupportedError,
)
from opendrs.model import (
    GIB,
    Action,
    GuestId,
    GuestState,
    Migration,
    Mobility,
    NodeId,
    NodeState,
    PowerOff,
    PowerOn,
    Pressure,
    Relocation,
    Snapshot,
    Stall,
    Usage,
)
from opendrs.ports import TaskId, TaskState
from opendrs.sim import SimulatedClock, SimulatedPlatform
from strategies import snapshots

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
VM, PEER = GuestId("vm"), GuestId("peer")
MOVE = Migration(VM, A, B)
SLOW = float(GIB)  # bytes a second: a GiB each


def three_nodes() -> Snapshot:
    return cluster(
        {"a": 0.6, "b": 0.1, "c": 0.1}, {"vm": ("a", 0.1), "peer": ("a", 0.1)}
    )


def world(
    origin: Snapshot | None = None, *, bandwidth: float = SLOW, swing: float = 0.0
) -> tuple[SimulatedPlatform, SimulatedClock]:
    clock = SimulatedClock(NOON)
    platform = SimulatedPlatform(
        origin or three_nodes(), clock, bandwidth=bandwidth, swing=swing
    )
    return platform, clock


def whereabouts(platform: SimulatedPlatform, name: GuestId = VM) -> NodeId:
    return platform.observe().guests[name].node


@given(snapshots())
def test_in_the_beginning_it_shows_the_cluster_it_was_given(origin: Snapshot) -> None:
    clock = SimulatedClock(origin.taken_at)

    seen = SimulatedPlatform(origin, clock).observe()

    assert seen.guests == origin.guests
    assert seen.rules == origin.rules
    for name, first in origin.nodes.items():
        if first.state in (NodeState.ONLINE, NodeState.MAINTENANCE):
            assert seen.nodes[name].usage.memory == first.usage.memory
            assert seen.nodes[name].usage.cpu == pytest.approx(first.usage.cpu)


def test_a_migration_takes_time_and_ends_on_the_target() -> None:
    platform, clock = world()

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
    assert whereabouts(platform) == B


def test_memory_grows_on_the_target_and_leaves_the_source_at_the_end() -> None:
    platform, clock = world()

    platform.start(MOVE)
    clock.sleep(5)
    halfway = platform.observe()
    clock.sleep(60)
    after = platform.observe()

    assert halfway.nodes[A].usage.memory == 60 * GIB
    assert halfway.nodes[B].usage.memory == pytest.approx(15 * GIB, rel=1e-6)
    assert halfway.guests[VM].locations == (A, B)
    assert after.nodes[A].usage.memory == pytest.approx(50 * GIB, rel=1e-6)
    assert after.nodes[B].usage.memory == pytest.approx(20 * GIB, rel=1e-6)


def seconds_until_done(platform: SimulatedPlatform, clock: SimulatedClock) -> float:
    task = platform.find(MOVE)
    while platform.status(task).state is TaskState.RUNNING:
        clock.sleep(0.25)
    return (clock.now() - NOON).total_seconds()


def test_migrations_share_the_link_of_a_node() -> None:
    alone, clock_alone = world()
    alone.start(MOVE)
    shared, clock_shared = world()
    shared.start(MOVE)
    shared.start(Migration(PEER, A, C))

    quick = seconds_until_done(alone, clock_alone)

    assert seconds_until_done(shared, clock_shared) == pytest.approx(2 * quick, rel=0.1)


def test_the_same_seed_gives_the_same_world() -> None:
    seen = []
    for _ in range(2):
        platform, clock = world(swing=0.1)
        platform.start(MOVE)
        clock.sleep(7)
        seen.append(platform.observe())

    assert seen[0] == seen[1]


def test_it_does_not_matter_how_often_one_looks() -> None:
    often, clock_often = world(swing=0.1)
    once, clock_once = world(swing=0.1)
    for platform in (often, once):
        platform.start(MOVE)
    for _ in range(64):
        clock_often.sleep(0.125)
        often.observe()
    clock_once.sleep(8)

    seen, expected = often.observe(), once.observe()

    assert seen.guests == expected.guests
    assert seen.nodes[B].usage.memory == pytest.approx(expected.nodes[B].usage.memory)


def test_loads_swing_a_little_and_guests_grow_older() -> None:
    origin = cluster({"a": 0.6, "b": 0.1}, {})
    grown = replace(
        origin, guests={VM: guest("vm", "a", 0.3, uptime=100.0, limit=None)}
    )
    platform, clock = world(grown, swing=0.1)

    clock.sleep(200)
    seen = platform.observe().guests[VM]

    assert seen.uptime == 300.0
    assert seen.usage.cpu != 3.0
    assert seen.usage.cpu == pytest.approx(3.0, rel=0.2)


def test_pressure_and_load_average_follow_the_load() -> None:
    strained = node("a", 0.8, load_average=9.0, pressure=Pressure(cpu=Stall(0.2, 0.0)))
    origin = cluster({"a": 0.8, "b": 0.1}, {"vm": ("a", 0.3)})
    platform, clock = world(replace(origin, nodes={**origin.nodes, A: strained}))

    platform.start(MOVE)
    clock.sleep(120)
    relieved = platform.observe().nodes[A]

    assert relieved.load_average == pytest.approx(6.0)
    assert relieved.pressure.cpu.some == pytest.approx(0.08)


WAITING = Pressure(cpu=Stall(0.9, 0.3))


def after_the_move(source: float, target: float) -> Stall:
    """Return how `vm` waits that moved between nodes of such loads."""
    origin = cluster({"a": source, "b": target}, {})
    waiting = guest("vm", "a", 0.1, pressure=WAITING)
    platform, clock = world(replace(origin, guests={VM: waiting}))
    platform.start(MOVE)
    clock.sleep(120)
    assert whereabouts(platform) == B
    return platform.observe().guests[VM].pressure.cpu


def test_a_guest_waits_as_everybody_on_its_node_does() -> None:
    # By hand: at 0.9 of the cores 0.16 of the time is stalled, at 0.6 a quarter.
    relieved = after_the_move(0.9, 0.5)

    assert relieved.some == pytest.approx(0.9 / 4)
    assert relieved.full == pytest.approx(0.3 / 4)
    assert after_the_move(0.9, 0.1) == Stall(0.0, 0.0)
    assert after_the_move(0.6, 0.9) == Stall(1.0, 1.0)


def test_what_a_guest_waits_for_on_an_idle_node_goes_along() -> None:
    strained = after_the_move(0.3, 0.5)

    assert strained.some == pytest.approx(0.9 + 0.04)
    assert strained.full == pytest.approx(0.3)
    assert after_the_move(0.3, 0.2) == WAITING.cpu


def test_how_a_guest_of_a_dead_node_waits_is_not_known() -> None:
    origin = cluster({"a": 0.9, "b": 0.1}, {})
    waiting = guest("vm", "a", 0.1, pressure=WAITING)
    platform, _ = world(replace(origin, guests={VM: waiting}))

    platform.kill(A)

    assert platform.observe().guests[VM].pressure == Pressure()


def test_a_guest_that_never_converges_can_be_given_up() -> None:
    platform, clock = world()
    platform.agitate(VM)
    task = platform.start(MOVE)
    clock.sleep(3600)
    still = platform.status(task).state

    platform.abort(task)

    assert still is TaskState.RUNNING
    assert platform.status(task).state is TaskState.FAILED
    assert whereabouts(platform) == A
    assert platform.observe().guests[VM].migrating_to is None


def test_giving_up_what_has_ended_changes_nothing() -> None:
    platform, clock = world()
    task = platform.start(MOVE)
    clock.sleep(100)

    platform.abort(task)

    assert platform.status(task).state is TaskState.DONE


def test_a_target_that_dies_leaves_the_guest_where_it_was() -> None:
    platform, clock = world()
    platform.later(4, lambda: platform.kill(B))
    task = platform.start(MOVE)

    clock.sleep(60)

    assert platform.status(task).state is TaskState.FAILED
    assert platform.status(task).detail == "b died"
    assert platform.observe().guests[VM].state is GuestState.RUNNING
    assert platform.observe().nodes[B].usage == Usage()
    assert whereabouts(platform) == A


def test_a_source_that_dies_takes_its_guests_with_it() -> None:
    platform, clock = world()
    platform.later(4, lambda: platform.kill(A))
    task = platform.start(MOVE)

    clock.sleep(60)

    assert platform.status(task).state is TaskState.FAILED
    assert platform.observe().guests[VM].state is GuestState.UNKNOWN


def test_faults_happen_in_their_own_time() -> None:
    platform, clock = world()
    platform.later(50, lambda: platform.kill(B))
    task = platform.start(MOVE)

    clock.sleep(1000)

    # It was done before the node died, although nobody looked.
    assert platform.status(task).state is TaskState.DONE
    assert platform.observe().guests[VM].state is GuestState.UNKNOWN


def test_nobody_comes_or_goes_over_a_link_that_is_cut() -> None:
    platform, clock = world()
    task = platform.start(MOVE)
    clock.sleep(2)

    platform.cut(B)
    broken = platform.status(task)
    again = platform.status(platform.start(MOVE))
    platform.mend(B)
    mended = platform.status(platform.start(MOVE))

    assert broken.state is TaskState.FAILED
    assert broken.detail == "the connection to b broke"
    assert again.state is TaskState.FAILED
    assert mended.state is TaskState.RUNNING


def test_does_not_answer_while_disconnected_but_goes_on() -> None:
    platform, clock = world()
    task = platform.start(MOVE)
    platform.disconnect()
    clock.sleep(100)

    with pytest.raises(PlatformUnavailableError, match="does not answer"):
        platform.status(task)
    platform.reconnect()
    assert platform.status(task).state is TaskState.DONE


def test_a_task_it_does_not_know_is_lost() -> None:
    platform, _ = world()

    assert platform.status(TaskId("what?")).state is TaskState.LOST
    assert platform.status(platform.find(MOVE)).state is TaskState.LOST


def test_a_task_can_be_forgotten_while_the_guest_travels_on() -> None:
    platform, _ = world()
    task = platform.start(MOVE)

    platform.forget(MOVE)

    assert platform.status(task).state is TaskState.LOST


def test_finds_the_task_that_was_started() -> None:
    platform, _ = world()

    assert platform.start(MOVE) == platform.find(MOVE)


@pytest.mark.parametrize(
    "action",
    [
        pytest.param(Migration(VM, B, C), id="not on the source"),
        pytest.param(Migration(GuestId("x"), A, B), id="unknown guest"),
        pytest.param(Migration(VM, A, NodeId("z")), id="unknown target"),
        pytest.param(Migration(VM, A, A), id="to where it is"),
        pytest.param(PowerOff(A), id="not empty"),
        pytest.param(PowerOn(NodeId("z")), id="unknown node"),
    ],
)
def test_refuses_what_is_not_possible(action: Action) -> None:
    platform, _ = world()

    with pytest.raises(PlatformError):
        platform.start(action)


def test_does_not_move_a_guest_twice_at_once() -> None:
    platform, _ = world()
    platform.start(MOVE)

    with pytest.raises(PlatformError, match="being moved already"):
        platform.start(Migration(VM, A, C))


def test_a_guest_that_cannot_move_live_is_restarted_on_the_target() -> None:
    origin = cluster({"a": 0.6, "b": 0.1}, {})
    tied = guest(
        "vm", "a", 0.3, moves=Mobility.STOPPED, obstacle="a disk", uptime=500.0
    )
    platform, clock = world(replace(origin, guests={VM: tied}))

    with pytest.raises(UnsupportedError, match="a disk"):
        platform.start(MOVE)
    platform.start(Relocation(VM, A, B))
    clock.sleep(60)

    assert whereabouts(platform) == B
    assert platform.observe().guests[VM].uptime == pytest.approx(48.0)


def test_nodes_fall_asleep_and_wake() -> None:
    platform, clock = world()
    platform.start(PowerOff(C))
    clock.sleep(60)
    asleep = platform.observe().nodes[C].state
    platform.start(PowerOn(C))
    clock.sleep(120)

    assert asleep is NodeState.OFFLINE
    assert platform.observe().nodes[C].state is NodeState.ONLINE


def test_guests_that_were_under_way_in_the_beginning_arrive() -> None:
    origin = cluster({"a": 0.6, "b": 0.1}, {"vm": ("a", 0.1)}, moving={"vm": "b"})
    platform, clock = world(origin)

    clock.sleep(100)

    assert whereabouts(platform) == B
    assert platform.observe().taken_at == NOON + timedelta(seconds=100)


def test_an_old_snapshot_begins_its_life_anew() -> None:
    clock = SimulatedClock(NOON + timedelta(days=1000))
    platform = SimulatedPlatform(three_nodes(), clock, bandwidth=SLOW)
    task = platform.start(MOVE)

    clock.sleep(60)

    assert platform.status(task).state is TaskState.DONE
    assert platform.observe().taken_at == clock.now()


def test_a_guest_that_does_not_run_is_not_moved() -> None:
    origin = cluster({"a": 0.6, "b": 0.1}, {})
    stopped = guest("vm", "a", 0.3, state=GuestState.STOPPED)
    platform, _ = world(replace(origin, guests={VM: stopped}))

    with pytest.raises(PlatformError, match="its state is stopped"):
        platform.start(MOVE)
