"""Candidate plan: an assignment with an order of its migrations that is safe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, takewhile

import numpy as np

from opendrs.model import GIB, Guest, GuestId, Migration, NodeId, Snapshot
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
from opendrs.rules import count_strict, violations

RANK_DIGITS = 9  # further digits of values are rounding
UNEXPLAINED = ""  # detail of a step of a candidate
DETOUR_SHARE = 0.5  # of the transfer at the knee, which detours may add

_Details = Iterator[tuple[tuple[GuestId, NodeId], str]]


@dataclass(frozen=True)
class CandidatePlan:
    """A sequenced plan with its result.

    Many candidates are compared for one plan, so steps get their explanations last, by
    `explained`.

    Attributes:
        context: Decision context of the plan.
        problem: Problem that was solved.
        solution: Solution of the optimizer that it realizes.
        sequenced: Its steps, detours and dropped moves.
        snapshot: Snapshot after it.
        single: Moves in it that single repairs have added.
    """

    context: OptimizeContext
    problem: Problem
    solution: Solution
    sequenced: SequencedPlan
    snapshot: Snapshot
    single: tuple[RepairMove, ...] = ()

    @cached_property
    def after(self) -> ClusterMetrics:
        """Metrics of the cluster after the plan."""
        if self.snapshot is self.context.snapshot:
            return self.context.before
        return self.context.measure(self.snapshot)

    @cached_property
    def violations(self) -> int:
        """Number of violations of strict rules after the plan."""
        return count_strict(violations(self.snapshot)).violations

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

    def explained(self) -> CandidatePlan:
        """Return the plan with the reasons of its moves as details of the steps."""
        details = dict(
            chain(
                _move_details(
                    self.context, self.problem, self.solution.assignment, self.snapshot
                ),
                _repair_details(self.context, self.single, self.snapshot),
            )
        )
        plan = self.sequenced.plan
        steps = tuple(
            step
            if step.detail or not isinstance(step.action, Migration)
            else replace(step, detail=details[step.action.guest, step.action.target])
            for step in plan.steps
        )
        plan = replace(plan, steps=steps)
        return replace(self, sequenced=replace(self.sequenced, plan=plan))

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
        soft = context.objective.weight("soft_rule") * self.soft_rule_penalty
        return self.imbalance_cost + soft + context.transfer_price * self.gib

    @property
    def imbalance_cost(self) -> float:
        """Cost of imbalance; of a plan for soft rules, at least the present one."""
        context, imbalance = self.context, self.after.imbalance
        if context.for_soft_rules:
            imbalance = max(imbalance, context.before.imbalance)
        return context.imbalance_cost(imbalance)

    @cached_property
    def soft_rule_penalty(self) -> float:
        """Penalty of the soft rules that are violated after the plan."""
        soft_rules = self.context.soft_rules
        return 0.0 if soft_rules is None else soft_rules.penalty(self.snapshot)

    @property
    def is_single_repairs(self) -> bool:
        """True if single repairs alone are the plan."""
        return bool(self.single) and len(self.single) == len(
            self.sequenced.ordered_moves
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
        budget = self.context.budget
        return not budget.limits_time or self.duration <= 60 * budget.minutes


def sequence_solution(
    context: OptimizeContext, problem: Problem, solution: Solution
) -> CandidatePlan:
    """Return the plan of *solution* with an order in which every step is safe.

    Moves without such an order are dropped.
    """
    moves = _group_moves(context, problem, solution.assignment)
    sequenced = sequence_moves_in(
        context.cluster.all_nodes, moves, _detour_budget(context, moves)
    )
    after = context.snapshot
    if sequenced.plan.steps:
        after = after.apply(*sequenced.actions)
    return CandidatePlan(context, problem, solution, sequenced, after)


def empty_plan(context: OptimizeContext) -> CandidatePlan:
    """Return the plan without steps."""
    solution = evaluate(context.problem, context.problem.origin)
    empty = sequence_moves([], context.snapshot, context.rules, context.limits)
    return CandidatePlan(context, context.problem, solution, empty, context.snapshot)


def with_single_repairs(candidate: CandidatePlan) -> CandidatePlan:
    """Return *candidate* with the single moves that repair what it leaves violated.

    A small budget may be better spent on such moves alone: then they are the plan,
    those first that repair most rules, or most violations. A budget of time excludes
    the latter: they may take longer, and a plan that takes too long is shortened.
    """
    if not candidate.violations:
        return candidate
    plans = [_add_single_repairs(candidate)]
    budget = candidate.context.budget
    if budget.limits_transfer and plans[0].violations:
        empty = empty_plan(candidate.context)
        plans.append(_add_single_repairs(empty))
        if not budget.limits_time:
            plans.append(_add_single_repairs(empty, rules_first=False))
    return min(plans, key=lambda each: each.violations)


def _add_single_repairs(
    candidate: CandidatePlan, *, rules_first: bool = True
) -> CandidatePlan:
    context, former = candidate.context, candidate.sequenced
    moved = {
        guest.id: (guest.node, each.target)
        for each in former.ordered_moves
        for guest in each.guests
    }
    cluster = context.cluster.in_snapshot(candidate.snapshot)
    repairs = SingleRepairs(
        cluster, context.groups, moved, rules_first=rules_first
    ).moves(
        context.budget.gib - candidate.gib,
        context.budget.migrations - candidate.migrations,
    )
    single = tuple(repairs)
    if not single:
        return candidate
    added = [GroupMove(each.guests, each.target, UNEXPLAINED) for each in single]
    sequenced = sequence_path(
        context.cluster.all_nodes, [*former.ordered_moves, *added]
    )
    now = {guest.id for each in added for guest in each.guests}
    dropped = tuple(
        each for each in former.dropped if now.isdisjoint(g.id for g in each.guests)
    )
    return replace(
        candidate,
        solution=replace(candidate.solution, bound=None),
        sequenced=replace(sequenced, dropped=dropped),
        snapshot=context.snapshot.apply(*sequenced.actions),
        single=single,
    )


def context_after(candidate: CandidatePlan) -> OptimizeContext:
    """Return the context of further moves after *candidate*, whose guests stay then."""
    context, snapshot = candidate.context, candidate.snapshot
    moved = {
        guest.id for each in candidate.sequenced.ordered_moves for guest in each.guests
    }
    groups = [
        each
        for each in context.cluster.groups
        if moved.isdisjoint(guest.id for guest in each.guests)
    ]
    cluster = context.cluster.in_snapshot(snapshot).with_groups(groups)
    budget = replace(
        context.budget,
        gib=context.budget.gib - candidate.gib,
        migrations=context.budget.migrations - candidate.migrations,
    )
    left = replace(context.groups, groups=tuple(groups))
    after = replace(context, snapshot=snapshot, groups=left, cluster=cluster)
    return after.within(budget)


def with_further_moves(
    candidate: CandidatePlan, further: CandidatePlan
) -> CandidatePlan:
    """Return *candidate* followed by the moves of *further*, of `context_after`."""
    context, found = candidate.context, further.sequenced
    if not found.ordered_moves:
        return candidate
    assignment = candidate.solution.assignment.copy()
    nodes = further.solution.assignment.tolist()
    for group, node in zip(further.context.cluster.groups, nodes, strict=True):
        assignment[context.cluster.group_of[group.guests[0].id]] = node
    moves = [*candidate.sequenced.ordered_moves, *found.ordered_moves]
    sequenced = sequence_path(context.cluster.all_nodes, moves)
    return replace(
        candidate,
        solution=evaluate(candidate.problem, assignment),
        sequenced=replace(sequenced, dropped=found.dropped),
        snapshot=further.snapshot,
    )


def _group_moves(
    context: OptimizeContext, problem: Problem, assignment: Indices
) -> list[GroupMove]:
    """Return the moves to *assignment* with their values."""
    groups = _moved_groups(context.cluster, assignment)
    return [
        GroupMove(
            *_guests_and_target(context.cluster, assignment, group),
            UNEXPLAINED,
            float(value),
        )
        for group, value in zip(
            groups, loss_of_return(problem, assignment, groups), strict=True
        )
    ]


def _guests_and_target(
    cluster: EncodedCluster, assignment: Indices, group: int
) -> tuple[tuple[Guest, ...], NodeId]:
    """Return the guests of *group* that move, and the node to which they move."""
    target = cluster.node_ids[assignment[group]]
    there = cluster.groups[group].guests
    return tuple(each for each in there if each.node != target), target


def _move_details(
    context: OptimizeContext, problem: Problem, assignment: Indices, after: Snapshot
) -> _Details:
    """Yield the explanations of the moves to *assignment*, by guest and target."""
    cluster = context.cluster
    groups = _moved_groups(cluster, assignment)
    if not groups:
        return
    value = loss_of_return(problem, assignment, groups)
    compared = set(np.argsort(-value, kind="stable")[:MAX_COMPARED].tolist())
    waits = context.before.thresholds.waits
    explanations = MoveExplanations(cluster, problem, assignment, after, waits)
    for index, group in enumerate(groups):
        guests, target = _guests_and_target(cluster, assignment, group)
        detail = explanations.explain(group, compared=index in compared)
        yield from (((guest.id, target), detail) for guest in guests)


def _repair_details(
    context: OptimizeContext, single: Sequence[RepairMove], after: Snapshot
) -> _Details:
    """Yield the explanations of single repairs, by guest and target."""
    if not single:
        return
    groups = [EncodedGroup(each.guests, each.guests[0].node) for each in single]
    cluster = context.cluster.with_groups(groups)
    problem = context.encode(cluster, context.budget)
    targets = [cluster.arrays.index[each.target] for each in single]
    waits = context.before.thresholds.waits
    assignment = np.array(targets)
    explanations = MoveExplanations(cluster, problem, assignment, after, waits)
    for group, each in enumerate(single):
        detail = explanations.explain(group, compared=False)
        yield from (((guest.id, each.target), detail) for guest in each.guests)


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
