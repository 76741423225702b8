"""The best plan of a small cluster: all placements that safe migrations reach.

Guests move one by one, except those that a strict affinity rule keeps together now. A
rule about guests on several nodes may thus be repaired, or stay violated, while one of
them moves.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np

from opendrs.arrays import MoveGroup, SkipReason
from opendrs.model import (
    Affinity,
    AntiAffinity,
    Guest,
    GuestId,
    Mobility,
    NodeAffinity,
    Rule,
)
from opendrs.optimizer import (
    Floats,
    Indices,
    Mask,
    PlacementGraph,
    Problem,
    ReachablePlacements,
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
from opendrs.policies.optimize.explanations import MoveExplanations
from opendrs.policies.optimize.movable_groups import EncodedGroup
from opendrs.policies.optimize.objective import GIB_ROW, KNEE_GAIN, Goal
from opendrs.policies.optimize.placement_costs import PlacementCosts
from opendrs.policies.preconditions import cluster_notes
from opendrs.rules import drain_rules

MAX_PLACEMENTS = 60_000  # some tenths of a second
MAX_BITS = 62  # violations of node rules that one unit can have


def exhaustive_plan(context: OptimizeContext) -> CandidatePlan | None:
    """Return the best of all plans; None if there are too many placements."""
    units = movable_units(context)
    nodes = len(context.cluster.node_ids)
    if not units or nodes ** len(units) > MAX_PLACEMENTS:
        return None
    search = _ExhaustiveSearch(context, units)
    return None if search.has_too_many_rules else search.best_plan()


def movable_units(context: OptimizeContext) -> tuple[MoveGroup, ...]:
    """Return the guests that may migrate, each with those that must move with it.

    A guest without a way to be gathered with its group may still move alone.
    """
    groups, snapshot = context.groups, context.snapshot
    fixed = {
        name
        for name in groups.immovable
        if groups.skipped[name].reason is not SkipReason.CONTRADICTORY_RULES
    }
    units = []
    for unit in _units(snapshot.guests.values(), snapshot.rules):
        has_load = unit[0].node in context.cluster.arrays.index
        if has_load and not fixed.intersection(guest.id for guest in unit):
            units.append(unit)
    return tuple(units)


def _units(guests: Iterable[Guest], rules: Sequence[Rule]) -> Iterator[MoveGroup]:
    """Yield the active guests, those together that a kept affinity rule binds."""
    active = {guest.id: guest for guest in guests if guest.is_active}
    unit_of: dict[GuestId, set[GuestId]] = {name: {name} for name in active}
    for rule in rules:
        if not (isinstance(rule, Affinity) and rule.strict):
            continue
        members = [active[name] for name in sorted(rule.guests) if name in active]
        if len({guest.occupied_nodes for guest in members}) == 1:
            merged = set().union(*(unit_of[guest.id] for guest in members))
            unit_of.update(dict.fromkeys(merged, merged))
    seen: set[GuestId] = set()
    for name in sorted(active):
        if name not in seen:
            seen |= unit_of[name]
            yield tuple(active[each] for each in sorted(unit_of[name]))


@dataclass(frozen=True, slots=True)
class _RuleMembers:
    """Guests of a strict rule: those of units, and the nodes of the others.

    Attributes:
        units: Units that contain a member, one entry for each member.
        fixed: Nodes of the members that do not move; -1 for nodes without metrics.
    """

    units: tuple[int, ...]
    fixed: tuple[int, ...]


class _ExhaustiveSearch:
    """All placements of the units of a small cluster, with their values.

    Args:
        context: Decision context of the policy.
        units: Units that may move.
    """

    def __init__(self, context: OptimizeContext, units: tuple[MoveGroup, ...]) -> None:
        groups = tuple(EncodedGroup(unit, unit[0].node) for unit in units)
        self._context = _context_of(context, groups)
        self._cluster = self._context.cluster
        self._unit_of = self._cluster.group_of
        snapshot = self._context.snapshot
        self._rules = [
            rule
            for rule in (*snapshot.rules, *drain_rules(snapshot))
            if isinstance(rule, Affinity | AntiAffinity | NodeAffinity) and rule.strict
        ]
        self._placement_costs = PlacementCosts(self._cluster)

    @property
    def has_too_many_rules(self) -> bool:
        """True if the violations of node rules of a unit do not fit into a bit set."""
        return any(len(self._node_rules(unit)) > MAX_BITS for unit in self._units)

    @property
    def _units(self) -> Sequence[MoveGroup]:
        return [group.guests for group in self._cluster.groups]

    def best_plan(self) -> CandidatePlan:
        """Return the plan to the best placement that is reached within the budget."""
        problem, budget = self._problem, self._context.budget
        if budget.knee:
            problem = self._with_knee_price(problem)
        reached = self._reached(problem)
        transfer = reached.transfer
        allowed = self._is_candidate & np.isfinite(transfer)
        if math.isfinite(budget.gib):
            allowed &= transfer <= problem.budgets[GIB_ROW] * (1 + 1e-12)
        values = self._values(problem)
        if not math.isfinite(budget.gib):  # what detours cost counts as well
            displaced = self._graph.assignments != self._graph.origin[:, None]
            values = values + transfer - problem.move_cost @ displaced
        candidates = np.flatnonzero(allowed)
        order = np.lexsort(
            (
                transfer[candidates],
                np.round(values[candidates], 12),
                self._rank[candidates],
            )
        )
        best = int(candidates[order[0]])
        within = candidates[transfer[candidates] <= transfer[best]]
        bound = math.sqrt(float(self._imbalance[within].min()))
        return self._plan(problem, best, reached.path(best), bound)

    @cached_property
    def _problem(self) -> Problem:
        """The problem of the units, with a placement class for each."""
        context, cluster = self._context, self._cluster
        problem = context.encode(cluster, context.budget)
        weight = context.objective.weight
        rows = [self._preferred(unit) for unit in self._units]
        forbidden = [self._forbidden(unit).sum(axis=0) for unit in self._units]
        cost = weight("violation") * np.array(forbidden, np.float64)
        for index, (unit, row) in enumerate(zip(self._units, rows, strict=True)):
            away = self._placement_costs.dispreferred(unit[0].id, row)
            if away is not None:
                cost[index] += weight("soft_rule") * away
        return replace(
            problem,
            class_of=np.arange(len(rows)),
            allowed=np.array(rows),
            placement_cost=cost,
        )

    def _preferred(self, unit: MoveGroup) -> Mask:
        """Return the nodes that rules and hardware allow, and prefer, for *unit*."""
        nodes = self._cluster.snapshot.nodes
        compatible = [
            all(
                self._cluster.feasibility.is_compatible((guest,), nodes[name])
                for guest in unit
            )
            for name in self._cluster.node_ids
        ]
        return np.array(compatible, np.bool_)

    def _node_rules(self, unit: MoveGroup) -> list[NodeAffinity]:
        """Return the strict node rules of *unit*, once for each guest they concern."""
        return [
            rule
            for rule in self._rules
            if isinstance(rule, NodeAffinity)
            for guest in unit
            if guest.id in rule.guests
        ]

    def _forbidden(self, unit: MoveGroup) -> Mask:
        """Return True for nodes that each node rule of *unit* forbids; (rules, N)."""
        nodes, rules = self._cluster.node_ids, self._node_rules(unit)
        rows = [[name not in rule.nodes for name in nodes] for rule in rules]
        return np.array(rows, np.bool_).reshape(len(rules), len(nodes))

    def _violated(self, unit: MoveGroup) -> Indices:
        """Return the bit set of the node rules that *unit* violates on each node."""
        forbidden = self._forbidden(unit)
        bits = np.left_shift(1, np.arange(len(forbidden), dtype=np.int64))
        violated: Indices = bits @ forbidden
        return violated

    @cached_property
    def _graph(self) -> PlacementGraph:
        cluster, arrays = self._cluster, self._cluster.arrays
        known = np.isfinite(arrays.available).all(axis=1)
        suited = np.array([arrays.classes.suited(unit) for unit in self._units])
        live = [
            all(guest.effective_mobility is Mobility.LIVE for guest in unit)
            for unit in self._units
        ]
        return PlacementGraph(
            origin=cluster.origin,
            required=arrays.required,
            available=np.floor(
                np.where(np.isfinite(arrays.available), arrays.available, 0)
            ),
            usable=np.floor(np.where(np.isfinite(arrays.usable), arrays.usable, 0)),
            possible=suited & known,
            violated=np.array([self._violated(unit) for unit in self._units]),
            avoided=self._avoided(),
            apart=tuple(sorted(self._pairs_apart())),
            together=tuple(self._joinable()),
            transfer=self._transfer(self._problem),
            migrations=cluster.movable.guest_count.astype(np.int64),
            returns=np.array(live, np.bool_),
        )

    def _transfer(self, problem: Problem) -> Floats:
        """Return what counts of a move: GiB with such a budget, otherwise its cost."""
        if math.isfinite(self._context.budget.gib):
            return self._cluster.movable.transfer
        return problem.move_cost

    def _members(self, guests: Iterable[GuestId]) -> _RuleMembers:
        units, fixed = [], []
        for name in sorted(guests):
            guest = self._cluster.snapshot.guests.get(name)
            if name in self._unit_of:
                units.append(self._unit_of[name])
            elif guest is not None and guest.is_active:
                index = self._cluster.arrays.index
                fixed += [index.get(node, -1) for node in guest.occupied_nodes]
        return _RuleMembers(tuple(units), tuple(fixed))

    def _avoided(self) -> Mask:
        """Return the nodes of fixed guests with anti-affinity to each unit; (U, N)."""
        avoided = np.zeros((len(self._units), len(self._cluster.node_ids)), np.bool_)
        for rule in self._rules:
            if isinstance(rule, AntiAffinity):
                members = self._members(rule.guests)
                for unit in members.units:
                    avoided[unit, [node for node in members.fixed if node >= 0]] = True
        return avoided

    def _pairs_apart(self) -> set[tuple[int, int]]:
        pairs = set()
        for rule in self._rules:
            if isinstance(rule, AntiAffinity):
                units = sorted(set(self._members(rule.guests).units))
                pairs |= set(combinations(units, 2))
        return pairs

    def _joinable(self) -> Iterator[tuple[tuple[int, ...], int]]:
        """Yield the units of each affinity rule that moves can keep or violate."""
        for rule in self._rules:
            if isinstance(rule, Affinity):
                members = self._members(rule.guests)
                units, nodes = tuple(sorted(set(members.units))), set(members.fixed)
                can_hold = len(nodes) <= 1 and -1 not in nodes
                if units and can_hold and len(units) + len(nodes) > 1:
                    yield units, min(nodes, default=-1)

    @cached_property
    def _loads(self) -> Floats:
        return placement_loads(self._problem, self._graph.assignments)

    @cached_property
    def _imbalance(self) -> Floats:
        return imbalance_costs(self._problem, self._loads)

    @cached_property
    def _is_candidate(self) -> Mask:
        """True for placements in which a plan may end; shape (S,)."""
        problem, assignments = self._problem, self._graph.assignments
        ends: Mask = ~overfilled(problem, assignments, self._loads)
        for unit, row in enumerate(problem.allowed):
            origin = problem.origin[unit]
            if row[origin]:  # a preferred node is not left for another one
                ends &= row[assignments[unit]]
        return ends

    @cached_property
    def _rank(self) -> Floats:
        """Number of violated strict rules, if their repair comes first; shape (S,)."""
        if self._context.priorities[0] is Goal.REPAIR:
            return self._violations[0]
        return np.zeros(self._graph.count)

    @cached_property
    def _violations(self) -> tuple[Floats, Floats]:
        """Number of violated strict rules, and violated affinity rules; both (S,)."""
        graph = self._graph
        rules, apart = np.zeros(graph.count), np.zeros(graph.count)
        for rule in self._rules:
            members = self._members(rule.guests)
            if not members.units:
                continue
            if isinstance(rule, NodeAffinity):
                allowed = np.array([n in rule.nodes for n in self._cluster.node_ids])
                rows = ~allowed[graph.assignments[list(members.units)]]
                violated = rows.any(axis=0)
            else:
                violated = self._sharing(members)
                if isinstance(rule, Affinity):
                    violated = ~self._are_together(members)
                    apart += violated
            rules += violated
        return rules, apart

    def _sharing(self, members: _RuleMembers) -> Mask:
        """Return the placements in which two of *members* share a node; shape (S,)."""
        where = self._graph.assignments[list(members.units)]
        shared = np.zeros(self._graph.count, np.bool_)
        for node in range(self._graph.node_count):
            count = (where == node).sum(axis=0) + members.fixed.count(node)
            shared |= count > 1
        return shared

    def _are_together(self, members: _RuleMembers) -> Mask:
        where = self._graph.assignments[list(members.units)]
        nodes = set(members.fixed)
        if len(nodes) > 1 or -1 in nodes:
            return np.zeros(self._graph.count, np.bool_)
        place = where[0] if not nodes else np.full(self._graph.count, min(nodes))
        same: Mask = (where == place).all(axis=0)
        return same

    def _values(self, problem: Problem) -> Floats:
        """Return the costs of all placements, with those of moves; shape (S,)."""
        costs = placement_costs(problem, self._graph.assignments)
        weight = self._context.objective.weight("violation")
        values: Floats = costs + weight * self._violations[1]
        return values

    def _reached(self, problem: Problem) -> ReachablePlacements:
        graph = replace(self._graph, transfer=self._transfer(problem))
        return ReachablePlacements(graph, self._context.budget.migrations)

    def _with_knee_price(self, problem: Problem) -> Problem:
        """Return *problem* with the price per GiB at the knee of gain over transfer."""
        reached = self._reached(problem).transfer
        allowed = np.flatnonzero(self._is_candidate & np.isfinite(reached))
        values = self._values(problem)[allowed]
        order = np.lexsort((np.round(values, 12), self._rank[allowed]))
        best = int(allowed[order[0]])
        displaced = self._graph.assignments[:, best] != self._graph.origin
        moved = float(self._cluster.movable.transfer[displaced].sum())
        gain = float(self._imbalance[self._graph.start] - self._imbalance[best])
        if moved <= 0 or gain <= 0:
            return problem
        price = KNEE_GAIN * gain / moved * self._cluster.movable.migration_cost
        return replace(problem, move_cost=np.maximum(problem.move_cost, price))

    def _plan(
        self,
        problem: Problem,
        placement: int,
        path: Sequence[UnitMove],
        bound: float,
    ) -> CandidatePlan:
        """Return the plan with the moves of *path*."""
        context, cluster = self._context, self._cluster
        assignment = self._graph.assignments[:, placement]
        solution = replace(evaluate(problem, assignment), bound=bound)
        moves = [*self._moves(problem, assignment, path)]
        sequenced = sequence_path(cluster.all_nodes, moves)
        after = context.snapshot.apply(*sequenced.actions)
        measured = context.measure(after)
        return CandidatePlan(context, solution, sequenced, measured, after)

    def _moves(
        self, problem: Problem, assignment: Indices, path: Sequence[UnitMove]
    ) -> Iterator[GroupMove]:
        cluster = self._cluster
        waits = self._context.before.thresholds.waits
        explanations = MoveExplanations(cluster, problem, assignment, waits)
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


def _context_of(
    context: OptimizeContext, groups: tuple[EncodedGroup, ...]
) -> OptimizeContext:
    """Return the context with *groups* as the move groups."""
    movable = {guest.id for group in groups for guest in group.guests}
    before = context.groups
    skipped = {
        name: reason for name, reason in before.skipped.items() if name not in movable
    }
    former = cluster_notes(context.snapshot, context.rules, before.skipped)
    notes = cluster_notes(context.snapshot, context.rules, skipped)
    return replace(
        context,
        groups=replace(before, groups=groups, skipped=skipped),
        cluster=context.cluster.with_groups(groups),
        notes=(*notes, *(each for each in context.notes if each not in former)),
    )
