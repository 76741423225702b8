"""Cost of nodes at given loads, marginal values of moves, least loaded nodes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opendrs.optimizer.feasibility import loads
from opendrs.optimizer.problem import Floats, Indices, Problem


def loss_of_return(
    problem: Problem, assignment: Indices, groups: Sequence[int]
) -> Floats:
    """Return the loss if each of *groups* alone returned to its origin.

    Costs of sharing nodes are ignored.
    """
    chosen = np.array(groups, np.int64)
    here, home = assignment[chosen], problem.origin[chosen]
    load = loads(problem, assignment)
    demand = problem.demand[chosen]
    loss = node_costs(problem, load[home] + demand, home)
    loss += node_costs(problem, load[here] - demand, here)
    loss -= node_costs(problem, load[home], home)
    loss -= node_costs(problem, load[here], here)
    if problem.placement_cost is not None:
        classes = problem.class_of[chosen]
        loss += (
            problem.placement_cost[classes, home]
            - problem.placement_cost[classes, here]
        )
    return np.where(here == home, 0.0, loss)


def departure_gains(
    problem: Problem, assignment: Indices, load: Floats, targets: Indices
) -> Floats:
    """Return the approximate gain of moving each group away; shape (G,).

    The target is the best of *targets* that the placement class allows. All node costs
    of the origin count, and of the target only the imbalance cost. The gain is -inf for
    displaced groups and for groups without a target.
    """
    home = problem.origin
    gain = node_costs(problem, load, np.arange(problem.node_count))[home]
    gain -= node_costs(problem, load[home] - problem.demand, home)
    # (x + d)^2 - x^2 = d^2 + 2 d x, with x the deviation from the target load.
    slope = imbalance_curvature(problem)[targets]
    away = load[targets] - problem.target_load * problem.capacity[targets]
    arrival_cost = np.square(problem.demand) @ slope.T
    arrival_cost += 2 * problem.demand @ (slope * away).T
    closed = ~problem.allowed[:, targets][problem.class_of]
    closed |= home[:, None] == targets
    arrival_cost[closed] = np.inf
    gain -= arrival_cost.min(axis=1, initial=np.inf)
    return np.where(assignment == home, gain, -np.inf)


def imbalance_curvature(problem: Problem) -> Floats:
    """Return the cost of the squared deviation from the target; (N, R).

    It is 0 for nodes without capacity of a resource, which do not count for balance.
    """
    squared = np.square(problem.capacity)
    curvature: Floats = np.zeros_like(squared)
    np.divide(problem.imbalance_weight, squared, out=curvature, where=squared > 0)
    return curvature


def node_costs(problem: Problem, load: Floats, nodes: Indices) -> Floats:
    """Return the cost of *nodes* at *load*: overload, excess and imbalance."""
    capacity = problem.capacity[nodes]
    over = np.maximum(load - capacity, 0) * problem.overload_weight
    excess = (
        np.maximum(load - problem.safety_capacity[nodes], 0)
        * problem.excess_weight[nodes]
    )
    total: Floats = (over + excess).sum(axis=1) + _imbalance_cost(
        problem, load, capacity
    )
    return total


def imbalance_distance(problem: Problem, load: Floats) -> float:
    """Return the distance from the balanced load: root of the imbalance cost."""
    return float(_imbalance_cost(problem, load, problem.capacity).sum() ** 0.5)


def _imbalance_cost(problem: Problem, load: Floats, capacity: Floats) -> Floats:
    """Return the imbalance cost of nodes with these loads and capacities."""
    away = (
        np.divide(load, capacity, out=np.zeros_like(load), where=capacity > 0)
        - problem.target_load
    )
    total: Floats = (away**2 * problem.imbalance_weight).sum(axis=1)
    return total


class NodeCostTable:
    """Cost of nodes as a function of their load.

    It consists of the squared deviation from the target load, and the load above priced
    levels. Resources without cost are omitted.

    Attributes:
        balanced_resources: Resources that count for balance; shape (E,).
        curvature: Cost of the squared deviation from the target load; shape (N, E).
        target_load: Target load, as an amount; shape (N, E).
    """

    def __init__(self, problem: Problem) -> None:
        self.balanced_resources = np.flatnonzero(problem.imbalance_weight)
        self.curvature = imbalance_curvature(problem)[:, self.balanced_resources]
        self.target_load = (problem.target_load * problem.capacity)[
            :, self.balanced_resources
        ]
        prices = np.broadcast_to(problem.overload_weight, problem.capacity.shape)
        prices = np.hstack([prices, problem.excess_weight])
        levels = np.hstack([problem.capacity, problem.safety_capacity])
        priced = np.flatnonzero(prices.any(axis=0))
        # Squared deviations come first, then amounts that count only if positive.
        self._resource_of = np.hstack(
            [self.balanced_resources, priced % max(problem.resource_count, 1)]
        )
        self._levels = np.hstack([self.target_load, levels[:, priced]])
        self._prices = np.hstack([self.curvature, prices[:, priced]])
        deltas = np.stack([problem.demand.T, -problem.demand.T], axis=1)
        self._group_deltas = deltas[self._resource_of][:, None]

    def cost(self, load: Floats, nodes: Indices) -> Floats:
        """Return the cost of each of *nodes* at *load*, of shape (n, R)."""
        return self._cost(self._excess(load, nodes), self._prices[nodes].T)

    def cost_with_each_group(self, load: Floats, nodes: Indices) -> Floats:
        """Return the cost with each group added, and with each removed.

        The shape is (n, 2, G).
        """
        excess = self._excess(load, nodes)[:, :, None, None] + self._group_deltas
        return self._cost(excess, self._prices[nodes].T[:, :, None, None])

    def _excess(self, load: Floats, nodes: Indices) -> Floats:
        """Return the deviation of *load* from targets, and its excess of levels."""
        excess: Floats = (load[:, self._resource_of] - self._levels[nodes]).T
        return excess

    def _cost(self, excess: Floats, prices: Floats) -> Floats:
        """Return the cost; *excess* is overwritten."""
        off, over = (
            excess[: len(self.balanced_resources)],
            excess[len(self.balanced_resources) :],
        )
        np.square(off, out=off)
        np.maximum(over, 0.0, out=over)
        excess *= prices
        cost: Floats = excess.sum(axis=0)
        return cost


def least_loaded_nodes(problem: Problem, load: Floats, count: int) -> Indices:
    """Return the *count* least loaded nodes, by each resource and by all.

    Only resources that count for balance are used, or all resources if none does. In a
    cluster of at most twice *count* nodes all nodes are returned.

    Args:
        problem: Problem with the nodes.
        load: Load of each node; shape (N, R).
        count: Number of nodes per criterion.
    """
    if problem.node_count <= 2 * count:
        return np.arange(problem.node_count)
    balanced = np.flatnonzero(problem.imbalance_weight)
    if not len(balanced):
        balanced = np.arange(problem.resource_count)
    target = np.maximum(problem.target_load[balanced], np.finfo(float).tiny)
    capacity = problem.capacity[:, balanced]
    full = np.full_like(capacity, np.inf)  # value for nodes without capacity

    relative_load = (
        np.divide(load[:, balanced], capacity, out=full, where=capacity > 0) / target
    )
    orders = [relative_load.sum(axis=1), *relative_load.T]
    lowest = [np.argpartition(order, count)[:count] for order in orders]
    return np.unique(np.concatenate(lowest))
