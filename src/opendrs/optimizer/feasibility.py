"""Loads, use of budgets and feasibility of an assignment, computed from scratch."""

from __future__ import annotations

import numpy as np

from opendrs.optimizer.problem import Floats, IndexLists, Indices, Mask, Problem
from opendrs.optimizer.problem_arrays import CAPACITY_SLACK

FEASIBILITY_SLACK = 1e-9  # relative slack for rounding in sums

# Use of a budget, relative to its limit, above which it binds: a search without regard
# to it is likely to exceed it.
BINDING_USE = 0.7


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


def budget_use(problem: Problem, assignment: Indices) -> Floats:
    """Return the use of each budget by the displaced groups; shape (B,)."""
    away = assignment != problem.origin
    used: Floats = problem.budget_weights[:, away].sum(axis=1)
    return used


def binding_budgets(problem: Problem, assignment: Indices) -> Mask:
    """Return the budgets of which *assignment* uses more than BINDING_USE; (B,)."""
    binding: Mask = budget_use(problem, assignment) > BINDING_USE * problem.budgets
    return binding


def most_moves(problem: Problem, assignment: Indices) -> int:
    """Return the largest use of a budget that counts moves; 0 without such a budget."""
    used = budget_use(problem, assignment)[problem.counts_moves]
    return int(used.max(initial=0))


def allows_moves(problem: Problem) -> bool:
    """Return True if there is a second node, and a group whose move all budgets allow.

    Constraints other than budgets are ignored.
    """
    budgets = problem.budgets + CAPACITY_SLACK * np.abs(problem.budgets)
    affordable = (problem.budget_weights <= budgets[:, None]).all(axis=0)
    return problem.node_count > 1 and bool(affordable.any())


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


def _set_infeasibilities(
    problem: Problem, assignment: Indices, away: Mask
) -> list[str]:
    group_sets, messages = problem.group_sets, []
    shares = _sets_sharing_nodes(problem, assignment, away)
    narrow = _location_counts(problem, assignment) < group_sets.spread
    has_needs = np.diff(group_sets.needs.start) > 0
    for k in _true_indices(shares | narrow | has_needs):
        if shares[k]:
            messages.append(f"set {k}: groups share a node")
        if narrow[k]:
            messages.append(f"set {k}: too few locations")
        messages += _missing_neighbors(problem, assignment, group_sets.members, k)
    return messages


def _sets_sharing_nodes(problem: Problem, assignment: Indices, away: Mask) -> Mask:
    """Return the strict sets in which a group that moved shares its node; (K,)."""
    group_sets = problem.group_sets
    owner, members = group_sets.members.owners, group_sets.members.items
    place = owner * problem.node_count + assignment[members]
    _, inverse, count = np.unique(place, return_inverse=True, return_counts=True)
    sharing = away[members] & (count[inverse] > 1)
    found: Mask = np.bincount(owner[sharing], minlength=len(group_sets)) > 0
    return found & group_sets.strict


def _location_counts(problem: Problem, assignment: Indices) -> Indices:
    """Return the number of locations of each set; shape (K,)."""
    members = problem.group_sets.members
    location = problem.location[assignment[members.items]]
    width = int(problem.location.max(initial=0)) + 1
    distinct = np.unique(members.owners * width + location)
    return np.bincount(distinct // width, minlength=len(members))


def _missing_neighbors(
    problem: Problem, assignment: Indices, members: IndexLists, group_set: int
) -> list[str]:
    near = problem.neighborhood[assignment]
    return [
        f"set {group_set}: in a neighborhood without set {other}, which it needs"
        for other in problem.group_sets.needs[group_set]
        if not np.isin(near[members[group_set]], near[members[other]]).all()
    ]
