"""The best plan of a small cluster: all placements that safe migrations reach.

In a cluster that is too large for that, a beam search finds good ones among them.

Guests move one by one, except those that a strict affinity rule keeps together now. A
rule about guests on several nodes may thus be repaired, or stay violated, while one of
them moves.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from opendrs.arrays import MoveGroup, SkippedGuest, SkipReason
from opendrs.model import Guest, GuestId, Snapshot
from opendrs.optimizer import (
    FEASIBILITY_SLACK,
    BeamLimits,
    BeamPlacements,
    Floats,
    Indices,
    Mask,
    Problem,
    ReachablePlacements,
    StoppingCriterion,
    UnitMove,
    evaluate,
    imbalance_costs,
    loss_of_return,
    overfilled,
    placement_costs,
    placement_loads,
)
from opendrs.planning import GroupMove, sequence_path
from opendrs.policies.optimize.candidate import CandidatePlan
from opendrs.policies.optimize.context import OptimizeContext
from opendrs.policies.optimize.encoding import EncodedCluster
from opendrs.policies.optimize.explanations import MoveExplanations
from opendrs.policies.optimize.movable_groups import MovableGroups
from opendrs.policies.optimize.neighbor_sets import soft_set_weights
from opendrs.policies.optimize.objective import GIB_ROW, KNEE_GAIN, Goal
from opendrs.policies.optimize.placement_costs import PlacementCosts
from opendrs.policies.optimize.small_cluster import SmallCluster
from opendrs.policies.preconditions import cluster_notes

MAX_WIDTH = 1000  # placements that a beam search keeps after each number of moves
MAX_LAYER_SIZE = 640_000  # of these, times their moves and units: 0.02 to 0.05 s
MAX_BEAM_MOVES = 16  # moves of a path of a beam search


def exhaustive_plan(context: OptimizeContext) -> CandidatePlan | None:
    """Return the best of all plans; None if there are too many placements."""
    small = context.repairs.small
    if small is None:
        return None
    return _PlacementSearch(_context_of(context, small.cluster), small).best_plan()


def beam_plan(
    context: OptimizeContext, stop: StoppingCriterion | None
) -> CandidatePlan | None:
    """Return the best plan that a beam search finds; None if there are too many units.

    Its context has the units that move as groups.

    Args:
        context: Decision context.
        stop: Stopping criterion that reads a clock; None for none.
    """
    small = SmallCluster.of(context.cluster, context.groups, complete=False)
    if small is None:
        return None
    price = context.transfer_price if context.budget.knee else 0.0
    context = replace(
        _context_of(context, small.cluster),
        problem=context.encode(small.cluster, context.budget),
    )
    return _PlacementSearch(context, small).beam_plan(price, stop)


class _PlacementSearch:
    """Placements of the units of a small cluster, with their values.

    Args:
        context: Decision context, whose move groups are the units.
        small: Placements of the units.
    """

    def __init__(self, context: OptimizeContext, small: SmallCluster) -> None:
        self._context = context
        self._cluster = context.cluster
        self._small = small
        self._graph = small.graph

    def best_plan(self) -> CandidatePlan:
        """Return the plan to the best placement that is reached within the budget."""
        problem, budget = self._problem, self._context.budget
        if budget.knee:
            problem = self._with_knee_price(problem)
        reached = self._reached(problem)
        transfer = reached.transfer
        values = self.values(problem)
        if math.isfinite(budget.gib):
            allowed = transfer <= problem.budgets[GIB_ROW] * (1 + FEASIBILITY_SLACK)
        else:
            allowed = np.isfinite(transfer)
            values += self.detour_cost(problem, transfer)
        best = self.best(allowed, values, transfer)
        within = self._is_candidate & (transfer <= transfer[best])
        bound = math.sqrt(float(self._imbalance[within].min()))
        return self.plan(problem, best, reached.path(best), bound)

    def beam_plan(self, price: float, stop: StoppingCriterion | None) -> CandidatePlan:
        """Return the plan to the best placement that a beam search reaches.

        Args:
            price: Least cost of the transfer of a GiB.
            stop: Stopping criterion; None for none.
        """
        problem, context = self._problem, self._context
        cost = price * context.knee_cost
        problem = replace(problem, move_cost=np.maximum(problem.move_cost, cost))
        most = math.inf
        if math.isfinite(context.budget.gib):
            most = float(problem.budgets[GIB_ROW]) * (1 + FEASIBILITY_SLACK)
        units, moves = self._graph.unit_count, self._graph.violated.size
        limits = BeamLimits(
            width=min(MAX_WIDTH, MAX_LAYER_SIZE // (units * moves)),
            moves=MAX_BEAM_MOVES,
            migrations=context.budget.migrations,
            transfer=most,
        )
        graph = replace(self._graph, transfer=self._transfer(problem))

        def evaluate_all(assignments: Indices) -> tuple[Floats, Floats]:
            restricted = self._restricted(assignments)
            return restricted.rank, restricted.values(problem)

        beam = BeamPlacements(graph, evaluate_all, limits, stop)
        found = self._restricted(beam.assignments)
        values = found.values(problem)
        if math.isinf(most):
            values += found.detour_cost(problem, beam.transfer)
        best = found.best(np.isfinite(beam.transfer), values, beam.transfer)
        return found.plan(problem, best, beam.path(best), None)

    def _restricted(self, assignments: Indices) -> _PlacementSearch:
        """Return the same with these placements only; shape (U, S)."""
        other = _PlacementSearch(self._context, self._small.restricted(assignments))
        other._problem = self._problem
        return other

    def best(self, allowed: Mask, values: Floats, transfer: Floats) -> int:
        """Return the best of the *allowed* candidates; all arguments (S,).

        The rank counts first, then the value, then the transfer.
        """
        found = np.flatnonzero(self._is_candidate & allowed)
        rounded = np.round(values[found], 12)
        order = np.lexsort((transfer[found], rounded, self.rank[found]))
        return int(found[order[0]])

    @cached_property
    def _placement_costs(self) -> PlacementCosts:
        return PlacementCosts(self._cluster)

    @cached_property
    def _problem(self) -> Problem:
        """The problem of the units, without the costs of violated strict rules."""
        context, cluster = self._context, self._cluster
        problem = context.encode(cluster, context.budget)
        weight = context.objective.weight
        rows = [self._preferred(unit) for unit in self._small.units]
        cost = np.zeros((len(rows), len(self._cluster.node_ids)))
        for index, unit in enumerate(self._small.units):
            away = self._placement_costs.soft_costs(unit)
            if away is not None:
                cost[index] += weight("soft_rule") * away
        sets = problem.group_sets
        soft = soft_set_weights(cluster, context.objective)
        return replace(
            problem,
            class_of=np.arange(len(rows)),
            allowed=np.array(rows),
            placement_cost=cost,
            group_sets=replace(sets, anti_affinity_weight=soft),
        )

    def _preferred(self, unit: MoveGroup) -> Mask:
        """Return the nodes that rules and hardware allow, and prefer, for *unit*.

        Rules of guests that are elsewhere do not count.
        """
        suited = self._cluster.arrays.classes.suited(unit)
        allowed: Mask = suited & self._small.permitted(unit)
        away = self._placement_costs.dispreferred(unit[0].id, allowed)
        preferred: Mask = allowed if away is None else allowed & (away == 0)
        return preferred

    def _transfer(self, problem: Problem) -> Floats:
        """Return what counts of a move: GiB with such a budget, otherwise its cost."""
        if math.isfinite(self._context.budget.gib):
            return self._cluster.movable.transfer
        return problem.move_cost

    @cached_property
    def _loads(self) -> Floats:
        return placement_loads(self._problem, self._graph.assignments)

    @cached_property
    def _imbalance(self) -> Floats:
        return imbalance_costs(self._problem, self._loads)

    @cached_property
    def _present_imbalance(self) -> float:
        problem = self._problem
        loads = placement_loads(problem, problem.origin[:, None])
        return float(imbalance_costs(problem, loads)[0])

    @cached_property
    def _is_candidate(self) -> Mask:
        """True for placements in which a plan may end; shape (S,)."""
        problem, assignments = self._problem, self._graph.assignments
        ends: Mask = ~overfilled(problem, assignments, self._loads)
        if self._context.for_soft_rules:  # a heavier rule may require to leave one
            return ends
        for unit, row in enumerate(problem.allowed):
            origin = problem.origin[unit]
            if row[origin]:  # a preferred node is not left for another one
                ends &= row[assignments[unit]]
        return ends

    @cached_property
    def rank(self) -> Floats:
        """Number of violated strict rules, if their repair comes first; shape (S,)."""
        if self._context.priorities[0] is Goal.REPAIR:
            return self._small.violations[0]
        return np.zeros(self._graph.count)

    def values(self, problem: Problem) -> Floats:
        """Return the costs of all placements, with those of moves; shape (S,)."""
        costs = placement_costs(problem, self._graph.assignments)
        weight = self._context.objective.weight("violation")
        values: Floats = costs + weight * self._small.violations[1]
        if self._context.for_soft_rules:
            values += np.maximum(self._present_imbalance - self._imbalance, 0.0)
        return values

    def detour_cost(self, problem: Problem, transfer: Floats) -> Floats:
        """Return the cost of *transfer* beyond that of one move of each unit; (S,)."""
        displaced = self._graph.assignments != self._graph.origin[:, None]
        cost: Floats = transfer - problem.move_cost @ displaced
        return cost

    def _reached(self, problem: Problem) -> ReachablePlacements:
        graph = replace(self._graph, transfer=self._transfer(problem))
        return ReachablePlacements(graph, self._context.budget.migrations)

    def _with_knee_price(self, problem: Problem) -> Problem:
        """Return *problem* with the price per GiB at the knee of gain over transfer."""
        transfer = self._reached(problem).transfer
        best = self.best(np.isfinite(transfer), self.values(problem), transfer)
        displaced = self._graph.assignments[:, best] != self._graph.origin
        moved = float(self._cluster.movable.transfer[displaced].sum())
        gain = float(self._imbalance[self._graph.start] - self._imbalance[best])
        if moved <= 0 or gain <= 0:
            return problem
        price = KNEE_GAIN * gain / moved * self._context.knee_cost
        return replace(problem, move_cost=np.maximum(problem.move_cost, price))

    def plan(
        self,
        problem: Problem,
        placement: int,
        path: Sequence[UnitMove],
        bound: float | None,
    ) -> CandidatePlan:
        """Return the plan with the moves of *path*."""
        context, cluster = self._context, self._cluster
        assignment = self._graph.assignments[:, placement]
        solution = replace(evaluate(problem, assignment), bound=bound)
        moves = [*self._moves(problem, assignment, path)]
        sequenced = sequence_path(cluster.all_nodes, moves)
        after = context.snapshot.apply(*sequenced.actions)
        moved = {guest.id for each in moves for guest in each.guests}
        context = replace(context, groups=_without_reasons(context.groups, moved))
        return CandidatePlan(context, problem, solution, sequenced, after)

    def _moves(
        self, problem: Problem, assignment: Indices, path: Sequence[UnitMove]
    ) -> Iterator[GroupMove]:
        cluster = self._cluster
        waits = self._context.before.thresholds.waits
        after = self._after(path)
        explanations = MoveExplanations(cluster, problem, assignment, after, waits)
        last = {each.unit: index for index, each in enumerate(path)}
        moved = sorted(last)
        values = dict(
            zip(moved, loss_of_return(problem, assignment, moved), strict=True)
        )
        now: defaultdict[int, list[Guest]] = defaultdict(list)
        for index, each in enumerate(path):
            guests = now.get(each.unit, cluster.groups[each.unit].guests)
            target = cluster.node_ids[each.target]
            if last[each.unit] == index:
                detail = explanations.explain(each.unit, compared=True)
            else:
                detail = f"detour: on {target} until it can move on"
            value = float(values[each.unit])
            yield GroupMove(tuple(guests), target, detail, value)
            now[each.unit] = [replace(guest, node=target) for guest in guests]

    def _after(self, path: Sequence[UnitMove]) -> Snapshot:
        """Return the cluster with the guests on the last targets of *path*."""
        snapshot, cluster = self._context.snapshot, self._cluster
        guests = dict(snapshot.guests)
        for each in path:
            for guest in cluster.groups[each.unit].guests:
                target = cluster.node_ids[each.target]
                guests[guest.id] = replace(guests[guest.id], node=target)
        return replace(snapshot, guests=guests)


def _context_of(context: OptimizeContext, cluster: EncodedCluster) -> OptimizeContext:
    """Return the context with *cluster*, and its groups as the move groups.

    Of the reasons why their guests would be skipped, only the budget remains.
    """
    before = context.groups
    skipped = {
        name: reason
        for name, reason in before.skipped.items()
        if name not in cluster.group_of or reason.reason is SkipReason.OVER_BUDGET
    }
    snapshot, rules, limits = context.snapshot, context.rules, context.limits
    former = cluster_notes(snapshot, rules, limits, before.skipped)
    notes = cluster_notes(snapshot, rules, limits, skipped)
    return replace(
        context,
        groups=replace(before, groups=cluster.groups, skipped=skipped),
        cluster=cluster,
        notes=(*notes, *(each for each in context.notes if each not in former)),
    )


def _without_reasons(groups: MovableGroups, moved: set[GuestId]) -> MovableGroups:
    """Return *groups* without reasons for guests that the plan has *moved*."""
    skipped: dict[GuestId, SkippedGuest] = {
        name: reason for name, reason in groups.skipped.items() if name not in moved
    }
    return replace(groups, skipped=skipped)
