"""Circuit breaker, budgets and standing back during executions and cycles."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from opendrs.controller.modes import BREAKER_KEY, RESET_KEY
from opendrs.controller.protection import (
    CircuitBreaker,
    protect,
)
from opendrs.model import (
    Limits,
    LiveMigration,
    MigrationBudget,
    NodeAffinity,
    NodeId,
    NodeState,
    Protection,
    StepId,
    time_as_text,
)
from opendrs.policies.optimize import Repair
from opendrs.ports import Outcome, StepRecord, TaskId
from opendrs.store import MemoryStore
from support.builders import NOON, cluster, guest_ids

A, B = NodeId("a"), NodeId("b")
PROTECTION = Protection(max_failures=2, failure_window=600.0)
LIMITS = Limits(migration_timeout=60.0)


def record(number: int, outcome: Outcome, **changes: object) -> StepRecord:
    (guest,) = guest_ids(f"g{number}")
    at = NOON - timedelta(seconds=100 - number)
    complete = StepRecord(
        run="run",
        step=StepId(str(number)),
        action=LiveMigration(guest, A, B),
        intended_at=at,
        task=TaskId("t"),
        ended_at=at,
        outcome=outcome,
    )
    return replace(complete, **changes)  # type: ignore[arg-type]


def store_with(*records: StepRecord) -> MemoryStore:
    store = MemoryStore()
    for each in records:
        store.write(each)
    return store


def breaker(store: MemoryStore) -> CircuitBreaker:
    return CircuitBreaker(store, PROTECTION, LIMITS, "lab")


def test_breaker_opens_after_failures_and_stays_open() -> None:
    store = store_with(record(1, Outcome.FAILED))
    assert breaker(store).update(NOON) is None

    store.write(record(2, Outcome.LOST))
    assert breaker(store).update(NOON) is not None
    assert breaker(store).opened_at == NOON
    assert breaker(store).update(NOON + timedelta(days=1)) is None
    assert breaker(store).opened_at == NOON


@pytest.mark.parametrize(
    "harmless",
    [
        record(2, Outcome.REJECTED),
        record(2, Outcome.SKIPPED),
        record(2, Outcome.DONE),
        record(2, Outcome.ABORTED),
        record(2, Outcome.LOST, task=None),
        record(2, Outcome.FAILED, ended_at=NOON - timedelta(seconds=601)),
    ],
    ids=lambda each: f"{each.outcome} {each.task}",
)
def test_other_outcomes_are_no_failures(harmless: StepRecord) -> None:
    harmless = replace(harmless, intended_at=min(harmless.intended_at, NOON))

    store = store_with(record(1, Outcome.FAILED), harmless)

    assert breaker(store).update(NOON) is None


def test_timeout_is_a_failure() -> None:
    timed_out = record(
        2, Outcome.ABORTED, intended_at=NOON - timedelta(seconds=70), ended_at=NOON
    )

    assert breaker(store_with(record(1, Outcome.FAILED), timed_out)).update(NOON)


def test_guest_that_did_not_arrive_is_a_failure() -> None:
    snapshot = cluster({A: 0.5, B: 0.5}, {"g1": ("a", 0.1), "g2": ("a", 0.1)})
    store = store_with(record(1, Outcome.DONE), record(2, Outcome.DONE))

    soon = replace(snapshot, taken_at=NOON - timedelta(seconds=90))
    assert breaker(store).update(NOON, soon) is None  # arrivals may not be visible yet
    assert breaker(store).update(NOON, snapshot) is not None


def test_failures_before_a_reset_do_not_count_again() -> None:
    store = store_with(record(1, Outcome.FAILED), record(2, Outcome.FAILED))
    store.save(RESET_KEY, {"at": time_as_text(NOON)})

    assert breaker(store).update(NOON) is None


def test_open_breaker_is_updated_by_new_failures_only() -> None:
    store = store_with(record(1, Outcome.FAILED), record(2, Outcome.FAILED))
    breaker(store).update(NOON)
    since = store.load(BREAKER_KEY)

    assert breaker(store).update(NOON + timedelta(seconds=1)) is None
    assert store.load(BREAKER_KEY) == since


def test_node_with_backup_receives_no_guests() -> None:
    snapshot = cluster({A: 0.5, B: 0.5}, {"g1": ("a", 0.1)})
    busy = replace(snapshot.nodes[B], jobs=("vncproxy", "vzdump"))
    idle = replace(snapshot.nodes[A], jobs=("vncproxy",))

    found = protect(
        replace(snapshot, nodes={A: idle, B: busy}), MemoryStore(), PROTECTION
    )

    assert found.nodes[B].state is NodeState.EXCLUDED
    assert found.nodes[A].state is NodeState.ONLINE


def test_rule_that_cannot_be_repaired_allows_no_return() -> None:
    (one,) = guest_ids("g1")
    snapshot = cluster({"a": 0.1, "b": 0.5}, {"g1": ("b", 0.1)})
    impossible = NodeAffinity(guests=frozenset({one}), nodes={NodeId("c"): 0})
    store = store_with(record(1, Outcome.DONE))

    found = protect(replace(snapshot, rules=(impossible,)), store, PROTECTION)

    assert [rule.origin for rule in found.rules] == ["", "undo horizon"]


def test_repair_may_return_a_guest() -> None:
    (one,) = guest_ids("g1")
    snapshot = cluster({"a": 0.1, "b": 0.5}, {"g1": ("b", 0.1)})
    home = NodeAffinity(guests=frozenset({one}), nodes={A: 0})
    store = store_with(record(1, Outcome.DONE))

    found = protect(replace(snapshot, rules=(home,)), store, PROTECTION)

    assert len(found.rules) == 2
    assert len(Repair().decide(found, None).plan.steps) == 1


def test_budget_of_no_amount_is_invalid() -> None:
    with pytest.raises(ValueError, match="expected migrations, memory, or both"):
        MigrationBudget(window=60)
