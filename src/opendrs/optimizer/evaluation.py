"""Cost of an assignment: the definition, computed from scratch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np

from opendrs.optimizer.feasibility import infeasibilities, loads
from opendrs.optimizer.problem import Floats, Indices, Mask, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class CostBreakdown:
    """Value of each of the `COSTS` of an assignment, with its weight."""

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
        """Sum of all costs."""
        return float(sum(getattr(self, part.name) for part in fields(self)))


@dataclass(frozen=True, slots=True)
class AssignmentLoad:
    """An assignment with the values that several costs need.

    Attributes:
        assignment: Node of each group; shape (G,).
        load: Load of each node; shape (N, R).
        displaced: Groups that are not at their origin; shape (G,).
    """

    assignment: Indices
    load: Floats
    displaced: Mask


@dataclass(frozen=True, slots=True)
class Cost:
    """Definition of a cost of a problem; `Objective` states what it is used for.

    Attributes:
        name: Field of `CostBreakdown`.
        unit: Amount that has the weight.
        value: Function that returns the weighted amount.
    """

    name: str
    unit: str
    value: Callable[[Problem, AssignmentLoad], float]


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
COSTS = (
    Cost("overload", "load above capacity", _overload_cost),
    Cost("excess", "load above the safety capacity", _excess_cost),
    Cost("imbalance", "squared deviation from the target load", _imbalance_cost),
    Cost("ratio", "missing free amount", _ratio_cost),
    Cost("use", "node with groups", _use_cost),
    Cost("placement", "group on a node", _placement_cost),
    Cost("anti_affinity", "group that shares a node", _anti_affinity_cost),
    Cost("move", "displaced group", _move_cost),
    Cost("pair", "displaced group", _pair_cost),
    Cost("set_move", "displaced member of the most displaced set", _set_move_cost),
)


def cost_breakdown(problem: Problem, assignment: Indices) -> CostBreakdown:
    """Return the value of each of the `COSTS` of *assignment*."""
    load = loads(problem, assignment)
    state = AssignmentLoad(assignment, load, assignment != problem.origin)
    return CostBreakdown(**{each.name: each.value(problem, state) for each in COSTS})


def cost(problem: Problem, assignment: Indices) -> float:
    """Return the total cost of *assignment*."""
    return cost_breakdown(problem, assignment).total


def _shared_nodes(problem: Problem, assignment: Indices) -> Floats:
    """Return how many groups of each set are above the limit of their domain."""
    sets = problem.group_sets
    owner = np.concatenate((sets.members.owners, sets.fixed.owners))
    domain = problem.domains[
        sets.partition[sets.members.owners], assignment[sets.members.items]
    ]
    domain = np.concatenate((domain, sets.fixed.items))
    is_moving = np.arange(len(owner)) < len(sets.members.items)
    width = int(problem.domains.max(initial=0)) + 1
    places, inverse = np.unique(owner * width + domain, return_inverse=True)
    count = np.bincount(inverse, minlength=len(places))
    staying = np.bincount(inverse, ~is_moving, minlength=len(places))
    most = sets.most[places // width]
    above = np.maximum(count - most, 0) - np.maximum(staying - most, 0)
    return np.bincount(places // width, above, len(sets)).astype(np.float64)


def _most_moved_of_set(problem: Problem, away: Mask) -> int:
    members = problem.group_sets.members
    group_set = members.owners
    moved = np.bincount(group_set, weights=away[members.items], minlength=1)
    return int(moved.max(initial=0))


@dataclass(frozen=True, slots=True)
class Incumbent:
    """Best feasible assignment that a search has found so far.

    Attributes:
        assignment: Node of each group; shape (G,).
        cost: Total cost.
    """

    assignment: Indices
    cost: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """An assignment with its evaluation.

    Attributes:
        assignment: Node of each group; shape (G,).
        terms: Value of each cost.
        feasible: True if no constraint is violated.
        bound: Lower bound of the imbalance distance of assignments that use as much of
            the budgets; None if it was not requested.
    """

    assignment: Indices
    terms: CostBreakdown
    feasible: bool
    bound: float | None = None

    @property
    def cost(self) -> float:
        """Total cost."""
        return self.terms.total


def evaluate(problem: Problem, assignment: Indices) -> Solution:
    """Return *assignment* with its cost and feasibility, without a bound."""
    return Solution(
        assignment=assignment,
        terms=cost_breakdown(problem, assignment),
        feasible=not infeasibilities(problem, assignment),
    )
