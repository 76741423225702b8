"""Cost of nodes at given loads, marginal values of moves, least loaded nodes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opendrs.optimizer.evaluation import loads
from opendrs.optimizer.problem import Floats, Indices, Problem


def loss_of_return(
    problem: Problem, assignment: Indices, groups: Sequence[int]
) -> Floats:
    """Return what would be lost if each of *groups* were at home, all else as it is.

    Neighbours are passed over.
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
    """Return about what each unit would gain at the best of *targets*; shape (G,).

    All that its home costs is looked at, but only the evenness of the targets, and
    whether the unit's class may go there. Units that are away gain -inf, and so do
    those that may go to none of them.
    """
    home = problem.origin
    gain = node_costs(problem, load[home], home)
    gain -= node_costs(problem, load[home] - problem.demand, home)
    # (x + d)^2 - x^2 = d^2 + 2 d x, where x is the distance from the even load.
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
    """Return what the square of load off the even load costs; shape (N, R).

    0 for nodes that have nothing of a resource, as their evenness does not count.
    """
    squared = np.square(problem.capacity)
    curvature: Floats = np.zeros_like(squared)
    np.divide(problem.imbalance_weight, squared, out=curvature, where=squared > 0)
    return curvature


def node_costs(problem: Problem, load: Floats, nodes: Indices) -> Floats:
    """Return what *nodes* cost with these loads: overload, excess and evenness."""
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
    """Return how far from even the nodes are: the root of what their evenness costs."""
    return float(_imbalance_cost(problem, load, problem.capacity).sum() ** 0.5)


def _imbalance_cost(problem: Problem, load: Floats, capacity: Floats) -> Floats:
    """Return what the evenness of nodes with these loads and capacities costs."""
    away = (
        np.divide(load, capacity, out=np.zeros_like(load), where=capacity > 0)
        - problem.target_load
    )
    total: Floats = (away**2 * problem.imbalance_weight).sum(axis=1)
    return total


class NodeCostTable:
    """What load costs: its square off the even load, and what is over some levels.

    What a resource costs nowhere is left out.

    Attributes:
        balanced_resources: The resources whose evenness counts; shape (E,).
        curvature: What the square off the even load costs; shape (N, E).
        target_load: The even load; shape (N, E).
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
        # First what is squared, then what counts only where it is more than nothing.
        self._resource_of = np.hstack(
            [self.balanced_resources, priced % max(problem.resource_count, 1)]
        )
        self._levels = np.hstack([self.target_load, levels[:, priced]])
        self._prices = np.hstack([self.curvature, prices[:, priced]])
        deltas = np.stack([problem.demand.T, -problem.demand.T], axis=1)
        self._group_deltas = deltas[self._resource_of][:, None]

    def cost(self, load: Floats, nodes: Indices) -> Floats:
        """Return what each of *nodes* costs with *load*, of shape (n, R)."""
        return self._cost(self._excess(load, nodes), self._prices[nodes].T)

    def cost_with_each_group(self, load: Floats, nodes: Indices) -> Floats:
        """Return what they cost with each unit more, and with each unit less.

        The shape is (n, 2, G).
        """
        excess = self._excess(load, nodes)[:, :, None, None] + self._group_deltas
        return self._cost(excess, self._prices[nodes].T[:, :, None, None])

    def _excess(self, load: Floats, nodes: Indices) -> Floats:
        """Return by how much *load* is off the even load, and over levels."""
        excess: Floats = (load[:, self._resource_of] - self._levels[nodes]).T
        return excess

    def _cost(self, excess: Floats, prices: Floats) -> Floats:
        """Return what that costs; *excess* is used up."""
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
    """Return the *count* nodes with least load, of each resource and of all together.

    Resources are those whose evenness counts; all, where none does. Where there are
    not many more nodes than that, all of them are returned.

    Args:
        problem: Whose nodes they are.
        load: What each of them bears; shape (N, R).
        count: How many of each kind.
    """
    if problem.node_count <= 2 * count:
        return np.arange(problem.node_count)
    balanced = np.flatnonzero(problem.imbalance_weight)
    if not len(balanced):
        balanced = np.arange(problem.resource_count)
    target = np.maximum(problem.target_load[balanced], np.finfo(float).tiny)
    capacity = problem.capacity[:, balanced]
    full = np.full_like(capacity, np.inf)  # of a node that has nothing
    relative_load = (
        np.divide(load[:, balanced], capacity, out=full, where=capacity > 0) / target
    )
    orders = [relative_load.sum(axis=1), *relative_load.T]
    lowest = [np.argpartition(order, count)[:count] for order in orders]
    return np.unique(np.concatenate(lowest))
