"""Decision for a candidate plan: its reason and its notes."""

from __future__ import annotations

from opendrs.model import EMPTY_PLAN, GIB, format_count, format_memory
from opendrs.policies.base import Decision, DecisionReason
from opendrs.policies.optimize.budget import Budget
from opendrs.policies.optimize.candidate import CandidatePlan
from opendrs.policies.optimize.distance import distance_note
from opendrs.policies.optimize.explanations import unresolved_notes
from opendrs.policies.optimize.metrics import (
    IMBALANCE,
    ClusterMetrics,
    describe_change,
    first_improved_goal,
)
from opendrs.policies.optimize.movable_groups import MovableGroups
from opendrs.policies.optimize.objective import Goal

REASONS = {
    Goal.REPAIR: DecisionReason.REPAIRS_RULES,
    Goal.CONTENTION: DecisionReason.RELIEVES_OVERLOAD,
    Goal.BALANCE: DecisionReason.IMPROVES_BALANCE,
    Goal.CONSOLIDATION: DecisionReason.VACATES_NODES,
}


def open_goals(priorities: tuple[Goal, ...], gate: str | None) -> tuple[Goal, ...]:
    """Return the goals, without balance if *gate* is a reason for that."""
    closed = () if gate is None else (Goal.BALANCE,)
    return tuple(each for each in priorities if each not in closed)


def idle_reason(
    before: ClusterMetrics,
    priorities: tuple[Goal, ...],
    threshold: float,
    gate: str | None,
    budget: Budget,
) -> tuple[DecisionReason, str] | None:
    """Return the reason to search for nothing; None if there is something.

    Args:
        before: Metrics of the cluster.
        priorities: Goals of plans.
        threshold: Imbalance up to which the goal balance is reached.
        gate: Why no guest is migrated for balance; None if one may be.
        budget: Budget of a plan.
    """
    if before.satisfies(open_goals(priorities, gate), threshold):
        if gate and not before.satisfies(priorities, threshold):
            return DecisionReason.LOAD_BELOW_GATE, gate
        return DecisionReason.BALANCED, (
            f"{IMBALANCE} {before.imbalance:.3f} is not above the threshold "
            f"{threshold:g}, and no other goal can be improved"
        )
    if budget.is_zero:
        return (
            DecisionReason.MIGRATION_LIMIT_REACHED,
            f"a budget of {budget} allows no migration",
        )
    return None


def idle_decision(
    idle: tuple[DecisionReason, str],
    before: ClusterMetrics,
    groups: MovableGroups,
    notes: tuple[str, ...],
) -> Decision[None]:
    """Return the decision that nothing is to be searched for, with its reason."""
    figures, (reason, detail) = _figures(before), idle
    return Decision(
        reason, None, EMPTY_PLAN, detail, figures, figures, notes, groups.skipped
    )


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
        _figures(context.before),
        _figures(candidate.after),
        (
            *context.notes,
            *candidate.sequenced.notes,
            *distance_note(candidate),
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
        now = f"{IMBALANCE} {context.before.imbalance:.3f}"
        detail = f"{now}; no plan is better by the {goals}"
        if context.budget.limits_time:
            detail += f" within {context.budget.minutes:g} min"
    return Decision(
        reason,
        None,
        detail=detail,
        before=_figures(context.before),
        after=_figures(context.before),
        notes=(
            *context.notes,
            *candidate.sequenced.notes,
            *unresolved_notes(context, context.snapshot),
        ),
        skipped=context.groups.skipped,
    )


def _figures(metrics: ClusterMetrics) -> dict[str, float]:
    """Return the figures of *metrics*, with the imbalance that is minimized."""
    return {"rms_imbalance": metrics.imbalance, **metrics.figures}
