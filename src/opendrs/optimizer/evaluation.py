"""Cost and feasibility of an assignment: the definition, computed from scratch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np

from opendrs.optimizer.problem import Floats, IndexLists, Indices, Mask, Problem

FEASIBILITY_SLACK = 1e-9  # relative slack for rounding in sums


@dataclass(frozen=True, slots=True, kw_only=True)
class CostBreakdown:
    """Cost of an assignment by term; the terms are those of `Problem`."""

    overload: float
    excess: float
    imbalance: float
    ratio: float
    use: float
    placement: float
    anti_affinity: float
    move: float
    pair: float
    set_move: float

    @property
    def total(self) -> float:
        """Sum of all terms."""
        return float(sum(getattr(self, part.name) for part in fields(self)))


def loads(problem: Problem, assignment: Indices) -> Floats:
    """Return the load of each node; shape (N, R)."""
    load = problem.base_load.copy()
    np.add.at(load, assignment, problem.demand)
    return load


def left_behind(problem: Problem, assignment: Indices) -> Floats:
    """Return the transient demand of displaced groups at their origin; (N, R)."""
    held = np.zeros_like(problem.base_load)
    away = assignment != problem.origin
    left = np.where(problem.transient, problem.demand[away], 0.0)
    np.add.at(held, problem.origin[away], left)
    return held


@dataclass(frozen=True, slots=True)
class AssignmentLoad:
    """An assignment with the values that several terms need.

    Attributes:
        assignment: Node of each group; shape (G,).
        load: Load of each node; shape (N, R).
        displaced: Groups that are not at their origin; shape (G,).
    """

    assignment: Indices
    load: Floats
    displaced: Mask


@dataclass(frozen=True, slots=True)
class Term:
    """Term of the objective.

    Attributes:
        name: Field of `CostBreakdown`.
        unit: Unit that has the weight of the term.
        cost: Function that returns the weighted cost.
    """

    name: str
    unit: str
    cost: Callable[[Problem, AssignmentLoad], float]


def _overload_cost(problem: Problem, state: AssignmentLoad) -> float:
    over = np.maximum(state.load - problem.capacity, 0)
    return float((over.sum(axis=0) * problem.overload_weight).sum())


def _excess_cost(problem: Problem, state: AssignmentLoad) -> float:
    excess = np.maximum(state.load - problem.safety_capacity, 0)
    return float((excess * problem.excess_weight).sum())


def _imbalance_cost(problem: Problem, state: AssignmentLoad) -> float:
    if not problem.imbalance_weight.any():
        return 0.0
    distance = state.load / problem.capacity - problem.target_load
    return float((distance**2 * problem.imbalance_weight).sum())


def _ratio_cost(problem: Problem, state: AssignmentLoad) -> float:
    free = problem.capacity - state.load
    return sum(
        each.weight
        * float(
            np.maximum(
                each.target * free[:, each.first] - free[:, each.second], 0
            ).sum()
        )
        for each in problem.ratio_terms
    )


def _use_cost(problem: Problem, state: AssignmentLoad) -> float:
    used = np.bincount(state.assignment, minlength=problem.node_count) > 0
    return float(problem.use_cost[used].sum())


def _placement_cost(problem: Problem, state: AssignmentLoad) -> float:
    if problem.placement_cost is None:
        return 0.0
    return float(problem.placement_cost[problem.class_of, state.assignment].sum())


def _anti_affinity_cost(problem: Problem, state: AssignmentLoad) -> float:
    shared = _shared_nodes(problem, state.assignment)
    return float(shared @ problem.group_sets.anti_affinity_weight)


def _move_cost(problem: Problem, state: AssignmentLoad) -> float:
    return float(problem.move_cost[state.displaced].sum())


def _pair_cost(problem: Problem, state: AssignmentLoad) -> float:
    if problem.pair_cost is None:
        return 0.0
    away = state.displaced
    return float(problem.pair_cost[problem.origin[away], state.assignment[away]].sum())


def _set_move_cost(problem: Problem, state: AssignmentLoad) -> float:
    return problem.set_move_weight * _most_moved_of_set(problem, state.displaced)


# The order is that of the sum, on which the last digit depends.
TERMS = (
    Term("overload", "load above capacity", _overload_cost),
    Term("excess", "load above the safety capacity", _excess_cost),
    Term("imbalance", "squared deviation from the target load", _imbalance_cost),
    Term("ratio", "missing free amount", _ratio_cost),
    Term("use", "node with groups", _use_cost),
    Term("placement", "group on a node", _placement_cost),
    Term("anti_affinity", "group that shares a node", _anti_affinity_cost),
    Term("move", "displaced group", _move_cost),
    Term("pair", "displaced group", _pair_cost),
    Term("set_move", "displaced member of the most displaced set", _set_move_cost),
)


def cost_breakdown(problem: Problem, assignment: Indices) -> CostBreakdown:
    """Return the cost of *assignment* by term."""
    load = loads(problem, assignment)
    state = AssignmentLoad(assignment, load, assignment != problem.origin)
    return CostBreakdown(**{each.name: each.cost(problem, state) for each in TERMS})


def cost(problem: Problem, assignment: Indices) -> float:
    """Return the total cost of *assignment*."""
    return cost_breakdown(problem, assignment).total


def infeasibilities(problem: Problem, assignment: Indices) -> list[str]:
    """Return the violated constraints of *assignment*; empty if it is feasible."""
    held = loads(problem, assignment) + left_behind(problem, assignment)
    away = assignment != problem.origin
    full = (held > problem.capacity + FEASIBILITY_SLACK * np.abs(problem.capacity)).any(
        axis=1
    )
    receives = np.bincount(assignment[away], minlength=problem.node_count) > 0
    allowed = problem.allowed[problem.class_of, assignment] | ~away
    moved = problem.budget_weights @ away
    return [
        *(
            f"node {n}: receives groups above its capacity"
            for n in _true_indices(full & receives)
        ),
        *(
            f"group {g}: not allowed on node {assignment[g]}"
            for g in _true_indices(~allowed)
        ),
        *_set_infeasibilities(problem, assignment, away),
        *(
            f"budget {b}: exceeded: {moved[b]:g} of {problem.budgets[b]:g}"
            for b in _true_indices(moved > problem.budgets * (1 + FEASIBILITY_SLACK))
        ),
    ]


def _true_indices(mask: Mask) -> list[int]:
    return [int(index) for index in np.flatnonzero(mask)]


def _shared_nodes(problem: Problem, assignment: Indices) -> Floats:
    """Return how many groups of each set share a node with an earlier one."""
    members = problem.group_sets.members
    size = np.diff(members.start)
    group_set = np.repeat(np.arange(len(members)), size)
    places = np.unique(group_set * problem.node_count + assignment[members.items])
    distinct = np.bincount(places // problem.node_count, minlength=len(members))
    return (size - distinct).astype(np.float64)


def _most_moved_of_set(problem: Problem, away: Mask) -> int:
    members = problem.group_sets.members
    group_set = np.repeat(np.arange(len(members)), np.diff(members.start))
    moved = np.bincount(group_set, weights=away[members.items], minlength=1)
    return int(moved.max(initial=0))


def _set_infeasibilities(
    problem: Problem, assignment: Indices, away: Mask
) -> list[str]:
    group_sets, messages = problem.group_sets, []
    for k in range(len(group_sets)):
        members: Indices = group_sets.members[k]
        places = assignment[members]
        if group_sets.strict[k] and _shares_node(places, away[members]):
            messages.append(f"set {k}: groups share a node")
        if len(np.unique(problem.location[places])) < group_sets.spread[k]:
            messages.append(f"set {k}: too few locations")
        messages += _missing_neighbors(problem, assignment, group_sets.members, k)
    return messages


def _shares_node(places: Indices, away: Mask) -> bool:
    """Return True if a group that moved shares its node with another one."""
    _, inverse, count = np.unique(places, return_inverse=True, return_counts=True)
    return bool((away & (count[inverse] > 1)).any())


def _missing_neighbors(
    problem: Problem, assignment: Indices, members: IndexLists, group_set: int
) -> list[str]:
    near = problem.neighborhood[assignment]
    return [
        f"set {group_set}: in a neighborhood without set {other}, which it needs"
        for other in problem.group_sets.needs[group_set]
        if not np.isin(near[members[group_set]], near[members[other]]).all()
    ]


@dataclass(frozen=True, slots=True)
class Solution:
    """An assignment with its cost.

    Attributes:
        assignment: Node of each group; shape (G,).
        cost: Total cost.
    """

    assignment: Indices
    cost: float
