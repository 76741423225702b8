"""History of migrations and power actions in the record."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from opendrs.controller.history import (
    add_recent_actions,
    last_migrations,
    recent_actions,
)
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
from opendrs.store import MemoryStore
from support.builders import NOON, cluster
from support.simulated_cluster import migration

LIMITS = Limits(cooldown=600, migration_timeout=1800)
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
    found = last_migrations(store, LIMITS, NOON)
    return {name: (NOON - at).total_seconds() / 60 for name, at in found.items()}


def test_last_migration_of_guest_counts() -> None:
    assert moves(record(5, Outcome.DONE), record(9, Outcome.DONE)) == {"vm1": 5}


def test_migration_end_time_counts() -> None:
    (when,) = moves(record(9, Outcome.DONE)).values()

    assert when == 9


def test_lost_migration_counts_as_migrated() -> None:
    assert moves(record(5, Outcome.LOST)) == {"vm1": 5}


@pytest.mark.parametrize(
    "outcome",
    [None, Outcome.FAILED, Outcome.ABORTED, Outcome.REJECTED, Outcome.SKIPPED],
)
def test_failed_migration_does_not_count(outcome: Outcome | None) -> None:
    assert moves(record(5, outcome)) == {}


def test_power_action_is_no_migration() -> None:
    assert moves(record(5, Outcome.DONE, PowerOff(NodeId("a")))) == {}


def test_power_on_sets_powered_on_at() -> None:
    store = MemoryStore()
    for minutes, outcome in (
        (9, Outcome.DONE),
        (5, Outcome.DONE),
        (3, Outcome.REJECTED),
        (2, None),
    ):
        store.write(record(minutes, outcome, PowerOn(A)))
    store.write(record(4, Outcome.DONE, PowerOff(NodeId("b"))))

    known = recent_actions(store, LIMITS, NOON)

    assert known.powered_on_at == {A: NOON - timedelta(minutes=5)}
    found = add_recent_actions(cluster({"a": 0.1, "b": 0.1}, {}), known)
    assert {name: node.powered_on_at for name, node in found.nodes.items()} == {
        "a": NOON - timedelta(minutes=5),
        "b": None,
    }


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.ABORTED, Outcome.LOST])
def test_late_power_on_sets_powered_on_at(outcome: Outcome) -> None:
    store = MemoryStore()
    store.write(record(5, outcome, PowerOn(A)))
    seen = cluster({"a": 0.1}, {})
    powered_off = replace(seen.nodes[A], state=NodeState.OFFLINE)

    known = recent_actions(store, LIMITS, NOON)
    came = add_recent_actions(seen, known).nodes[A]
    stayed = add_recent_actions(replace(seen, nodes={A: powered_off}), known).nodes[A]

    assert (came.powered_on_at, stayed.powered_on_at) == (
        NOON - timedelta(minutes=5),
        None,
    )


def test_later_power_on_time_counts() -> None:
    store = MemoryStore()
    store.write(record(5, Outcome.DONE, PowerOn(A)))
    seen = cluster({"a": 0.1}, {})
    logged = replace(seen.nodes[A], powered_on_at=NOON - timedelta(minutes=1))
    seen = replace(seen, nodes={A: logged})

    assert add_recent_actions(seen, recent_actions(store, LIMITS, NOON)) == seen


@pytest.mark.parametrize("outcome", [Outcome.DONE, Outcome.LOST])
def test_migration_recovered_late_counts(
    outcome: Outcome,
) -> None:
    # The controller was down for a day, or its clock was set forward meanwhile.
    recovered = replace(record(5, outcome), intended_at=NOON - timedelta(days=1))

    assert moves(recovered) == {"vm1": 5}


def test_records_before_cooldown_are_ignored() -> None:
    assert moves(record(600, Outcome.DONE)) == {}
