"""A decision rests on a look at the cluster and on what is remembered."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from builders import NOON, cluster
from opendrs.controller import decide, remembered
from opendrs.controller.stores import MemoryStore
from opendrs.model import GuestId
from opendrs.policies import AutoRebalance, Balance, Reason
from opendrs.ports import Outcome, StepRecord
from stage import migration, step

LOPSIDED = cluster({"a": 0.9, "b": 0.1}, {"vm1": ("a", 0.3)})
VM = GuestId("vm1")
MOVE = step("1", migration("vm1", "a", "b"))


def moved(seconds_ago: float, outcome: Outcome = Outcome.DONE) -> StepRecord:
    """Return the record of a move of vm1 that ended so many seconds ago."""
    ended = NOON - timedelta(seconds=seconds_ago)
    return StepRecord(
        run="earlier",
        step=MOVE.id,
        action=MOVE.action,
        intended_at=ended - timedelta(seconds=30),
        ended_at=ended,
        outcome=outcome,
    )


def test_a_guest_that_the_record_knows_was_moved_bears_the_time() -> None:
    store = MemoryStore()
    store.write(moved(seconds_ago=20))

    found = remembered(LOPSIDED, Balance(), store)

    assert found.guests[VM].moved_at == NOON - timedelta(seconds=20)


def test_a_move_that_failed_is_none() -> None:
    store = MemoryStore()
    store.write(moved(seconds_ago=20, outcome=Outcome.FAILED))

    assert remembered(LOPSIDED, Balance(), store) == LOPSIDED


def test_the_later_of_what_record_and_platform_know_counts() -> None:
    store = MemoryStore()
    store.write(moved(seconds_ago=20))
    told = replace(LOPSIDED.guests[VM], moved_at=NOON - timedelta(seconds=5))
    seen = replace(LOPSIDED, guests={VM: told})

    assert remembered(seen, Balance(), store) == seen


def test_no_guest_is_proposed_that_the_guard_would_send_back() -> None:
    store = MemoryStore()
    store.write(moved(seconds_ago=20))
    snapshot = remembered(LOPSIDED, Balance(), store)

    decision = decide(snapshot, Balance(), store)

    assert decision.reason is Reason.NO_CANDIDATE
    assert any("moved less than 600 s ago" in note for note in decision.notes)


def test_each_call_is_one_cycle_of_the_policy() -> None:
    store, policy = MemoryStore(), AutoRebalance(hold=3)

    reasons = [decide(LOPSIDED, policy, store).reason for _ in range(4)]

    assert reasons == [
        Reason.NOT_YET_SUSTAINED,
        Reason.NOT_YET_SUSTAINED,
        Reason.IMPROVES_BALANCE,
        Reason.NOT_YET_SUSTAINED,
    ]
