"""What an assignment costs, and whether it may be: the definition over columns.

The searching keeps these sums up to date move by move; this says what they are.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from opendrs.policies.optimising.groups import Floats, Indices, Lists, Mask
from opendrs.policies.optimising.problem import Problem

SLACK = 1e-9  # rounding allowed for where sums are held against capacities


@dataclass(frozen=True, slots=True, kw_only=True)
class CostParts:
    """What each part of the cost comes to; the names are those of `Problem`."""

    overload: float
    excess: float
    even: float
    balance: float
    use: float
    place: float
    apart: float
    move: float
    pair: float
    group_move: float

    @property
    def total(self) -> float:
        """The cost."""
        return float(sum(getattr(self, part.name) for part in fields(self)))


def loads(problem: Problem, assignment: Indices) -> Floats:
    """Return the load of each node; shape (N, R)."""
    load = problem.base.copy()
    np.add.at(load, assignment, problem.demand)
    return load


def left_behind(problem: Problem, assignment: Indices) -> Floats:
    """Return what each node holds of units that have left it; shape (N, R)."""
    held = np.zeros_like(problem.base)
    away = assignment != problem.origin
    left = np.where(problem.transient, problem.demand[away], 0.0)
    np.add.at(held, problem.origin[away], left)
    return held


def cost_parts(problem: Problem, assignment: Indices) -> CostParts:
    """Return what each part of the cost of *assignment* comes to."""
    load = loads(problem, assignment)
    away = assignment != problem.origin
    used = np.bincount(assignment, minlength=problem.nodes) > 0
    over = np.maximum(load - problem.capacity, 0)
    excess = np.maximum(load - problem.safety, 0)
    place = pair = 0.0
    if problem.place_cost is not None:
        place = float(problem.place_cost[problem.class_of, assignment].sum())
    if problem.pair_cost is not None:
        pair = float(problem.pair_cost[problem.origin[away], assignment[away]].sum())
    return CostParts(
        overload=float((over.sum(axis=0) * problem.overload_weight).sum()),
        excess=float((excess * problem.excess_weight).sum()),
        even=_evenness(problem, load),
        balance=_balance(problem, load),
        use=float(problem.use_cost[used].sum()),
        place=place,
        apart=float(_sharing(problem, assignment) @ problem.groups.apart_weight),
        move=float(problem.move_cost[away].sum()),
        pair=pair,
        group_move=problem.group_move_weight * _most_moved(problem, away),
    )


def cost(problem: Problem, assignment: Indices) -> float:
    """Return what *assignment* costs."""
    return cost_parts(problem, assignment).total


def faults(problem: Problem, assignment: Indices) -> list[str]:
    """Return why *assignment* is not feasible; nothing if it is."""
    held = loads(problem, assignment) + left_behind(problem, assignment)
    away = assignment != problem.origin
    full = (held > problem.capacity + SLACK * np.abs(problem.capacity)).any(axis=1)
    receives = np.bincount(assignment[away], minlength=problem.nodes) > 0
    may = problem.allowed[problem.class_of, assignment] | ~away
    moved = problem.measures @ away
    return [
        *(f"node {n} takes in units and is full" for n in _where(full & receives)),
        *(f"unit {g} may not be on node {assignment[g]}" for g in _where(~may)),
        *_group_faults(problem, assignment, away),
        *(
            f"budget {b} is exceeded: {moved[b]:g} of {problem.budgets[b]:g}"
            for b in _where(moved > problem.budgets * (1 + SLACK))
        ),
    ]


def _where(mask: Mask) -> list[int]:
    return [int(index) for index in np.flatnonzero(mask)]


def _evenness(problem: Problem, load: Floats) -> float:
    if not problem.even_weight.any():
        return 0.0
    distance = load / problem.capacity - problem.even_target
    return float((distance**2 * problem.even_weight).sum())


def _balance(problem: Problem, load: Floats) -> float:
    free = problem.capacity - load
    return sum(
        each.weight
        * float(
            np.maximum(
                each.target * free[:, each.first] - free[:, each.second], 0
            ).sum()
        )
        for each in problem.balances
    )


def _sharing(problem: Problem, assignment: Indices) -> Floats:
    """Return how many units of each group share a node with an earlier one."""
    members = problem.groups.members
    size = np.diff(members.start)
    group = np.repeat(np.arange(len(members)), size)
    places = np.unique(group * problem.nodes + assignment[members.items])
    distinct = np.bincount(places // problem.nodes, minlength=len(members))
    return (size - distinct).astype(np.float64)


def _most_moved(problem: Problem, away: Mask) -> int:
    members = problem.groups.members
    group = np.repeat(np.arange(len(members)), np.diff(members.start))
    moved = np.bincount(group, weights=away[members.items], minlength=1)
    return int(moved.max(initial=0))


def _group_faults(problem: Problem, assignment: Indices, away: Mask) -> list[str]:
    groups, found = problem.groups, []
    for k in range(len(groups)):
        members: Indices = groups.members[k]
        places = assignment[members]
        if groups.strict[k] and _crowded(places, away[members]):
            found.append(f"units of group {k} share a node")
        if len(np.unique(problem.location[places])) < groups.spread[k]:
            found.append(f"group {k} stands in too few locations")
        found += _missing(problem, assignment, groups.members, k)
    return found


def _crowded(places: Indices, away: Mask) -> bool:
    """Return whether a unit that moved shares its node with another."""
    _, inverse, count = np.unique(places, return_inverse=True, return_counts=True)
    return bool((away & (count[inverse] > 1)).any())


def _missing(
    problem: Problem, assignment: Indices, members: Lists, group: int
) -> list[str]:
    near = problem.neighbourhood[assignment]
    return [
        f"group {group} stands where group {other} does not"
        for other in problem.groups.needs[group]
        if not np.isin(near[members[group]], near[members[other]]).all()
    ]
