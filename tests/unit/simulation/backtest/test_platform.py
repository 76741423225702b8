"""Platform with recorded load and simulated placement."""

from __future__ import annotations

from dataclasses import replace

import pytest

from opendrs.model import (
    GIB,
    GuestId,
    LiveMigration,
    NodeId,
    NodeState,
    PowerOff,
    PowerOn,
    Snapshot,
    Usage,
)
from opendrs.ports import TaskState
from opendrs.simulation.backtest import LoadRecord
from opendrs.simulation.backtest.platform import RecordedPlatform
from support.builders import guest, node
from support.recorded_load import HOST_LOAD, recorded_snapshots, with_dirty_rate

A, B, V, W = NodeId("a"), NodeId("b"), GuestId("v"), GuestId("w")
BANDWIDTH = 0.1 * GIB  # bytes per second
MOVE = LiveMigration(V, A, B)


def platform_of(snapshots: list[Snapshot]) -> RecordedPlatform:
    record = LoadRecord(with_dirty_rate(snapshots, 0.0), "x")
    return RecordedPlatform(record, seed=1, bandwidth=BANDWIDTH)


def test_migration_takes_the_time_of_its_memory_and_moves_the_load() -> None:
    platform = platform_of(recorded_snapshots({"v": ("a", [0.3, 0.5])}))
    task = platform.start(MOVE)

    platform.clock.sleep(299.0)
    before = platform.status(task)
    during = platform.observe()
    platform.clock.sleep(2.0)
    after = platform.status(task)

    # 30 GiB at 0.1 GiB/s take 300 s.
    assert (before.state, after.state) == (TaskState.RUNNING, TaskState.DONE)
    assert during.guests[V].migrating_to == B
    assert during.nodes[A].usage.cpu == pytest.approx(4.0)
    assert during.nodes[B].usage.memory == pytest.approx((10 + 29.9) * GIB)
    snapshot = platform.observe()
    assert snapshot.guests[V].node == B
    assert snapshot.nodes[A].usage.cpu == pytest.approx(10 * HOST_LOAD)
    assert snapshot.nodes[B].usage.cpu == pytest.approx(4.0)
    assert snapshot.nodes[B].usage.memory == 40 * GIB
    platform.clock.sleep(300.0)  # the second snapshot: the load follows the guest
    assert platform.observe().nodes[B].usage.cpu == pytest.approx(6.0)


def test_migration_continues_over_snapshots() -> None:
    platform = platform_of(recorded_snapshots({"v": ("a", [0.3, 0.5, 0.5])}))
    platform.clock.sleep(500.0)
    task = platform.start(MOVE)

    platform.clock.sleep(299.0)

    assert platform.status(task).state is TaskState.RUNNING
    platform.clock.sleep(2.0)
    assert platform.status(task).state is TaskState.DONE


def test_migration_of_a_guest_that_is_gone_fails() -> None:
    first, second = recorded_snapshots({"v": ("a", [0.3, 0.5])})
    platform = platform_of([first, replace(second, guests={})])
    platform.clock.sleep(500.0)
    task = platform.start(MOVE)

    platform.clock.sleep(200.0)

    assert platform.status(task).state is TaskState.FAILED


def test_contention_is_counted_until_the_migration_ends() -> None:
    # a: 0.1 + 0.8 + 0.3 = 1.2 of its capacity until v has left, 800 s from the start.
    platform = platform_of(
        recorded_snapshots(
            {"v": ("a", [0.8, 0.8]), "w": ("a", [0.3, 0.3])}, minutes=[0, 20]
        )
    )
    platform.start(MOVE)
    platform.clock.sleep(1000.0)
    platform.advance()

    platform.finish()

    metrics = platform.meter.metrics()
    assert metrics.contention_minutes == pytest.approx(2 * 800 / 60)
    assert metrics.measured_hours == pytest.approx(40 / 60)
    # 1.2 until then; b: 0.1 + 0.8 = 0.9 after it, and also its memory before.
    assert metrics.highest_load_mean == pytest.approx((800 * 1.2 + 1600 * 0.9) / 2400)
    assert metrics.highest_load_peak == pytest.approx(1.2)


