"""Lower bound of the imbalance of every plan, for clusters with many nodes.

Groups may be divided, as in the polytope bound. In addition, the load that leaves is
pooled: a node receives any mixture of some demands with extreme ratios of resources.
With multipliers for the pool and the budgets, the nodes are independent of each other.
Coordinate descent finds their loads, at all nodes at once, and the r-algorithm the
multipliers.

The loads only determine a direction. What every plan has at least in this direction is
then computed without pooling, so the bound holds however accurate they are.

Source:
    Geoffrion, Lagrangean relaxation for integer programming (1974).
    Wright, Coordinate descent algorithms, Mathematical Programming 151 (2015).
"""

from __future__ import annotations

import numpy as np

from opendrs.optimizer.bounds.lagrangian.dual import StopRule, maximize_concave
from opendrs.optimizer.bounds.reachable_loads import ReachableLoads
from opendrs.optimizer.problem import Floats, Indices, Mask, Problem

SWEEPS = 4  # passes of the coordinate descent at each multipliers
MAX_DEPARTURES = 128  # most groups of a node that may leave, the largest first
MAX_EVALUATIONS = 40  # most multipliers to evaluate
MIN_GAIN = 1e-3  # relative gain that ten evaluations must achieve


def pooled_bound(problem: Problem, assignment: Indices) -> float:
    """Return a lower bound of the imbalance distance within the budgets.

    Args:
        problem: Problem with groups, budgets and imbalance weights.
        assignment: Good assignment within the budgets; shape (G,).
    """
    reachable = ReachableLoads(problem)
    start = reachable.vertex(assignment).position
    found = reachable.bound(start)
    if not np.any(problem.allowed[problem.class_of]):
        return found
    loads = PooledLoads(problem, reachable, assignment)
    multipliers, scale = loads.initial_multipliers(start)
    count = len(problem.budgets)
    positive = np.arange(len(scale)) < count
    stop = StopRule(MAX_EVALUATIONS, MIN_GAIN)
    _, best = maximize_concave(loads.evaluate, multipliers, scale, positive, stop)
    loads.evaluate(best)
    return max(found, reachable.bound(loads.deviations))


