"""A decision rests on a look at the cluster and on what is remembered."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, ClassVar

import pytest

from builders import NOON, cluster
from opendrs.controller import decide, remembered
from opendrs.controller.cycle import judge
from opendrs.controller.stores import MemoryStore
from opendrs.errors import StoreError
from opendrs.model import DEFAULT_LIMITS, GuestId, Limits, Snapshot
from opendrs.policies import (
    BUILT_IN,
    AutoRebalance,
    Balance,
    Consolidate,
    Decision,
    Policy,
    Reason,
)
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


@pytest.mark.parametrize(
    ("policy", "saved", "complaint"),
    [
        (AutoRebalance(), {"memory": "three"}, "memory: expected a whole number"),
        (AutoRebalance(), {"memory": None}, "memory: expected a whole number"),
        (AutoRebalance(), {}, "memory: is missing"),
        (Consolidate(), {"memory": 3}, "memory: "),
        (
            Consolidate(),
            {"memory": {"cycle": 1, "guests": {"vm": [None]}, "nodes": {}}},
            "memory.guests.vm[0]: expected a number, found null",
        ),
    ],
)
def test_a_memory_of_another_kind_is_told_with_its_name(
    policy: Policy[Any], saved: dict[str, object], complaint: str
) -> None:
    store = MemoryStore()
    store.save(f"memory of {policy.name}", saved)

    with pytest.raises(StoreError) as raised:
        decide(LOPSIDED, policy, store)

    assert str(raised.value).startswith(
        f'the record holds something else as "memory of {policy.name}" than that '
        f"policy remembers: {complaint}"
    )


@dataclass(frozen=True, kw_only=True)
class Foreign:
    """A policy of somebody else, that does not say what it remembers."""

    name: ClassVar[str] = "foreign"
    limits: Limits = DEFAULT_LIMITS

    def initial_memory(self):  # type: ignore[no-untyped-def]  # noqa: ANN201
        return {}

    def decide(self, snapshot: Snapshot, memory: Any) -> Decision[Any]:  # noqa: ANN401
        del snapshot
        return Decision(Reason.BALANCED, memory)


def test_what_is_not_said_is_not_checked() -> None:
    store = MemoryStore()
    store.save("memory of foreign", {"memory": ["anything"]})

    assert decide(LOPSIDED, Foreign(), store).memory == ["anything"]


def test_the_memory_of_every_policy_is_kept_and_recalled() -> None:
    for kind in BUILT_IN.values():
        store, policy = MemoryStore(), kind()
        first = judge(LOPSIDED, policy, store)

        second = judge(LOPSIDED, policy, store)

        assert first.memory == policy.initial_memory()
        assert second.memory == json.loads(json.dumps(first.decision.memory))
