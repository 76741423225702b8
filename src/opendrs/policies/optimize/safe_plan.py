"""Search for a plan with an order in which every step is safe.

All plans of a small cluster are compared. In a larger one, the optimizer searches, and
sequencing orders the migrations. A migration without a safe order is forbidden in a
further search: its guests move to another node, or others move in their place. The best
of these plans counts, not the last one. Single moves then repair what remains violated.
In a cluster of few nodes and guests, the plan of a beam search competes, which tries
safe migrations step by step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from opendrs.optimizer import (
    IterationLimit,
    ScaledIterationLimit,
    StoppingCriterion,
    evaluate,
    forbid_nodes,
    freeze_groups,
    is_small,
    solve,
)
from opendrs.policies.optimize.budget import Budget
from opendrs.policies.optimize.candidate import (
    CandidatePlan,
    context_after,
    empty_plan,
    sequence_solution,
    with_further_moves,
    with_single_repairs,
)
from opendrs.policies.optimize.context import OptimizeContext
from opendrs.policies.optimize.exhaustive import beam_plan, exhaustive_plan
from opendrs.policies.optimize.objective import Goal
from opendrs.policies.optimize.soft_rules import with_needed_moves

REPLAN_ITERATIONS = 100  # moves per group of a further search
MAX_REPLANS = 10  # further searches of one plan
MAX_REPLANNED_GROUPS = 5000  # total over further searches; more take too long
LEAST_REPLANS = 3  # of large clusters
MIN_REPLAN_ITERATIONS = 20_000  # moves that are evaluated in the shortest of them
SHORTENING_ROUNDS = 10  # portions of a search for a shorter plan
MAX_SHORTENINGS = 5  # searches for a plan that takes less time
SHORTENING_FACTOR = 0.9  # transfer of such a plan, relative to what the time allows


def best_plan(
    context: OptimizeContext,
    stop: StoppingCriterion,
    *,
    fewest_migrations: bool = False,
) -> CandidatePlan:
    """Return the best plan within the budgets, also that of time.

    A plan that takes too long is searched again with less to transfer, and without the
    groups that cannot be gathered for that. If no plan is short enough, it is empty.

    Args:
        context: Decision context.
        stop: Stopping criterion of a search.
        fewest_migrations: True if that counts before balance: migrations that need a
            detour are forbidden as well.
    """
    safe_plan = partial(_safe_plan, fewest_migrations=fewest_migrations)
    group_count = len(context.cluster.groups)
    iterations = REPLAN_ITERATIONS * SHORTENING_ROUNDS * group_count
    plan = safe_plan(context, stop)
    for _ in range(MAX_SHORTENINGS):
        if plan.is_short_enough:
            return plan
        seconds = 60 * context.budget.minutes
        gib = SHORTENING_FACTOR * seconds / plan.duration * plan.gib
        smaller = replace(context.budget, gib=min(gib, context.budget.gib))
        stop = IterationLimit(iterations, SHORTENING_ROUNDS)
        plan = safe_plan(context.within(smaller), stop)
    return plan if plan.is_short_enough else empty_plan(context)


def _safe_plan(
    context: OptimizeContext, stop: StoppingCriterion, *, fewest_migrations: bool
) -> CandidatePlan:
    """Return the best plan with an order in which every step is safe.

    In a small cluster, the plans for smaller budgets compete, so that a larger budget
    gives no worse plan; in larger ones, that for one of them if the plan is incomplete.
    A search that a clock ends leaves no time for them. The plan of the beam search
    competes as well. It comes first, because the other search takes the rest of the
    time.
    """
    plan = exhaustive_plan(context)
    if plan is not None:
        return plan
    is_timed = not isinstance(stop, IterationLimit | ScaledIterationLimit)
    stepwise = beam_plan(context, stop if is_timed else None)
    search = partial(_searched_budget, stop=stop, fewest_migrations=fewest_migrations)
    plans = search(context)
    if isinstance(stop, ScaledIterationLimit):
        for budget in _smaller_budgets(plans[0], fewest_migrations=fewest_migrations):
            plans += search(context.within(budget))
    best = plans[0]
    rank = partial(plan_rank, fewest_migrations=fewest_migrations)
    if len(plans) > 1:
        best = min(plans, key=rank)
    best = replace(best.explained(), context=context)
    if stepwise is None:
        return best
    if context.priorities[0] is Goal.REPAIR:
        stepwise = with_single_repairs(stepwise)
    if rank(replace(stepwise, context=context)) < rank(best):
        return stepwise.explained()
    return best


def _smaller_budgets(
    plan: CandidatePlan, *, fewest_migrations: bool
) -> Iterator[Budget]:
    """Yield the smaller budgets whose plans compete with *plan*.

    They are powers of two: in a small cluster all of them, otherwise one. Except in a
    small cluster with a budget, there are none unless migrations were dropped and rules
    remain violated: fewer migrations may all have a safe order.
    """
    context, budget = plan.context, plan.context.budget
    small = is_small(context.problem)
    if not (small and budget.limits_transfer):
        is_incomplete = plan.violations > 0 and bool(plan.sequenced.dropped)
        is_large = len(context.cluster.groups) > MAX_REPLANNED_GROUPS
        if is_large or fewest_migrations or not is_incomplete:
            return
        migrations = min(budget.migrations, plan.migrations)
        budget = replace(budget, knee=False, migrations=migrations)
    smaller = budget.smaller
    while smaller is not None:
        yield smaller
        smaller = smaller.smaller if small else None


def _searched_budget(
    context: OptimizeContext, stop: StoppingCriterion, *, fewest_migrations: bool
) -> list[CandidatePlan]:
    """Return the best plan, and the best one that gathers no group.

    Where the budget does not suffice for all repairs, others may balance more than to
    gather the groups that it suffices for. If only repairs count, in large clusters
    single repairs are the only other ones, unless a budget of time excludes some: a
    second search takes too long.
    """
    search = partial(_best_of_searches, stop=stop, fewest_migrations=fewest_migrations)
    plans = [search(context)]
    budget, group_count = context.budget, len(context.cluster.groups)
    if not (budget.limits_transfer and plans[0].violations):
        return plans
    is_large = group_count > MAX_REPLANNED_GROUPS
    if fewest_migrations and is_large and not budget.limits_time:
        return plans
    other = context.without_split_groups()
    if other is not None:
        plans.append(search(other))
    return plans


def _best_of_searches(
    context: OptimizeContext, stop: StoppingCriterion, *, fewest_migrations: bool
) -> CandidatePlan:
    """Return the best of the plans of all searches, with single repairs.

    If single repairs alone are the best plan, what is left of the budget is searched
    for other goals.
    """
    rank = partial(plan_rank, fewest_migrations=fewest_migrations)
    plans = [*_searched_plans(context, stop, fewest_migrations=fewest_migrations)]
    if len(plans) > 1:
        plans.sort(key=rank)
    if context.priorities[0] is not Goal.REPAIR:
        return plans[0]
    group_count = len(context.cluster.groups)
    most = max(1, MAX_REPLANNED_GROUPS // max(1, group_count))
    repaired = [with_single_repairs(each) for each in plans[:most]]
    best = repaired[0] if len(repaired) == 1 else min(repaired, key=rank)
    if fewest_migrations or not best.is_single_repairs:
        return best
    left = context_after(best)
    if left.budget.is_zero:
        return best
    limit = _replan_limit(group_count, SHORTENING_ROUNDS)
    further = _searched_plans(left, limit, fewest_migrations=False)
    return min((best, *(with_further_moves(best, each) for each in further)), key=rank)


def plan_rank(plan: CandidatePlan, *, fewest_migrations: bool) -> tuple[float, ...]:
    """Return the values by which plans are compared; the least is the best."""
    if fewest_migrations:
        return plan.violations, len(plan.sequenced.plan.steps)
    return plan.rank


def _searched_plans(
    context: OptimizeContext, stop: StoppingCriterion, *, fewest_migrations: bool
) -> Iterator[CandidatePlan]:
    """Yield the plans for the move groups that the searches find.

    If a move remains without a safe order, all such groups stay in the last search.
    """
    group_count = len(context.cluster.groups)
    if not group_count:
        yield empty_plan(context)
        return
    problem, start = context.problem_to_solve, None
    replan = stop if fewest_migrations else _replan_limit(group_count, 1)
    replans = MAX_REPLANS if fewest_migrations else _replan_count(group_count)
    stay: set[int] = set()
    for index in range(1 + replans):
        solution = solve(
            problem, stop, seed=context.seed, search=context.search, start=start
        )
        if context.soft_problem is not None and context.for_soft_rules:
            needed = with_needed_moves(context.soft_problem, solution.assignment)
            solution = evaluate(problem, needed)
        plan = sequence_solution(context, problem, solution)
        yield plan
        blocked = plan.blocked_groups(detours=fewest_migrations)
        if (solution.assignment[blocked] == problem.origin[blocked]).all():
            return  # no search keeps a group from being gathered at its home
        start = solution.assignment.copy()
        start[blocked] = problem.origin[blocked]
        stay.update(blocked)
        if index == replans - 1:
            problem = freeze_groups(problem, sorted(stay))
            start[sorted(stay)] = problem.origin[sorted(stay)]
        else:
            problem = forbid_nodes(problem, blocked, solution.assignment[blocked])
        stop = replan


def _replan_limit(group_count: int, portions: int) -> IterationLimit:
    """Return the limit of a further search for so many move groups."""
    iterations = max(MIN_REPLAN_ITERATIONS, REPLAN_ITERATIONS * group_count)
    return IterationLimit(iterations, portions)


def _replan_count(group_count: int) -> int:
    """Return the number of further searches for so many move groups."""
    return min(MAX_REPLANS, max(LEAST_REPLANS, MAX_REPLANNED_GROUPS // group_count))