class PooledLoads:
    """Loads of all nodes at given multipliers.

    Nodes are ordered by their number of groups that may leave, and groups by their rank
    on their node, so that the groups of one rank concern the first nodes.

    Args:
        problem: Problem with groups, budgets and imbalance weights.
        reachable: Its reachable loads.
        assignment: Assignment to start with; shape (G,).
    """

    def __init__(
        self, problem: Problem, reachable: ReachableLoads, assignment: Indices
    ) -> None:
        self._problem = problem
        self._reachable = reachable
        is_movable: Mask = np.any(problem.allowed, axis=1)[problem.class_of]
        movable = np.flatnonzero(is_movable)
        size = reachable.demand[movable].max(axis=1)
        largest_first = movable[np.argsort(-size, kind="stable")]
        self._nodes, self._groups, sizes = _by_rank(
            largest_first, problem.origin[largest_first], problem.node_count
        )
        # Groups of each rank, and the number of their nodes.
        ends = zip(np.cumsum(sizes).tolist(), sizes.tolist(), strict=True)
        self._ranks = [(slice(end - size, end), size) for end, size in ends]
        home = problem.origin[self._groups]
        self._scale: Floats = reachable.scale[self._nodes].T
        self._demand: Floats = reachable.demand[self._groups].T
        self._scaled = self._demand * reachable.scale[home].T
        self._curvature = _inverse(2 * np.square(self._scaled).sum(axis=0))
        self._cost: Floats = problem.budget_weights[:, self._groups]
        self._part: Floats = (assignment[self._groups] != home).astype(float)
        self._rays = _extreme_ratios(reachable.demand[movable])
        self._scaled_rays: Floats = self._rays[:, :, None] * self._scale
        receives: Mask = np.any(problem.allowed, axis=0)[self._nodes]
        self._ray_curvature = receives * _inverse(
            2 * np.square(self._scaled_rays).sum(axis=1)
        )
        self._received = np.zeros_like(self._ray_curvature)
        self._away: Floats = reachable.initial[self._nodes].T.copy()
        for rank_groups, nodes in self._ranks:
            taken = self._scaled[:, rank_groups] * self._part[rank_groups]
            self._away[:, :nodes] -= taken

    @property
    def deviations(self) -> Floats:
        """Deviations of the nodes from the balanced load, as of a vertex."""
        ordered = np.empty_like(self._away.T)
        ordered[self._nodes] = self._away.T
        return ordered.ravel()

    def initial_multipliers(self, position: Floats) -> tuple[Floats, Floats]:
        """Return multipliers that fit the deviations *position*, and their scale.

        They are the prices of the budgets, then those of the pooled load.
        """
        prices = 2 * position.reshape(-1, len(self._scale)) * self._reachable.scale
        pool = np.average(prices, axis=0, weights=self._problem.allowed.sum(axis=0))
        home = prices[self._problem.origin[self._groups]].T
        gain = ((home - pool[:, None]) * self._demand).sum(axis=0)
        limits = zip(self._cost, self._problem.budgets, strict=True)
        price = np.array([_marginal_price(gain, *each) for each in limits])
        price /= max(1, len(price))
        typical = np.abs(prices).mean(axis=0)
        return np.concatenate([price, pool]), 0.3 * np.concatenate([price, typical])

    def evaluate(self, multipliers: Floats) -> tuple[float, Floats]:
        """Return the value of the relaxation and its supergradient, approximately.

        Args:
            multipliers: Prices of the budgets, then those of the pooled load.
        """
        count = len(self._cost)
        budget_prices, pool = multipliers[:count], multipliers[count:]
        price = budget_prices @ self._cost + pool @ self._demand
        for _ in range(SWEEPS):
            self._receive(pool)
            self._send(price)
        taken: Floats = self._cost @ self._part - self._problem.budgets
        left: Floats = (
            self._demand @ self._part - self._received.sum(axis=1) @ self._rays
        )
        value = np.square(self._away).sum() + budget_prices @ taken + pool @ left
        return float(value), np.concatenate([taken, left])

    def _receive(self, pool: Floats) -> None:
        """Let the nodes receive what lowers their cost most, ray by ray."""
        for ray, scaled in enumerate(self._scaled_rays):
            slope = 2 * (self._away * scaled).sum(axis=0) - pool @ self._rays[ray]
            before = self._received[ray]
            after = np.maximum(before - slope * self._ray_curvature[ray], 0.0)
            self._away += (after - before) * scaled
            self._received[ray] = after

    def _send(self, price: Floats) -> None:
        """Let the parts of groups leave that lower the cost of their node most."""
        for groups, nodes in self._ranks:
            away, scaled = self._away[:, :nodes], self._scaled[:, groups]
            slope = price[groups] - 2 * (away * scaled).sum(axis=0)
            before = self._part[groups]
            after = np.clip(before - slope * self._curvature[groups], 0.0, 1.0)
            away -= (after - before) * scaled
            self._part[groups] = after


def _by_rank(
    groups: Indices, home: Indices, node_count: int
) -> tuple[Indices, Indices, Indices]:
    """Return nodes by their number of groups, groups by rank, and the sizes of ranks.

    The rank of a group is the number of earlier ones of its node. Within a rank, groups
    have the order of their nodes.
    """
    count = np.bincount(home, minlength=node_count)
    nodes = np.argsort(-count, kind="stable")
    place = np.argsort(nodes)[home]
    order = np.argsort(place, kind="stable")
    first = np.cumsum(count[nodes]) - count[nodes]
    rank = np.arange(len(order)) - first[place[order]]
    by_rank = np.argsort(rank, kind="stable")
    sizes = np.bincount(rank)[:MAX_DEPARTURES]
    return nodes, groups[order[by_rank]][: sizes.sum()], sizes


def _inverse(values: Floats) -> Floats:
    """Return the reciprocals, 0 for 0."""
    return np.divide(1.0, values, out=np.zeros_like(values), where=values > 0)


def _marginal_price(gain: Floats, cost: Floats, budget: float) -> float:
    """Return the gain per cost of the last item that the budget allows."""
    density = gain * _inverse(cost)
    order = np.argsort(-density)
    last = int(np.searchsorted(np.cumsum(cost[order]), budget))
    return max(0.0, float(density[order[min(last, len(order) - 1)]]))


def _extreme_ratios(demand: Floats) -> Floats:
    """Return for each resource the demand with its largest fraction; shape (R, R)."""
    fraction = demand * _inverse(demand.sum(axis=0))
    fraction *= _inverse(fraction.sum(axis=1))[:, None]
    extreme: Floats = demand[fraction.argmax(axis=0)]
    return extreme
