"""Lower bound of the imbalance distance, by the bound that suits the problem.

The polytope bound divides groups; it is close if the budgets limit amounts. With many
nodes, the pooled bound replaces it. The Lagrangian bound moves whole groups; it is
better if few moves are allowed. With few groups and nodes, all placements are compared.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from opendrs.optimizer.bounds.lagrangian.data import DIMENSIONS
from opendrs.optimizer.bounds.lagrangian.dual import lagrangian_bound
from opendrs.optimizer.bounds.polytope import nearest_point
from opendrs.optimizer.bounds.pooled_loads import pooled_bound
from opendrs.optimizer.bounds.whole_groups import whole_group_bound
from opendrs.optimizer.feasibility import binding_budgets, budget_use
from opendrs.optimizer.problem import Floats, Indices, Problem, select_budgets
from opendrs.optimizer.search.local_search import is_small

# Most vertices for the polytope bound, and if few moves are allowed, so that it is
# loose anyway.
VERTICES, VERTICES_FEW_MOVES = 200, 50
PRECISION = 0.002  # accepted gap of the polytope bound, relative to the distance
# Most nodes for the polytope bound; with more, too many vertices are necessary.
MAX_POLYTOPE_NODES = 150
WIDE_CLASS_SHARE = 0.9  # fraction of the groups that counts as most
CORRELATED = 0.5  # correlation of the demands from which the Lagrangian bound is better


def lower_bound(
    problem: Problem, assignment: Indices, use: Floats | None = None
) -> float:
    """Return a lower bound of the imbalance distance of other assignments.

    It holds for assignments that use at most as much of the limited budgets as
    *assignment*; without a limited budget, of the first one. If all placements can be
    compared, it is the least distance of one of them. Otherwise the Lagrangian bound is
    computed if a budget of moves binds. It is used alone if it is likely to be the
    larger one.

    Args:
        problem: The problem.
        assignment: Node of each group; shape (G,).
        use: What other assignments may use of each budget, at least as much as
            *assignment*; its use if None; shape (B,).
    """
    used_budgets = budget_use(problem, assignment) if use is None else use
    limited = np.flatnonzero(np.isfinite(problem.budgets))
    rows = limited if len(limited) else np.arange(min(1, len(problem.budgets)))
    used = replace(problem, budgets=used_budgets)
    least = whole_group_bound(select_budgets(used, rows))
    if least is not None:
        return least
    few = bool((binding_budgets(problem, assignment) & problem.counts_moves).any())
    whole = lagrangian_bound(select_budgets(used, rows)) if few else 0.0
    if whole and _prefers_lagrangian_bound(problem):
        return whole
    if problem.node_count > MAX_POLYTOPE_NODES:
        return max(whole, pooled_bound(select_budgets(used, rows), assignment))
    vertices = VERTICES_FEW_MOVES if few else VERTICES
    divided = nearest_point(
        select_budgets(used, rows[:1]), vertices, PRECISION, assignment
    )
    return max(whole, divided.bound)


def _prefers_lagrangian_bound(problem: Problem) -> bool:
    """Return True if the Lagrangian bound is likely to exceed the polytope bound.

    This is so if most groups may run anywhere and the demands of resources are
    correlated. It is not with further resources, which it leaves out.
    """
    wide = (problem.allowed == problem.allowed.any(axis=0)).all(axis=1)
    balanced = problem.imbalance_weight > 0
    if balanced.sum() > DIMENSIONS:
        return False
    taken = problem.demand[:, balanced]
    beside = taken - taken.mean(axis=0)
    alike = CORRELATED * np.sqrt(np.square(beside).sum(axis=0).prod())
    return (
        not is_small(problem)
        and bool(wide[problem.class_of].mean() > WIDE_CLASS_SHARE)
        and bool(beside.prod(axis=1).sum() > alike)
    )
