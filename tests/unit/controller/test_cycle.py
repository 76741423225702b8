"""Decisions from a snapshot of the cluster and the memory of the policy."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, ClassVar

import pytest

from opendrs.controller import enrich_snapshot, evaluations
from opendrs.errors import StoreError
from opendrs.model import (
    DEFAULT_LIMITS,
    AntiAffinity,
    GuestId,
    Limits,
    Pin,
    Rule,
    Snapshot,
)
from opendrs.policies import (
    BUILT_IN_POLICIES,
    AutoRebalance,
    Balance,
    Decision,
    DecisionReason,
    Policy,
)
from opendrs.policies.consolidation import Consolidate
from opendrs.policies.optimize import Optimize
from opendrs.ports import Outcome, StepRecord
from opendrs.store import MemoryStore
from support.builders import NOON, cluster, guest_ids
from support.simulated_cluster import migration, step

LOPSIDED = cluster({"a": 0.9, "b": 0.1}, {"vm1": ("a", 0.3)})
MOVED = cluster(
    {"a": 0.5, "b": 0.5, "c": 0.1},
    {"vm1": ("b", 0.1), "vm2": ("a", 0.1), "vm3": ("a", 0.1)},
)
APART = AntiAffinity(guests=guest_ids("vm2", "vm3"))
STAYS = Pin(guests=guest_ids("vm2", "vm3"))
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


def test_enrich_recorded_migration_sets_migrated_at() -> None:
    store = MemoryStore()
    store.write(moved(seconds_ago=20))

    found = enrich_snapshot(LOPSIDED, Balance(), store)

    assert found.guests[VM].migrated_at == NOON - timedelta(seconds=20)


def test_enrich_failed_migration_sets_no_time_of_a_migration() -> None:
    store = MemoryStore()
    store.write(moved(seconds_ago=20, outcome=Outcome.FAILED))

    found = enrich_snapshot(LOPSIDED, Balance(), store)

    assert found.guests == LOPSIDED.guests


def test_enrich_uses_later_of_record_and_platform() -> None:
    store = MemoryStore()
    store.write(moved(seconds_ago=20))
    logged = replace(LOPSIDED.guests[VM], migrated_at=NOON - timedelta(seconds=5))
    seen = replace(LOPSIDED, guests={VM: logged})

    assert enrich_snapshot(seen, Balance(), store) == seen


def test_decision_contains_no_guest_in_cooldown() -> None:
    store = MemoryStore()
    store.write(moved(seconds_ago=20))
    snapshot = enrich_snapshot(LOPSIDED, Balance(), store)

    decision = next(evaluations(snapshot, Balance(), store)).decision

    assert decision.reason is DecisionReason.NO_CANDIDATE
    assert any("600 s" in note for note in decision.notes)


@pytest.mark.parametrize(
    ("violated", "may_return"),
    [((), False), ((APART,), True), ((APART, STAYS), False)],
    ids=["none", "repairable", "unrepairable"],
)
def test_guests_return_only_while_optimize_can_repair_a_rule(
    violated: tuple[Rule, ...], *, may_return: bool
) -> None:
    store = MemoryStore()
    store.write(moved(seconds_ago=700))
    snapshot = replace(MOVED, rules=violated)

    found = enrich_snapshot(snapshot, Optimize(), store)

    assert (found.rules == violated) is may_return


def test_each_evaluation_advances_policy_memory() -> None:
    store, policy = MemoryStore(), AutoRebalance(hold=3)

    reasons = [
        next(evaluations(LOPSIDED, policy, store)).decision.reason for _ in range(4)
    ]

    assert reasons == [
        DecisionReason.HOLD_NOT_REACHED,
        DecisionReason.HOLD_NOT_REACHED,
        DecisionReason.IMPROVES_BALANCE,
        DecisionReason.HOLD_NOT_REACHED,
    ]


@pytest.mark.parametrize(
    ("policy", "saved", "diagnostic"),
    [
        (AutoRebalance(), {"memory": "three"}, "memory: expected a whole number"),
        (AutoRebalance(), {"memory": None}, "memory: expected a whole number"),
        (AutoRebalance(), {}, "memory: is missing"),
        (Consolidate(), {"memory": 3}, "memory: "),
        (
            Consolidate(),
            {"memory": {"cycle": 1, "guests": {"vm": [None]}, "nodes": {}}},
            "memory.guests.vm[0]: expected a number, got null",
        ),
    ],
)
def test_memory_of_wrong_type_raises_store_error(
    policy: Policy[Any], saved: dict[str, object], diagnostic: str
) -> None:
    store = MemoryStore()
    store.save(f"memory of {policy.name}", saved)

    with pytest.raises(StoreError) as raised:
        next(evaluations(LOPSIDED, policy, store))

    assert str(raised.value).startswith(
        f'store: entry "memory of {policy.name}" does not fit the policy: {diagnostic}'
    )


@dataclass(frozen=True, kw_only=True)
class Foreign:
    """A third-party policy without a type for its memory."""

    name: ClassVar[str] = "foreign"
    limits: Limits = DEFAULT_LIMITS

    def initial_memory(self):  # type: ignore[no-untyped-def]  # noqa: ANN201
        return {}

    def decide(self, snapshot: Snapshot, memory: Any) -> Decision[Any]:  # noqa: ANN401
        del snapshot
        return Decision(DecisionReason.BALANCED, memory)


def test_memory_without_type_is_not_checked() -> None:
    store = MemoryStore()
    store.save("memory of foreign", {"memory": ["anything"]})

    assert next(evaluations(LOPSIDED, Foreign(), store)).decision.memory == ["anything"]


def test_memory_of_every_policy_is_saved_and_loaded() -> None:
    for kind in BUILT_IN_POLICIES.values():
        store, policy = MemoryStore(), kind()
        first = next(evaluations(LOPSIDED, policy, store))

        second = next(evaluations(LOPSIDED, policy, store))

        assert first.memory == policy.initial_memory()
        assert second.memory == json.loads(json.dumps(first.decision.memory))
