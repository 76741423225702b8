"""Plan that repairs soft rules where no plan for another goal is made.

The thresholds of balance do not apply to it: the penalty that it saves has to exceed
the cost of its migrations and of the balance that it loses. Balance that it gains does
not count, so that no guest migrates for that alone.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from opendrs.model import GIB, format_count, format_memory
from opendrs.optimizer import StoppingCriterion
from opendrs.planning import migration_costs
from opendrs.policies.base import Decision, DecisionReason
from opendrs.policies.optimize.budget import Budget
from opendrs.policies.optimize.candidate import CandidatePlan
from opendrs.policies.optimize.context import OptimizeContext
from opendrs.policies.optimize.explanations import unresolved_notes
from opendrs.policies.optimize.metrics import describe_change, worsened_goal
from opendrs.policies.optimize.objective import Goal
from opendrs.policies.optimize.safe_plan import best_plan
from opendrs.policies.optimize.soft_rules import ROUNDING, concerned_groups


def soft_rule_decision(
    context: OptimizeContext, stop: StoppingCriterion
) -> Decision[None] | None:
    """Return the decision for the best plan that repairs soft rules, or None.

    Args:
        context: Decision context, with the goal balance.
        stop: Stopping criterion of the search.
    """
    if context.soft_rules is None or not context.objective.weight("soft_rule"):
        return None
    prepared = _context_for_soft_rules(context)
    if prepared is None:
        return None
    candidate = best_plan(prepared, stop)
    before = context.soft_rules.penalty(context.snapshot)
    if not candidate.sequenced.plan.steps or not _is_worthwhile(candidate, before):
        return None
    count = format_count(candidate.migrations, "migration")
    change = describe_change(context.before, candidate.after)
    return Decision(
        DecisionReason.REPAIRS_SOFT_RULES,
        None,
        candidate.sequenced.plan,
        f"violated soft rules, by their weights, {before:.3g} → "
        f"{candidate.soft_rule_penalty:.3g}, {change}; {count}, "
        f"{format_memory(candidate.gib * GIB)}",
        context.before.figures,
        candidate.after.figures,
        (
            *candidate.context.notes,
            *candidate.sequenced.notes,
            *unresolved_notes(candidate.context, candidate.snapshot),
        ),
        candidate.context.groups.skipped,
    )


def _context_for_soft_rules(context: OptimizeContext) -> OptimizeContext | None:
    """Return the context in which the groups of violated soft rules may migrate.

    In a small cluster, all guests may. None if no soft rule is violated.
    """
    problem = context.soft_problem
    if problem is None:
        return None
    concerned = np.flatnonzero(concerned_groups(problem)).tolist()
    if not concerned:
        return None
    groups = context.groups
    chosen = tuple(groups.groups[each] for each in concerned)
    # The knee is the limit of what balance may transfer.
    budget = Budget() if context.budget.knee else context.budget
    return replace(
        context.with_groups(replace(groups, groups=chosen), budget),
        for_soft_rules=True,
    )


def _is_worthwhile(candidate: CandidatePlan, before: float) -> bool:
    """Return True if the penalty that is saved exceeds what the plan costs.

    Args:
        candidate: The plan.
        before: Present penalty of soft rules.
    """
    context = candidate.context
    now, then, goals = context.before, candidate.after, context.priorities
    if worsened_goal(now, then, goals[: goals.index(Goal.BALANCE)]) is not None:
        return False
    weight = context.objective.weight
    saved = weight("soft_rule") * (before - candidate.soft_rule_penalty)
    moved = [x for each in candidate.sequenced.ordered_moves for x in each.guests]
    gib = float(migration_costs(moved, context.cluster.arrays).sum())
    lost = candidate.imbalance_cost - context.imbalance_cost(now.imbalance)
    return saved - weight("transfer") * gib - lost > ROUNDING
