"""Lower bound of the imbalance distance by all placements of whole groups.

The loads of a placement are the sum of those of two halves of the groups. Each half has
so few placements that all sums of two can be compared. Capacities, rules and the order
of moves are ignored, the budgets are not.

Source:
    Horowitz and Sahni, Computing partitions with applications to the knapsack problem,
    Journal of the ACM 21 (1974).
"""

from __future__ import annotations

import numpy as np

from opendrs.optimizer.bounds.reachable_loads import ReachableLoads
from opendrs.optimizer.problem import Floats, Indices, Problem

MAX_PLACEMENTS = 20_000_000  # nodes to the power of the groups: 0.2 to 0.4 s
MAX_HALF_SIZE = 1_000_000  # placements of a half, times nodes
MAX_GROUPS = 200  # nodes to this power are no longer numbers
BLOCK = 1_000_000  # sums that are compared at once
ROUNDING = 1e-10  # of squared distances
BUDGET_SLACK = 1e-9  # of budgets


def whole_group_bound(problem: Problem) -> float | None:
    """Return the least distance of all placements within the budgets.

    The distance is the root of the imbalance cost. None if the placements are too many.

    Args:
        problem: Problem with groups, budgets and imbalance weights.
    """
    nodes, groups = problem.node_count, problem.group_count
    if groups > MAX_GROUPS or nodes**groups > MAX_PLACEMENTS:
        return None
    half = groups // 2
    if nodes ** (groups - half) * nodes > MAX_HALF_SIZE:
        return None
    reachable = ReachableLoads(problem)
    one = _Half(problem, reachable, np.arange(half))
    other = _Half(problem, reachable, np.arange(half, groups))
    one.position += reachable.initial.reshape(-1, 1)
    limits = problem.budgets * (1 + BUDGET_SLACK) + BUDGET_SLACK
    least = np.inf
    size = max(1, BLOCK // other.position.shape[1])
    for start in range(0, one.position.shape[1], size):
        part = slice(start, start + size)
        squares = 2 * (one.position[:, part].T @ other.position)
        squares += np.square(one.position[:, part]).sum(axis=0)[:, None]
        squares += np.square(other.position).sum(axis=0)
        for row, limit in enumerate(limits.tolist()):
            if one.use[row].max() + other.use[row].max() > limit:
                use = one.use[row, part][:, None] + other.use[row]
                squares[use > limit] = np.inf
        least = min(least, float(squares.min()))
    return float(np.sqrt(max(0.0, least - ROUNDING)))


class _Half:
    """All placements of some groups.

    Attributes:
        position: Change of the scaled deviations of the nodes; shape (N R, S).
        use: What they use of each budget; shape (B, S).
    """

    def __init__(
        self, problem: Problem, reachable: ReachableLoads, groups: Indices
    ) -> None:
        nodes, scale = problem.node_count, reachable.scale
        position, use = np.zeros((scale.size, 1)), np.zeros((len(problem.budgets), 1))
        for group in groups.tolist():
            brought, origin = scale * reachable.demand[group], problem.origin[group]
            load, every = np.zeros((nodes, *scale.shape)), np.arange(nodes)
            load[every, every] = brought
            load[:, origin] -= brought[origin]
            away = (every != origin).astype(float)
            # Placement p of the groups before, and node n of this one, is p N + n.
            position = position[:, :, None] + load.reshape(nodes, -1).T[:, None]
            position = position.reshape(scale.size, -1)
            cost = problem.budget_weights[:, group, None] * away
            use = (use[:, :, None] + cost[:, None]).reshape(len(use), position.shape[1])
        self.position: Floats = position
        self.use: Floats = use
