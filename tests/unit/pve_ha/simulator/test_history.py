"""History of services: nodes, moves and downtime."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from opendrs.model import NodeId
from opendrs.pve_ha.simulator import run_drill
from opendrs.pve_ha.simulator.history import DrillHistory, read_history
from opendrs.pve_ha.simulator.pve_names import PveNames
from opendrs.pve_ha.simulator.service_timeline import (
    ServiceInterval,
    ServiceTimeline,
    TimelinePoint,
)
from opendrs.pve_ha.simulator.summary import summarize_drill
from opendrs.pve_ha.states import ServiceId
from support.drills import scenario

A, B = NodeId("a"), NodeId("b")
VM, CT = ServiceId("vm:101"), ServiceId("ct:102")


def run_history(*batches: list[str], **services: str) -> DrillHistory:
    node_of = {name.replace("_", ":"): node for name, node in services.items()}
    return read_history(run_drill(scenario(node_of, *batches)))


def test_service_is_down_from_node_failure_to_next_start() -> None:
    result = run_history(["power node3 off"], vm_101="node3")

    assert result.fencings == {"node3": (240,)}
    before, down, after = result.timeline_of(VM).intervals(result.ended_at)
    assert (before.node, before.end, down.node) == ("node3", 120, None)
    assert (after.node, after.start) == (result.moves[-1].target, result.starts[VM][-1])
    assert result.timeline_of(VM).downtime(result.ended_at) == down.duration


def test_live_migration_has_no_downtime_and_relocation_has() -> None:
    result = run_history(
        ["service vm:101 migrate node2", "service ct:102 migrate node2"],
        vm_101="node1",
        ct_102="node1",
    )

    assert result.timeline_of(VM).downtime(result.ended_at) == 0
    assert result.timeline_of(CT).downtime(result.ended_at) > 0
    assert [str(move.how) for move in result.moves] == ["relocate", "migrate"]


def test_stopped_service_is_not_down() -> None:
    result = run_history(["service vm:101 stopped"], vm_101="node1")

    assert result.timeline_of(VM).last.node is None
    assert result.timeline_of(VM).downtime(result.ended_at) == 0


def test_unknown_service_has_no_intervals() -> None:
    result = run_history()

    assert list(result.timeline_of(VM).intervals(result.ended_at)) == []


def test_summary_starts_with_longest_downtime() -> None:
    result = run_history(["power node3 off"], vm_101="node1", ct_102="node3")

    summary = summarize_drill(result, PveNames(), None)

    assert [one.guest for one in summary.guests] == ["ct:102", "vm:101"]
    assert (summary.recoveries, summary.is_settled) == (1, True)


POINTS = st.lists(
    st.tuples(st.integers(0, 50), st.sampled_from([None, A, B]), st.booleans()),
    min_size=1,
).map(
    lambda points: tuple(TimelinePoint(t, n, w) for t, n, w in sorted(points, key=str))
)


def is_down_at(timeline: ServiceTimeline, time: int) -> bool:
    """Return True if a service is down at *time*; the definition as an oracle."""
    so_far = [point for point in timeline.points if point.time <= time]
    return (
        bool(so_far)
        and so_far[-1].node is None
        and so_far[-1].should_run
        and any(point.node for point in so_far)
    )


@given(POINTS, st.integers(0, 60))
def test_downtime_is_sum_of_seconds_down(
    points: tuple[TimelinePoint, ...], end: int
) -> None:
    timeline = ServiceTimeline(tuple(sorted(points, key=lambda point: point.time)))

    assert timeline.downtime(end) == sum(
        is_down_at(timeline, second) for second in range(end)
    )


@given(POINTS, st.integers(1, 60))
def test_intervals_do_not_overlap(points: tuple[TimelinePoint, ...], end: int) -> None:
    timeline = ServiceTimeline(tuple(sorted(points, key=lambda point: point.time)))

    intervals: list[ServiceInterval] = list(timeline.intervals(end))

    assert all(one.end <= next_.start for one, next_ in pairwise(intervals))
    assert all(interval.start < interval.end <= end for interval in intervals)
