"""What the record tells about the moves and the switches of the past."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from builders import NOON, cluster
from opendrs.controller.history import last_moves, past, recalled
from opendrs.controller.stores import MemoryStore
from opendrs.model import (
    Action,
    GuestId,
    Limits,
    NodeId,
    NodeState,
    PowerOff,
    PowerOn,
    StepId,
)
from opendrs.ports import Outcome, StepRecord
from stage import migration

LIMITS = Limits(cooldown=600, patience=1800)
MOVE = migration("vm1", "a", "b")
A = NodeId("a")


def record(minutes: int, outcome: Outcome | None, action: Action = MOVE) -> StepRecord:
    """Return the record of a step that ended so many *minutes* before noon."""
    ended_at = NOON - timedelta(minutes=minutes)
    return StepRecord(
        run="run",
        step=StepId(f"{minutes}"),
        action=action,
        intended_at=ended_at - timedelta(minutes=2),
        ended_at=ended_at if outcome else None,
        outcome=outcome,
    )


def moves(*records: StepRecord) -> dict[GuestId, float]:
    """Return how many minutes before noon each guest was moved."""
    store = MemoryStore()
    for one in records:
        store.write(one)
    found = last_moves(store, LIMITS, NOON)
    return {name: (NOON - at).total_seconds() / 60 for name, at in found.items()}


def test_the_last_move_of_a_guest_counts() -> None:
    assert moves(record(5, Outcome.DONE), record(9, Outcome.DONE)) == {"vm1": 5}


def test_the_end_of_a_move_counts_and_not_its_beginning() -> None:
    (when,) = moves(record(9, Outcome.DONE)).values()

    assert when == 9


def test_a_guest_that_may_have_moved_counts_as_moved() -> None:
    assert moves(record(5, Outcome.LOST)) == {"vm1": 5}


@pytest.mark.parametrize(
    "outcome",
    [None, Outcome.FAILED, Outcome.ABORTED, Outcome.REFUSED, Outcome.SKIPPED],
)
def test_a_guest_that_stayed_does_not(outcome: Outcome | None) -> None:
    assert moves(record(5, outcome)) == {}


def test_a_switch_of_a_node_moves_nobody() -> None:
    assert moves(record(5, Outcome.DONE, PowerOff(NodeId("a")))) == {}


def test_a_node_that_was_woken_bears_the_time() -> None:
    store = MemoryStore()
    for minutes, outcome in (
        (9, Outcome.DONE),
        (5, Outcome.DONE),
        (3, Outcome.REFUSED),
        (2, None),
    ):
        store.write(record(minutes, outcome, PowerOn(A)))
    store.write(record(4, Outcome.DONE, PowerOff(NodeId("b"))))

    known = past(store, LIMITS, NOON)

    assert known.wakes == {A: NOON - timedelta(minutes=5)}
    found = recalled(cluster({"a": 0.1, "b": 0.1}, {}), known)
    assert {name: node.woken_at for name, node in found.nodes.items()} == {
        "a": NOON - timedelta(minutes=5),
        "b": None,
    }


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.ABORTED, Outcome.LOST])
def test_a_node_that_woke_after_all_bears_the_time(outcome: Outcome) -> None:
    store = MemoryStore()
    store.write(record(5, outcome, PowerOn(A)))
    seen = cluster({"a": 0.1}, {})
    asleep = replace(seen.nodes[A], state=NodeState.OFFLINE)

    known = past(store, LIMITS, NOON)
    came = recalled(seen, known).nodes[A]
    stayed = recalled(replace(seen, nodes={A: asleep}), known).nodes[A]

    assert (came.woken_at, stayed.woken_at) == (NOON - timedelta(minutes=5), None)


def test_the_later_of_what_record_and_platform_know_of_a_wake_counts() -> None:
    store = MemoryStore()
    store.write(record(5, Outcome.DONE, PowerOn(A)))
    seen = cluster({"a": 0.1}, {})
    told = replace(seen.nodes[A], woken_at=NOON - timedelta(minutes=1))
    seen = replace(seen, nodes={A: told})

    assert recalled(seen, past(store, LIMITS, NOON)) == seen


@pytest.mark.parametrize("outcome", [Outcome.DONE, Outcome.LOST])
def test_a_move_counts_that_was_recovered_long_after_it_was_intended(
    outcome: Outcome,
) -> None:
    # The controller was down for a day, or its clock was set forward meanwhile.
    recovered = replace(record(5, outcome), intended_at=NOON - timedelta(days=1))

    assert moves(recovered) == {"vm1": 5}


def test_what_is_long_past_is_not_looked_at() -> None:
    assert moves(record(600, Outcome.DONE)) == {}
