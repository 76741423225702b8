"""Cost and feasibility of an assignment: the definition, computed from scratch."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from opendrs.optimizer.problem import Floats, IndexLists, Indices, Mask, Problem

FEASIBILITY_SLACK = 1e-9  # rounding allowed for where sums are held against capacities


@dataclass(frozen=True, slots=True, kw_only=True)
class CostBreakdown:
    """What each part of the cost comes to; the names are those of `Problem`."""

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
        """The cost."""
        return float(sum(getattr(self, part.name) for part in fields(self)))


def loads(problem: Problem, assignment: Indices) -> Floats:
    """Return the load of each node; shape (N, R)."""
    load = problem.base_load.copy()
    np.add.at(load, assignment, problem.demand)
    return load


def left_behind(problem: Problem, assignment: Indices) -> Floats:
    """Return what each node holds of units that have left it; shape (N, R)."""
    held = np.zeros_like(problem.base_load)
    away = assignment != problem.origin
    left = np.where(problem.transient, problem.demand[away], 0.0)
    np.add.at(held, problem.origin[away], left)
    return held


def cost_breakdown(problem: Problem, assignment: Indices) -> CostBreakdown:
    """Return what each part of the cost of *assignment* comes to."""
    load = loads(problem, assignment)
    away = assignment != problem.origin
    used = np.bincount(assignment, minlength=problem.node_count) > 0
    over = np.maximum(load - problem.capacity, 0)
    excess = np.maximum(load - problem.safety_capacity, 0)
    placement = pair = 0.0
    if problem.placement_cost is not None:
        placement = float(problem.placement_cost[problem.class_of, assignment].sum())
    if problem.pair_cost is not None:
        pair = float(problem.pair_cost[problem.origin[away], assignment[away]].sum())
    return CostBreakdown(
        overload=float((over.sum(axis=0) * problem.overload_weight).sum()),
        excess=float((excess * problem.excess_weight).sum()),
        imbalance=_imbalance_cost(problem, load),
        ratio=_ratio_cost(problem, load),
        use=float(problem.use_cost[used].sum()),
        placement=placement,
        anti_affinity=float(
            _shared_nodes(problem, assignment) @ problem.group_sets.anti_affinity_weight
        ),
        move=float(problem.move_cost[away].sum()),
        pair=pair,
        set_move=problem.set_move_weight * _most_moved_of_set(problem, away),
    )


def cost(problem: Problem, assignment: Indices) -> float:
    """Return what *assignment* costs."""
    return cost_breakdown(problem, assignment).total


def infeasibilities(problem: Problem, assignment: Indices) -> list[str]:
    """Return why *assignment* is not feasible; nothing if it is."""
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
            f"node {n} takes in units and is full"
            for n in _true_indices(full & receives)
        ),
        *(
            f"unit {g} may not be on node {assignment[g]}"
            for g in _true_indices(~allowed)
        ),
        *_set_infeasibilities(problem, assignment, away),
        *(
            f"budget {b} is exceeded: {moved[b]:g} of {problem.budgets[b]:g}"
            for b in _true_indices(moved > problem.budgets * (1 + FEASIBILITY_SLACK))
        ),
    ]


def _true_indices(mask: Mask) -> list[int]:
    return [int(index) for index in np.flatnonzero(mask)]


def _imbalance_cost(problem: Problem, load: Floats) -> float:
    if not problem.imbalance_weight.any():
        return 0.0
    distance = load / problem.capacity - problem.target_load
    return float((distance**2 * problem.imbalance_weight).sum())


def _ratio_cost(problem: Problem, load: Floats) -> float:
    free = problem.capacity - load
    return sum(
        each.weight
        * float(
            np.maximum(
                each.target * free[:, each.first] - free[:, each.second], 0
            ).sum()
        )
        for each in problem.ratio_terms
    )


def _shared_nodes(problem: Problem, assignment: Indices) -> Floats:
    """Return how many units of each group share a node with an earlier one."""
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
            messages.append(f"units of group {k} share a node")
        if len(np.unique(problem.location[places])) < group_sets.spread[k]:
            messages.append(f"group {k} stands in too few locations")
        messages += _missing_neighbors(problem, assignment, group_sets.members, k)
    return messages


def _shares_node(places: Indices, away: Mask) -> bool:
    """Return whether a unit that moved shares its node with another."""
    _, inverse, count = np.unique(places, return_inverse=True, return_counts=True)
    return bool((away & (count[inverse] > 1)).any())


def _missing_neighbors(
    problem: Problem, assignment: Indices, members: IndexLists, group_set: int
) -> list[str]:
    near = problem.neighborhood[assignment]
    return [
        f"group {group_set} stands where group {other} does not"
        for other in problem.group_sets.needs[group_set]
        if not np.isin(near[members[group_set]], near[members[other]]).all()
    ]


@dataclass(frozen=True, slots=True)
class Solution:
    """An assignment and its cost.

    Attributes:
        assignment: The node of each unit; shape (G,).
        cost: What it costs.
    """

    assignment: Indices
    cost: float
