"""What the record tells about the moves of the past."""

from __future__ import annotations

from datetime import timedelta

import pytest

from builders import NOON
from opendrs.controller.history import last_moves
from opendrs.controller.stores import MemoryStore
from opendrs.model import Action, GuestId, Limits, NodeId, PowerOff, StepId
from opendrs.ports import Outcome, StepRecord
from stage import migration

LIMITS = Limits(cooldown=600, patience=1800)
MOVE = migration("vm1", "a", "b")


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


def test_nodes_do_not_cool_down() -> None:
    assert moves(record(5, Outcome.DONE, PowerOff(NodeId("a")))) == {}


def test_what_is_long_past_is_not_looked_at() -> None:
    assert moves(record(600, Outcome.DONE)) == {}
