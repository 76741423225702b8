"""Repair of tolerance: moves after which failures are tolerated that were not."""

from __future__ import annotations

import math

from opendrs.arrays import MobilityFilter
from opendrs.model import GIB, Limits, Snapshot, format_count, format_memory
from opendrs.placement import FailureReserves, RestoringSearch
from opendrs.planning import GroupMove, one_after_the_other, sequence_in_order
from opendrs.policies.base import Decision, DecisionReason
from opendrs.rules import compile_rules


def restore_tolerance(
    snapshot: Snapshot,
    limits: Limits,
    mobility: MobilityFilter,
    *,
    migrations: float = math.inf,
    gib: float = math.inf,
) -> Decision[None] | None:
    """Return the plan after which more failures are tolerated; None without one.

    The guests move one after the other: less is tolerated after no step.

    Args:
        snapshot: The cluster, with no migration in progress.
        limits: Limits of the operator, with the failures to tolerate.
        mobility: Guests that may move.
        migrations: Most migrations.
        gib: Most memory that the plan transfers.
    """
    if not limits.tolerates_failures or not migrations or not gib:
        return None
    before = FailureReserves(snapshot, limits).missing
    if not before:
        return None
    search = RestoringSearch(snapshot, limits, mobility, (migrations, gib * GIB))
    moves = [
        GroupMove(group, target, "another guest has a node after a failure")
        for group, target in search.moves
    ]
    if not moves:
        return None
    sequenced = one_after_the_other(
        sequence_in_order(moves, snapshot, compile_rules(snapshot), limits)
    )
    after = FailureReserves(snapshot.apply(*sequenced.actions), limits).missing
    if after >= before or not sequenced.plan.steps:
        return None
    size = sum(each.memory for each in sequenced.ordered_moves)
    count = format_count(len(sequenced.plan.steps), "migration")
    return Decision(
        DecisionReason.RESTORES_TOLERANCE,
        None,
        sequenced.plan,
        f"guests without a node after a failure {before} → {after}; {count}, "
        f"{format_memory(size)}",
        notes=sequenced.notes,
    )
