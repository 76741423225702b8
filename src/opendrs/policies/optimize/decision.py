"""Decision for a candidate plan: reason, notes, and distance to the lower bound."""

from __future__ import annotations

import math
from collections.abc import Iterator

from opendrs.model import GIB, format_count, format_memory
from opendrs.optimizer import imbalance_distance, with_bound
from opendrs.policies.base import Decision, DecisionReason
from opendrs.policies.optimize.candidate import CandidatePlan
from opendrs.policies.optimize.explanations import unresolved_notes
from opendrs.policies.optimize.metrics import (
    IMBALANCE,
    describe_change,
    first_improved_goal,
)
from opendrs.policies.optimize.objective import Goal
from opendrs.rules import drained_nodes

ANY_PLAN = "with any plan that transfers at most as much memory"
MIN_SHOWN_GAP = 0.0005  # fraction below which the gap to the lower bound is not shown
REASONS = {
    Goal.REPAIR: DecisionReason.REPAIRS_RULES,
    Goal.CONTENTION: DecisionReason.RELIEVES_OVERLOAD,
    Goal.BALANCE: DecisionReason.IMPROVES_BALANCE,
    Goal.CONSOLIDATION: DecisionReason.VACATES_NODES,
}


def explain_decision(candidate: CandidatePlan) -> Decision[None]:
    """Return the decision for *candidate*, with its lower bound.

    The plan is empty unless it improves a goal and worsens no more important one.
    """
    context = candidate.context
    goal = first_improved_goal(
        context.before, candidate.after, context.priorities, context.min_improvement
    )
    if goal is None or not candidate.sequenced.plan.steps:
        return _empty_decision(candidate)
    reason = REASONS[goal]
    if goal is Goal.REPAIR and candidate.after.violations == context.before.violations:
        reason = DecisionReason.RELIEVES_OVERLOAD
    change = describe_change(context.before, candidate.after)
    count = format_count(candidate.migrations, "migration")
    return Decision(
        reason,
        None,
        candidate.sequenced.plan,
        f"{change}; {count}, {format_memory(candidate.gib * GIB)}",
        context.before.figures,
        candidate.after.figures,
        (
            *context.notes,
            *candidate.sequenced.notes,
            *_bound_note(candidate),
            *unresolved_notes(context, candidate.snapshot),
        ),
        context.groups.skipped,
    )


def _empty_decision(candidate: CandidatePlan) -> Decision[None]:
    context = candidate.context
    if candidate.sequenced.plan.steps:
        reason = DecisionReason.IMPROVEMENT_TOO_SMALL
        detail = (
            f"the best plan gains less than {context.min_improvement:.0%}: "
            f"{describe_change(context.before, candidate.after)}"
        )
    else:
        reason = DecisionReason.NO_CANDIDATE
        *first, last = context.priorities
        goals = f"goals {', '.join(first)} or {last}" if first else f"goal {last}"
        detail = f"no plan is better by the {goals}"
        if math.isfinite(context.budget.minutes):
            detail += f" within {context.budget.minutes:g} min"
    return Decision(
        reason,
        None,
        detail=detail,
        before=context.before.figures,
        after=context.before.figures,
        notes=(
            *context.notes,
            *candidate.sequenced.notes,
            *unresolved_notes(context, context.snapshot),
        ),
        skipped=context.groups.skipped,
    )


def _bound_note(candidate: CandidatePlan) -> Iterator[str]:
    """Yield a note with the gap between *candidate* and the lower bound.

    Groups that sequencing dropped may move in the bound, since another plan may find an
    order for them. There is no note if nodes are drained: the bound counts them.
    """
    context = candidate.context
    if drained_nodes(context.snapshot):
        return
    scale = len(context.cluster.node_ids) * sum(context.weights)
    if scale > 0:
        load = context.cluster.load_in(candidate.snapshot)
        bound = candidate.solution.bound
        if bound is None:
            bound = with_bound(context.problem, candidate.solution).bound or 0.0
        least = bound / math.sqrt(scale)
        reached = imbalance_distance(context.problem, load) / math.sqrt(scale)
        better = max(0.0, reached - least) / reached if reached > 0 else 0.0
        if better >= 1 - MIN_SHOWN_GAP:
            limit = "no lower bound found"
        elif better >= MIN_SHOWN_GAP:
            limit = f"at least {least:.4f} ({better:.1%} lower) {ANY_PLAN}"
        else:
            limit = f"at least {least:.4f} {ANY_PLAN}"
        yield (
            f"distance from the optimum: {IMBALANCE}: {reached:.4f} with this plan; "
            f"{limit}"
        )
