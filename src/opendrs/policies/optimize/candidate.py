"""Candidate plan: an assignment with an order of its migrations that is safe."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile

import numpy as np

from opendrs.model import GIB, Snapshot
from opendrs.optimizer import (
    Indices,
    Problem,
    Solution,
    evaluate,
    loss_of_return,
)
from opendrs.planning import (
    DetourBudget,
    GroupMove,
    SequencedPlan,
    estimate_schedule,
    sequence_moves,
    sequence_moves_in,
    sequence_path,
)
from opendrs.policies.optimize.context import OptimizeContext
from opendrs.policies.optimize.encoding import EncodedCluster
from opendrs.policies.optimize.explanations import MAX_COMPARED, MoveExplanations
from opendrs.policies.optimize.metrics import ClusterMetrics
from opendrs.policies.optimize.movable_groups import EncodedGroup
from opendrs.policies.optimize.objective import Goal
from opendrs.policies.optimize.single_repairs import RepairMove, SingleRepairs
from opendrs.rules import violations

RANK_DIGITS = 9  # further digits of values are rounding
DETOUR_SHARE = 0.5  # of the transfer at the knee, which detours may add


@dataclass(frozen=True)
class CandidatePlan:
    """A sequenced plan with its result.

    Attributes:
        context: Decision context of the plan.
        solution: Solution of the optimizer that it realizes.
        sequenced: Its steps, detours and dropped moves.
        after: Metrics of the cluster after it.
        snapshot: Snapshot after it.
    """

    context: OptimizeContext
    solution: Solution
    sequenced: SequencedPlan
    after: ClusterMetrics
    snapshot: Snapshot

    @property
    def migrations(self) -> int:
        """Number of migrations, without detours."""
        return sum(len(each.guests) for each in self.sequenced.ordered_moves)

    @property
    def gib(self) -> float:
        """Memory that the plan transfers, in GiB."""
        return sum(each.memory for each in self.sequenced.ordered_moves) / GIB

    def blocked_groups(self, *, detours: bool) -> list[int]:
        """Return the move groups whose migrations have no safe order.

        Args:
            detours: True to include those that need a detour.
        """
        staged = self.sequenced.detours if detours else ()
        group_of = self.context.cluster.group_of
        return sorted(
            {
                group_of[guest.id]
                for each in (*self.sequenced.dropped, *staged)
                for guest in each.guests
            }
        )

    @cached_property
    def rank(self) -> tuple[float, ...]:
        """Values by which plans of one context are compared; the least is the best.

        They are those of the goals before balance, the cost of balance, soft rules and
        transfer, and the number of steps.
        """
        priorities = self.context.priorities
        goals = takewhile(lambda each: each is not Goal.BALANCE, priorities)
        values = [value for goal in goals for value in self.after.goal_values(goal)]
        if Goal.BALANCE in priorities:
            values.append(self._balance_cost)
        return (
            *(round(each, RANK_DIGITS) for each in values),
            float(len(self.sequenced.plan.steps)),
        )

    @property
    def _balance_cost(self) -> float:
        """Cost of the objective at the priority of balance."""
        context = self.context
        weights = len(context.cluster.node_ids) * sum(context.weights)
        soft = sum(x.weight for x in violations(self.snapshot) if not x.strict)
        return (
            weights * self.after.imbalance**2
            + context.objective.weight("soft_rule") * soft
            + context.transfer_price * self.gib
        )

    @cached_property
    def duration(self) -> float:
        """Estimated duration in seconds."""
        return estimate_schedule(
            self.sequenced.plan, self.context.snapshot, self.context.limits
        ).seconds

    @property
    def is_short_enough(self) -> bool:
        """True if the plan is within the budget of time."""
        minutes = self.context.budget.minutes
        return math.isinf(minutes) or self.duration <= 60 * minutes


def sequence_solution(
    context: OptimizeContext, problem: Problem, solution: Solution
) -> CandidatePlan:
    """Return the plan of *solution* with an order in which every step is safe.

    Moves without such an order are dropped.
    """
    moves = [*_group_moves(context, problem, solution.assignment)]
    sequenced = sequence_moves_in(
        context.cluster.all_nodes, moves, _detour_budget(context, moves)
    )
    after = context.snapshot.apply(*(step.action for step in sequenced.plan.steps))
    return CandidatePlan(context, solution, sequenced, context.measure(after), after)


def empty_plan(context: OptimizeContext) -> CandidatePlan:
    """Return the plan without steps."""
    solution = evaluate(context.problem, context.problem.origin)
    empty = sequence_moves([], context.snapshot, context.rules, context.limits)
    return CandidatePlan(context, solution, empty, context.before, context.snapshot)


def with_single_repairs(candidate: CandidatePlan) -> CandidatePlan:
    """Return *candidate* with the single moves that repair what it leaves violated.

    A small budget may be better spent on such moves alone: then they are the plan.
    """
    if not candidate.after.violations:
        return candidate
    plans = [_add_single_repairs(candidate)]
    budget = candidate.context.budget
    if math.isfinite(min(budget.gib, budget.migrations)) and plans[0].after.violations:
        plans.append(_add_single_repairs(empty_plan(candidate.context)))
    return min(plans, key=lambda each: each.after.violations)


def _add_single_repairs(candidate: CandidatePlan) -> CandidatePlan:
    context, former = candidate.context, candidate.sequenced
    moved = {
        guest.id: (guest.node, each.target)
        for each in former.ordered_moves
        for guest in each.guests
    }
    cluster = context.cluster.in_snapshot(candidate.snapshot)
    repairs = SingleRepairs(cluster, context.groups, moved).moves(
        context.budget.gib - candidate.gib,
        context.budget.migrations - candidate.migrations,
    )
    single = [*repairs]
    if not single:
        return candidate
    added = [*_explained(context, single)]
    sequenced = sequence_path(
        context.cluster.all_nodes, [*former.ordered_moves, *added]
    )
    now = {guest.id for each in added for guest in each.guests}
    dropped = tuple(
        each for each in former.dropped if now.isdisjoint(g.id for g in each.guests)
    )
    after = context.snapshot.apply(*sequenced.actions)
    return CandidatePlan(
        context,
        replace(candidate.solution, bound=None),
        replace(sequenced, dropped=dropped),
        context.measure(after),
        after,
    )


def _explained(
    context: OptimizeContext, single: Sequence[RepairMove]
) -> Iterator[GroupMove]:
    """Yield the moves with their explanations."""
    groups = [EncodedGroup(each.guests, each.guests[0].node) for each in single]
    cluster = context.cluster.with_groups(groups)
    problem = context.encode(cluster, context.budget)
    targets = [cluster.arrays.index[each.target] for each in single]
    waits = context.before.thresholds.waits
    explanations = MoveExplanations(cluster, problem, np.array(targets), waits)
    for group, each in enumerate(single):
        detail = explanations.explain(group, compared=False)
        yield GroupMove(each.guests, each.target, detail)


def _group_moves(
    context: OptimizeContext, problem: Problem, assignment: Indices
) -> Iterator[GroupMove]:
    """Yield the moves to *assignment* with their values and explanations."""
    cluster = context.cluster
    groups = _moved_groups(cluster, assignment)
    value = loss_of_return(problem, assignment, groups)
    compared = set(np.argsort(-value, kind="stable")[:MAX_COMPARED].tolist())
    waits = context.before.thresholds.waits
    explanations = MoveExplanations(cluster, problem, assignment, waits)
    for index, group in enumerate(groups):
        target = cluster.node_ids[assignment[group]]
        guests = tuple(
            each for each in cluster.groups[group].guests if each.node != target
        )
        detail = explanations.explain(group, compared=index in compared)
        yield GroupMove(guests, target, detail, float(value[index]))


def _moved_groups(cluster: EncodedCluster, assignment: Indices) -> list[int]:
    """Return the groups with a guest that is not on the node of *assignment*.

    Guests that their home node does not allow are not gathered there.
    """
    moved = []
    for group in np.flatnonzero(assignment != cluster.common_node).tolist():
        node = int(assignment[group])
        name = cluster.node_ids[node]
        displaced = [each for each in cluster.groups[group].guests if each.node != name]
        home = node == cluster.origin[group]
        there = cluster.snapshot.nodes[name]
        if displaced and not (
            home and not cluster.feasibility.is_compatible(displaced, there)
        ):
            moved.append(group)
    return moved


def _detour_budget(
    context: OptimizeContext, group_moves: Sequence[GroupMove]
) -> DetourBudget:
    """Return what detours may transfer: the rest of the budget, or a share."""
    memory = sum(each.memory for each in group_moves)
    moves = sum(len(each.guests) for each in group_moves)
    budget = context.budget
    return DetourBudget(
        memory=DETOUR_SHARE * memory if budget.knee else budget.gib * GIB - memory,
        migrations=budget.migrations - moves,
    )
