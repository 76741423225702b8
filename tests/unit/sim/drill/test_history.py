"""What became of services: who ran where, and who was down for how long."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from opendrs.ha.identifiers import ServiceId
from opendrs.model import NodeId
from opendrs.sim.drill import hold_drill
from opendrs.sim.drill.history import History, history_of
from opendrs.sim.drill.lives import Life, Mark, Span
from opendrs.sim.drill.naming import Names
from opendrs.sim.drill.summary import summary_of
from unit.sim.drill.drills import scenario

A, B = NodeId("a"), NodeId("b")
VM, CT = ServiceId("vm:101"), ServiceId("ct:102")


def history(*batches: list[str], **services: str) -> History:
    named = {name.replace("_", ":"): node for name, node in services.items()}
    return history_of(hold_drill(scenario(named, *batches)))


def test_a_service_is_down_from_the_loss_of_its_node_to_its_next_start() -> None:
    found = history(["power node3 off"], vm_101="node3")

    assert found.fencings == {"node3": (240,)}
    before, down, after = found.life(VM).spans(found.end)
    assert (before.node, before.end, down.node) == ("node3", 120, None)
    assert (after.node, after.begin) == (found.moves[-1].target, found.starts[VM][-1])
    assert found.life(VM).downtime(found.end) == down.length


def test_a_live_migration_costs_no_time_and_a_relocation_does() -> None:
    found = history(
        ["service vm:101 migrate node2", "service ct:102 migrate node2"],
        vm_101="node1",
        ct_102="node1",
    )

    assert found.life(VM).downtime(found.end) == 0
    assert found.life(CT).downtime(found.end) > 0
    assert [str(move.how) for move in found.moves] == ["relocate", "migrate"]


def test_what_was_stopped_on_purpose_is_not_down() -> None:
    found = history(["service vm:101 stopped"], vm_101="node1")

    assert found.life(VM).last.node is None
    assert found.life(VM).downtime(found.end) == 0


def test_a_service_that_was_never_there_did_nothing() -> None:
    found = history()

    assert list(found.life(VM).spans(found.end)) == []


def test_the_longest_down_is_named_first() -> None:
    found = history(["power node3 off"], vm_101="node1", ct_102="node3")

    summary = summary_of(found, Names(), None)

    assert [one.guest for one in summary.guests] == ["ct:102", "vm:101"]
    assert (summary.recoveries, summary.at_rest) == (1, True)


MARKS = st.lists(
    st.tuples(st.integers(0, 50), st.sampled_from([None, A, B]), st.booleans()),
    min_size=1,
).map(lambda marks: tuple(Mark(t, n, w) for t, n, w in sorted(marks, key=str)))


def moment(life: Life, time: int) -> bool:
    """Return whether a service is down at *time*, said plainly."""
    so_far = [mark for mark in life.marks if mark.time <= time]
    return (
        bool(so_far)
        and so_far[-1].node is None
        and so_far[-1].wanted
        and any(mark.node for mark in so_far)
    )


@given(MARKS, st.integers(0, 60))
def test_downtime_is_the_sum_of_all_seconds_in_which_it_is_down(
    marks: tuple[Mark, ...], end: int
) -> None:
    life = Life(tuple(sorted(marks, key=lambda mark: mark.time)))

    assert life.downtime(end) == sum(moment(life, second) for second in range(end))


@given(MARKS, st.integers(1, 60))
def test_spans_follow_one_another(marks: tuple[Mark, ...], end: int) -> None:
    life = Life(tuple(sorted(marks, key=lambda mark: mark.time)))

    spans: list[Span] = list(life.spans(end))

    assert all(one.end <= next_.begin for one, next_ in pairwise(spans))
    assert all(span.begin < span.end <= end for span in spans)
