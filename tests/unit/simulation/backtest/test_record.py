"""Recorded snapshots as arrays."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from opendrs.errors import ConfigurationError, DiagnosticCode
from opendrs.model import GIB, GuestId, NodeId, NodeState, Usage
from opendrs.simulation.backtest import LoadRecord
from support.builders import NOON, guest, node
from support.recorded_load import HOST_LOAD, recorded_snapshots

V, A = GuestId("v"), NodeId("a")


def test_interval_is_the_median_and_longer_steps_are_gaps() -> None:
    loads = {"v": ("a", [0.2] * 5)}

    record = LoadRecord(recorded_snapshots(loads, minutes=[0, 10, 20, 60, 70]), "x")

    assert record.interval == 600
    assert record.holds.tolist() == [600, 600, 600, 600, 600]
    (gap,) = record.gaps
    assert (gap.start, gap.seconds) == (NOON + timedelta(minutes=30), 1800)
    assert record.seconds == 3000
    assert record.end == 80 * 60
    # The snapshot of minute 20 holds until minute 30.
    assert record.measured_seconds(2, 29 * 60, 600) == 60


def test_three_usual_intervals_are_no_gap() -> None:
    loads = {"v": ("a", [0.2] * 4)}

    record = LoadRecord(recorded_snapshots(loads, minutes=[0, 10, 20, 50]), "x")

    assert record.gaps == ()
    assert record.holds.tolist() == [600, 600, 1800, 600]


def test_host_usage_is_that_of_the_node_without_its_guests() -> None:
    snapshots = recorded_snapshots({"v": ("a", [0.2, 0.4]), "w": ("a", [0.1, 0.1])})

    record = LoadRecord(snapshots, "x")

    expected = [HOST_LOAD * 10, HOST_LOAD * 100 * GIB]
    for index in range(2):
        for row in range(2):
            assert record.host_usage[index, row] == pytest.approx(expected)


def test_unknown_measurements_stay_unknown() -> None:
    first, second = recorded_snapshots({"v": ("a", [0.2, 0.4])})
    changed = replace(
        second,
        nodes={**second.nodes, A: node("a", None)},
        guests={V: replace(second.guests[V], usage=Usage(None, GIB))},
    )

    record = LoadRecord([first, changed], "x")

    assert np.isnan(record.usage[1, 0, 0])
    assert record.usage[1, 0, 1] == GIB
    assert np.isnan(record.host_usage[1, 0]).all()
    assert record.snapshot(1).guests[V].usage == Usage(None, GIB)
    assert record.snapshot(1).nodes[A].usage == Usage()


def test_host_usage_and_capacity_of_a_node_that_is_off_are_the_last_known() -> None:
    first, second = recorded_snapshots({"v": ("b", [0.2, 0.4])})
    off = node("a", None, state=NodeState.OFFLINE, capacity=None)

    record = LoadRecord([first, replace(second, nodes={**second.nodes, A: off})], "x")

    assert record.host_usage[1, 0] == pytest.approx(record.host_usage[0, 0])
    assert record.capacity[1, 0].tolist() == record.capacity[0, 0].tolist()


def test_guests_and_nodes_that_come_and_go_have_rows_in_order_of_name() -> None:
    (first, second) = recorded_snapshots({"v": ("a", [0.2, 0.2])})
    (_, other) = recorded_snapshots({"b": ("a", [0.1, 0.1])}, nodes=("a", "c"))

    record = LoadRecord([first, replace(other, taken_at=second.taken_at)], "x")

    assert record.guest_ids == ("b", "v")
    assert record.node_ids == ("a", "b", "c")
    assert record.node_of.tolist() == [[-1, 0], [0, -1]]
    assert record.active.tolist() == [[False, True], [True, False]]


def test_snapshot_is_that_of_the_record_without_actions_of_a_controller() -> None:
    first, second = recorded_snapshots({"v": ("a", [0.2, 0.4])})
    moving = replace(
        second.guests[V], migrating_to=NodeId("b"), migrated_at=NOON, uptime=60.0
    )

    record = LoadRecord([replace(second, guests={V: moving}), first], "x")

    assert record.snapshot(0) == first
    assert record.snapshot(1) == replace(
        second, guests={V: replace(second.guests[V], uptime=60.0)}
    )


def test_one_snapshot_is_no_record() -> None:
    first, _ = recorded_snapshots({"v": ("a", [0.2, 0.4])})

    with pytest.raises(ConfigurationError, match="got 1") as caught:
        LoadRecord([first, replace(first, guests={V: guest("v", "a", 0.3)})], "x")

    assert caught.value.codes == (DiagnosticCode.INCOMPLETE,)
