"""Guests whose migrations failed are held back for a time."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from opendrs.arrays import SkipReason
from opendrs.controller import enrich_snapshot
from opendrs.controller.failed_migrations import failed_migrations
from opendrs.model import (
    DiskMove,
    GuestId,
    Limits,
    LiveMigration,
    NodeAffinity,
    NodeId,
    NodeState,
    PowerOff,
    PowerOn,
    Protection,
    Snapshot,
    StepId,
)
from opendrs.policies import Balance, Decision, Drain, Policy
from opendrs.policies.optimize import Optimize, Repair
from opendrs.ports import Outcome, StepRecord, TaskId
from opendrs.store import MemoryStore
from support.builders import NOON, cluster, guest_ids

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
BIG, SMALL = guest_ids("big", "small")
LIMITS = Limits(migration_timeout=1800.0)
TIMEOUT = "timeout: did not converge within 1800 s; big is on a (running)"


def ended(
    minutes: float,
    outcome: Outcome = Outcome.ABORTED,
    *,
    seconds: float = 1800.0,
    target: NodeId = B,
    task: TaskId | None = TaskId("t"),  # noqa: B008 - a str
) -> StepRecord:
    """Return a migration of big from a that ended so many minutes after noon."""
    end = NOON + timedelta(minutes=minutes)
    return StepRecord(
        run="run",
        step=StepId(f"{minutes}"),
        action=LiveMigration(BIG, A, target),
        intended_at=end - timedelta(seconds=seconds),
        task=task,
        ended_at=end,
        outcome=outcome,
        detail=TIMEOUT,
    )


def store_with(*records: StepRecord) -> MemoryStore:
    store = MemoryStore()
    for each in records:
        store.write(each)
    return store


def observed(minutes: float) -> Snapshot:
    """Return a cluster whose node a is the busiest, so many minutes after noon."""
    guests = {"big": ("a", 0.35), "small": ("a", 0.05)}
    snapshot = cluster({"a": 0.8, "b": 0.1, "c": 0.1}, guests)
    return replace(snapshot, taken_at=NOON + timedelta(minutes=minutes))


def decide(
    policy: Policy[Any], snapshot: Snapshot, store: MemoryStore, **settings: float
) -> Decision[Any]:
    protection = Protection(**settings)  # type: ignore[arg-type]
    complete = enrich_snapshot(snapshot, policy, store, protection)
    return policy.decide(complete, policy.initial_memory())


def moved(decision: Decision[Any]) -> dict[GuestId, NodeId]:
    actions = [step.action for step in decision.plan.steps]
    return {
        each.guest: each.target
        for each in actions
        if not isinstance(each, PowerOn | PowerOff)
    }


@pytest.mark.parametrize("policy", [Balance(limits=LIMITS), Optimize(limits=LIMITS)])
def test_guest_that_did_not_converge_is_held_back(policy: Policy[Any]) -> None:
    store = store_with(ended(0))

    soon = decide(policy, observed(30), store)
    later = decide(policy, observed(61), store)

    assert BIG not in moved(soon)
    assert soon.skipped[BIG].reason is SkipReason.MIGRATION_FAILED
    assert "until 2026-11-21 13:00 UTC" in soon.skipped[BIG].detail
    assert "did not converge within 1800 s" in soon.skipped[BIG].detail
    assert BIG in moved(later)


def test_without_a_delay_the_guest_is_planned_again() -> None:
    store = store_with(ended(0))

    found = decide(Balance(limits=LIMITS), observed(30), store, retry_delay=0.0)

    assert BIG in moved(found)


def test_repair_uses_another_target_than_the_failed_one() -> None:
    away = NodeAffinity(guests=frozenset({BIG}), nodes={B: 0, C: 0})
    snapshot = replace(observed(5), rules=(away,))

    assert moved(decide(Repair(limits=LIMITS), snapshot, MemoryStore())) == {BIG: B}
    assert moved(decide(Repair(limits=LIMITS), snapshot, store_with(ended(0)))) == {
        BIG: C
    }
    tried = store_with(ended(0), ended(1, target=C))
    assert moved(decide(Repair(limits=LIMITS), snapshot, tried)) == {}
    again = replace(snapshot, taken_at=NOON + timedelta(minutes=122))
    assert BIG in moved(decide(Repair(limits=LIMITS), again, tried))


def test_drain_uses_another_target_than_the_failed_one() -> None:
    snapshot = observed(5)
    drained = replace(snapshot.nodes[A], state=NodeState.MAINTENANCE)
    snapshot = replace(snapshot, nodes={**snapshot.nodes, A: drained})

    found = moved(decide(Drain(limits=LIMITS), snapshot, store_with(ended(0))))

    assert found[BIG] == C
    assert SMALL in found


def test_failures_in_a_row_are_counted_with_their_targets() -> None:
    records = [ended(0), ended(90, Outcome.FAILED, target=C)]

    (found,) = failed_migrations(records, LIMITS, NOON + timedelta(minutes=95))

    assert found.failures == 2
    assert found.targets == {B, C}
    assert found.migration.target == C
    assert found.at == NOON + timedelta(minutes=90)


@pytest.mark.parametrize(
    "later",
    [
        ended(5, Outcome.DONE),
        ended(5, Outcome.ABORTED, seconds=60.0),  # an operator aborted it
        ended(5, Outcome.REJECTED),
        ended(5, Outcome.SKIPPED),
        ended(5, Outcome.LOST, task=None),  # never started
        ended(5, Outcome.FAILED, task=None),  # perhaps never requested
    ],
    ids=lambda each: f"{each.outcome} {each.task}",
)
def test_only_a_failure_after_the_start_counts(later: StepRecord) -> None:
    now = NOON + timedelta(minutes=10)

    before = failed_migrations([ended(0), later], LIMITS, now)

    assert failed_migrations([later], LIMITS, now) == ()
    assert [each.failures for each in before] == (
        [] if later.outcome is Outcome.DONE else [1]
    )


def test_second_migration_in_a_row_without_a_task_counts() -> None:
    unrequested = [ended(minute, Outcome.FAILED, task=None) for minute in (0, 5)]
    done = ended(2, Outcome.DONE)

    (found,) = failed_migrations(unrequested, LIMITS, NOON + timedelta(minutes=6))
    others = failed_migrations([unrequested[0], done, unrequested[1]], LIMITS, NOON)

    assert found.failures == 1
    assert found.at == NOON + timedelta(minutes=5)
    assert others == ()


def test_end_in_the_future_counts_as_now() -> None:
    (found,) = failed_migrations([ended(60)], LIMITS, NOON)

    assert found.at == NOON


def test_moves_of_disks_count_by_themselves() -> None:
    move = DiskMove(BIG, A, "scsi0", "one", "two")
    records = [
        replace(ended(0, Outcome.FAILED), action=move),
        replace(ended(5, Outcome.FAILED), action=move),
        ended(10, Outcome.DONE),
    ]

    (found,) = failed_migrations(records, LIMITS, NOON + timedelta(minutes=15))

    assert (found.migration, found.failures, found.targets) == (move, 2, frozenset())
    done = replace(ended(12, Outcome.DONE), action=move)
    assert not failed_migrations([*records, done], LIMITS, NOON + timedelta(minutes=15))
