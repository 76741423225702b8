"""Repair of tolerance: moves after which failures are tolerated that were not."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from opendrs.arrays import MobilityFilter
from opendrs.model import (
    GIB,
    GuestId,
    Limits,
    Plan,
    PowerOff,
    PowerOn,
    Snapshot,
    Step,
    StepId,
    format_count,
    format_memory,
)
from opendrs.placement import FailureReserves, RestoringSearch
from opendrs.planning import GroupMove, sequence_in_order
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
    sequenced = sequence_in_order(moves, snapshot, compile_rules(snapshot), limits)
    plan = _one_after_the_other(sequenced.plan.steps, sequenced.ordered_moves)
    after = FailureReserves(snapshot.apply(*sequenced.actions), limits).missing
    if after >= before or not plan.steps:
        return None
    size = sum(each.memory for each in sequenced.ordered_moves)
    count = format_count(len(plan.steps), "migration")
    return Decision(
        DecisionReason.RESTORES_TOLERANCE,
        None,
        plan,
        f"guests without a node after a failure {before} → {after}; {count}, "
        f"{format_memory(size)}",
        notes=sequenced.notes,
    )


def _one_after_the_other(steps: Sequence[Step], moves: Sequence[GroupMove]) -> Plan:
    """Return the plan of *steps* in which those of a move wait for the one before."""
    move_of = {guest.id: i for i, each in enumerate(moves) for guest in each.guests}
    ordered: list[Step] = []
    before: tuple[StepId, ...] = ()
    for _, group in groupby(steps, key=lambda step: _move_index(step, move_of)):
        together = [replace(step, depends_on=before) for step in group]
        ordered += together
        before = tuple(step.id for step in together)
    return Plan(tuple(ordered))


def _move_index(step: Step, move_of: Mapping[GuestId, int]) -> int:
    action = step.action
    if isinstance(action, PowerOn | PowerOff):
        return len(move_of)
    return move_of[action.guest]