def test_gap_is_in_no_figure() -> None:
    snapshots = recorded_snapshots(
        {"v": ("a", [0.95, 0.95, 0.95, 0.95])}, minutes=[0, 10, 20, 120]
    )
    platform = platform_of(snapshots)

    platform.finish()

    metrics = platform.meter.metrics()
    assert metrics.measured_hours == pytest.approx(40 / 60)
    assert metrics.contention_minutes == pytest.approx(40)


def test_time_of_unknown_load_is_in_no_figure_of_load() -> None:
    first, second, third = recorded_snapshots({"v": ("a", [0.95, 0.95, 0.95])})
    unknown = replace(second, nodes={**second.nodes, B: node("b", None)})
    platform = platform_of([first, unknown, third])

    platform.finish()

    metrics = platform.meter.metrics()
    assert metrics.contention_minutes == pytest.approx(20)
    assert metrics.measured_hours == pytest.approx(20 / 60)
    assert metrics.nodes_mean == pytest.approx(2)
    assert [point.imbalance is None for point in platform.meter.series()] == [
        False,
        True,
        False,
    ]


def test_guest_of_a_failed_node_is_where_the_platform_restarted_it() -> None:
    first, second, third = recorded_snapshots({"v": ("a", [0.3, 0.3, 0.3])})
    failed = replace(
        second,
        nodes={A: node("a", None, state=NodeState.OFFLINE), B: node("b", 0.4)},
        guests={V: guest("v", "b", 0.3)},
    )
    platform = platform_of([first, failed, third])

    platform.clock.sleep(600.0)
    restarted = platform.observe()
    platform.finish()

    assert restarted.guests[V].node == B
    assert platform.relocations == 1
    assert platform.observe().guests[V].node == B  # it stays there in the third


def test_guest_that_was_gone_is_where_it_was() -> None:
    first, second, third = recorded_snapshots({"v": ("a", [0.3, 0.3, 0.3])})
    platform = platform_of([first, replace(second, guests={}), third])
    platform.place({V: B})

    platform.finish()

    assert platform.observe().guests[V].node == B


def test_powered_off_node_stays_off_until_it_is_powered_on() -> None:
    loads = {"v": ("a", [0.3] * 4)}
    platform = platform_of(recorded_snapshots(loads))
    platform.start(PowerOff(B))

    platform.clock.sleep(700.0)
    off = platform.observe()
    platform.start(PowerOn(B))
    platform.clock.sleep(600.0)

    assert off.nodes[B].state is NodeState.OFFLINE
    assert off.nodes[B].usage == Usage()
    online = platform.observe()
    assert online.nodes[B].state is NodeState.ONLINE
    assert online.nodes[B].usage.cpu == pytest.approx(10 * HOST_LOAD)


def test_node_that_is_recorded_as_off_can_be_powered_on() -> None:
    snapshots = recorded_snapshots({"v": ("a", [0.3] * 3)})
    off = node("b", None, state=NodeState.OFFLINE, capacity=None)
    recorded = [
        snapshots[0],
        *(replace(each, nodes={**each.nodes, B: off}) for each in snapshots[1:]),
    ]
    platform = platform_of(recorded)
    platform.clock.sleep(700.0)
    platform.start(PowerOn(B))

    platform.clock.sleep(600.0)

    found = platform.observe().nodes[B]
    assert found.state is NodeState.ONLINE
    assert found.capacity == snapshots[0].nodes[B].capacity
    assert found.usage.cpu == pytest.approx(10 * HOST_LOAD)


def test_guest_that_appears_on_a_powered_off_node_starts_elsewhere() -> None:
    first, _ = recorded_snapshots({"v": ("a", [0.5, 0.5])}, nodes=("a", "b", "c"))
    _, second = recorded_snapshots(
        {"v": ("a", [0.5, 0.5]), "w": ("b", [0.2, 0.2])}, nodes=("a", "b", "c")
    )
    platform = platform_of([first, second])
    platform.start(PowerOff(B))

    platform.clock.sleep(600.0)

    # c has no guest, and thus more memory available than a.
    assert platform.observe().guests[W].node == "c"
    assert platform.relocations == 0
