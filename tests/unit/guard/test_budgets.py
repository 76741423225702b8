"""Budgets of migrations and memory."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from opendrs.guard import RejectionReason, check_budgets
from opendrs.model import (
    BudgetScope,
    Disk,
    Limits,
    LiveMigration,
    MigrationBudget,
    MigrationLoad,
    Network,
    NodeId,
    PastMigration,
    Protection,
    Snapshot,
    Storage,
    Usage,
)
from support.builders import cluster, guest_ids

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
X, Y = guest_ids("x", "y")
LIMITS = Limits(networks=(Network(name="uplink", nodes=(C,), bandwidth=1e9),))


def observed() -> Snapshot:
    return cluster({A: 0.5, B: 0.5, C: 0.5}, {"x": ("a", 0.1), "y": ("a", 0.1)})


def started(
    source: NodeId, target: NodeId, minutes_ago: float, memory: int | None = None
) -> PastMigration:
    unknown = Usage()
    load = None if memory is None else MigrationLoad(Usage(1, memory), unknown, unknown)
    at = observed().taken_at - timedelta(minutes=minutes_ago)
    return PastMigration(LiveMigration(Y, source, target), at, load)


def reason(
    budget: MigrationBudget, *past: PastMigration, target: NodeId = B
) -> RejectionReason | None:
    found = check_budgets(
        [LiveMigration(X, A, target)],
        observed(),
        past,
        LIMITS,
        Protection(budgets=(budget,)),
    )
    return None if found is None else found.reason


SPENT = RejectionReason.BUDGET_EXCEEDED


def test_migrations_within_the_window_count() -> None:
    budget = MigrationBudget(window=3600, migrations=2)

    assert reason(budget, started(A, B, 10)) is None
    assert reason(budget, started(A, B, 10), started(B, A, 59)) is SPENT
    assert reason(budget, started(A, B, 10), started(B, A, 61)) is None


def test_memory_of_guests_counts() -> None:
    memory = observed().guests[X].usage.memory
    assert memory
    budget = MigrationBudget(window=3600, memory=3 * memory)

    assert reason(budget, started(A, B, 10, 2 * memory)) is None
    assert reason(budget, started(A, B, 10, 2 * memory + 1)) is SPENT


def test_memory_that_was_not_recorded_is_that_of_the_guest_now() -> None:
    memory = observed().guests[Y].usage.memory
    assert memory

    assert (
        reason(MigrationBudget(window=60, memory=memory), started(A, B, 0.5)) is SPENT
    )


def test_local_disks_of_guests_count() -> None:
    snapshot = observed()
    memory = snapshot.guests[X].usage.memory
    assert memory
    disk = Disk(storage="zfs", size=memory)
    local = replace(snapshot.nodes[A], storages=(Storage(id="zfs", shared=False),))
    guest = replace(snapshot.guests[X], disks=(disk,))
    copying = replace(
        snapshot,
        nodes={**snapshot.nodes, A: local},
        guests={**snapshot.guests, X: guest},
    )

    def is_within(budget: int) -> bool:
        protection = Protection(budgets=(MigrationBudget(window=60, memory=budget),))
        move = LiveMigration(X, A, B)
        return check_budgets([move], copying, (), LIMITS, protection) is None

    assert is_within(2 * memory)
    assert not is_within(2 * memory - 1)


@pytest.mark.parametrize(
    ("past", "expected"),
    [
        (started(B, C, 1), SPENT),
        (started(C, A, 1), SPENT),
        (started(C, C, 1), None),
    ],
)
def test_budget_per_node_counts_both_ends(
    past: PastMigration, expected: RejectionReason | None
) -> None:
    budget = MigrationBudget(window=3600, migrations=1, per=BudgetScope.NODE)

    assert reason(budget, past) is expected


def test_budget_per_network_counts_migrations_over_it() -> None:
    budget = MigrationBudget(window=3600, migrations=1, per=BudgetScope.NETWORK)

    assert reason(budget, started(A, C, 1), target=B) is None
    assert reason(budget, started(A, B, 1), target=C) is None
    assert reason(budget, started(A, C, 1), target=C) is SPENT
