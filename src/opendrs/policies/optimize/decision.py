"""Decision for a candidate plan: reason, notes, and distance to the lower bound."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from opendrs.model import EMPTY_PLAN, GIB, format_count, format_memory
from opendrs.optimizer import Problem, budget_use, imbalance_distance, lower_bound
from opendrs.policies.base import Decision, DecisionReason
from opendrs.policies.optimize.budget import Budget
from opendrs.policies.optimize.candidate import CandidatePlan
from opendrs.policies.optimize.context import OptimizeContext
from opendrs.policies.optimize.divided_nodes import DividedNodes
from opendrs.policies.optimize.encoding import EncodedCluster
from opendrs.policies.optimize.explanations import unresolved_notes
from opendrs.policies.optimize.metrics import (
    IMBALANCE,
    ClusterMetrics,
    describe_change,
    first_improved_goal,
)
from opendrs.policies.optimize.movable_groups import (
    EncodedGroup,
    MovableGroups,
    movable_units,
)
from opendrs.policies.optimize.objective import Goal, relaxed_problem
from opendrs.rules import chooses_domain, drained_nodes

ANY_PLAN = "with any plan that transfers at most as much memory"
FEW_MIGRATIONS = "in at most as many migrations"
MIN_SHOWN_GAP = 0.0005  # fraction below which the gap to the lower bound is not shown
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


def _bound_note(candidate: CandidatePlan) -> Iterator[str]:
    """Yield a note with the gap between *candidate* and the lower bound.

    There is no note if nodes are drained, because the bound counts them, if guests
    might gather in another domain or nodes be divided otherwise between two sides,
    which it does not count, or if balance is no goal.
    """
    context = candidate.context
    if drained_nodes(context.snapshot) or Goal.BALANCE not in context.priorities:
        return
    if chooses_domain(context.snapshot) or DividedNodes(context.cluster).is_strict:
        return
    scale = math.sqrt(len(context.cluster.node_ids) * sum(context.weights))
    if scale <= 0:
        return
    cluster, problem = _relaxation(context)
    load = cluster.load_in(candidate.snapshot)
    bound = candidate.solution.bound
    if bound is None:
        bound = _lower_bound(candidate, cluster, problem)
    least, reached = bound / scale, imbalance_distance(problem, load) / scale
    better = (reached - least) / reached if reached > 0 else 0.0
    plans = ANY_PLAN
    if math.isfinite(context.budget.migrations):
        plans = f"{ANY_PLAN} {FEW_MIGRATIONS}"
    if better < -MIN_SHOWN_GAP:
        limit = f"defect: the lower bound is {least:.4f}; please report it"
    elif better >= 1 - MIN_SHOWN_GAP:
        limit = "no lower bound found"
    elif better >= MIN_SHOWN_GAP:
        limit = f"at least {least:.4f} ({better:.1%} lower) {plans}"
    else:
        limit = f"at least {least:.4f} {plans}"
    yield (
        f"distance from the optimum: {IMBALANCE}: {reached:.4f} with this plan; {limit}"
    )


def _relaxation(context: OptimizeContext) -> tuple[EncodedCluster, Problem]:
    """Return the cluster and a problem that allows whatever a plan can do.

    The move groups of *context* allow all of it if they are the units that can move.
    Otherwise some guests of a group could move alone, or those of a group that stays.
    """
    nodes = frozenset(context.cluster.node_ids)
    units = [*movable_units(context.snapshot, context.groups, nodes)]
    names = [[guest.id for guest in unit] for unit in units]
    groups = context.cluster.groups
    if names == [[guest.id for guest in each.guests] for each in groups]:
        return context.cluster, context.problem
    cluster = context.cluster.with_groups(
        [EncodedGroup(unit, unit[0].node) for unit in units]
    )
    return cluster, relaxed_problem(cluster, context.budget, context.objective)


def _lower_bound(
    candidate: CandidatePlan, cluster: EncodedCluster, problem: Problem
) -> float:
    """Return a bound for plans that transfer at most as much, detours included."""
    after, index = candidate.snapshot.guests, cluster.arrays.index
    nodes = [index[after[each.guests[0].id].node] for each in cluster.groups]
    assignment = np.array(nodes, np.int64)
    use = np.maximum(
        budget_use(problem, assignment), (candidate.gib, candidate.migrations)
    )
    return lower_bound(problem, assignment, use)
