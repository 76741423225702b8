"""Prices of guests, and the choices of all nodes at given prices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from opendrs.optimizer import Floats, Indices, Mask, Problem, loads
from opendrs.optimizer.bounds.lagrangian.data import DIMENSIONS
from runners.guest_prices.node_choice import NodeProblem, best_choice, compiled


@dataclass(frozen=True, slots=True)
class GuestPrices:
    """Lagrange multipliers of the coupling constraints.

    Attributes:
        guests: Price of each guest, paid by the node where it arrives to the one that
            it leaves.
        budgets: Price of the use of each budget; not negative.
        mean: Price of the mean used fraction; shape (2,).
    """

    guests: Floats
    budgets: Floats
    mean: Floats

    @classmethod
    def of(cls, flat: Floats, budgets: int) -> GuestPrices:
        """Return the prices in a vector: guests, budgets, mean."""
        return cls(
            flat[: -DIMENSIONS - budgets],
            flat[-DIMENSIONS - budgets : -DIMENSIONS],
            flat[-DIMENSIONS:],
        )

    @property
    def flat(self) -> Floats:
        """Prices in one vector."""
        return np.concatenate([self.guests, self.budgets, self.mean])


@dataclass(frozen=True, slots=True)
class RelaxedCluster:
    """Nodes, all of them allowed, and movable guests.

    Attributes:
        capacity: Capacity of each node; shape (N, 2).
        share: Used fraction of the capacity; shape (N, 2).
        demand: Demand of each guest; shape (G, 2).
        origin: Node of each guest; shape (G,).
        measures: Use of each budget by each guest; shape (B, G).
        budgets: Limit of each budget; shape (B,).
    """

    capacity: Floats
    share: Floats
    demand: Floats
    origin: Indices
    measures: Floats
    budgets: Floats

    @classmethod
    def of(cls, problem: Problem) -> RelaxedCluster:
        """Return the relaxation of *problem*."""
        free: Mask = np.any(problem.allowed, axis=1)[problem.class_of]
        return cls(
            capacity=problem.capacity,
            share=loads(problem, problem.origin) / problem.capacity,
            demand=problem.demand[free],
            origin=problem.origin[free],
            measures=problem.budget_weights[:, free],
            budgets=problem.budgets,
        )

    @property
    def scale(self) -> Floats:
        """Relative distance of prices to the best; shape (G + B + 2,)."""
        most = np.abs(self.measures).max(axis=1, initial=0.0)
        used = np.sqrt(np.maximum(np.abs(self.budgets), most) * most)
        budgets = np.divide(1.0, used, out=np.zeros_like(used), where=used > 0)
        nodes = np.full(DIMENSIONS, float(len(self.share)))
        return np.concatenate([np.ones(len(self.origin)), budgets, nodes])


ROUNDING = 1e-12  # Rounding error of the sums, subtracted to keep the bound valid.
# branches per node that are evaluated; the rest count as their bounds
BRANCHES = 500_000


class Choices:
    """Choices of all nodes at given prices.

    Args:
        cluster: Nodes and movable guests.
        direction: Weight of the square of each variation; shape (2,).
        means: Lower and upper limit of the mean used fraction; shape (2, 2). Only loads
            within these limits are considered.
    """

    def __init__(
        self, cluster: RelaxedCluster, direction: Floats, means: Floats
    ) -> None:
        low, high = means
        nodes = len(cluster.share)
        self._cluster = cluster
        self._means = means
        self._weight = direction / (nodes * np.square(high))
        self._target = (low + high) / 2
        self._loss = float(direction @ np.square((high - low) / 2 / high))
        self._tangents = np.zeros((nodes, DIMENSIONS))
        self._chosen = np.zeros((nodes, len(cluster.demand)), np.bool_)

    def ideal(self, mean: Floats) -> Floats:
        """Return the used fractions that are best for nodes at prices of the *mean*."""
        best: Floats = self._target - mean / (2 * self._weight * len(self._tangents))
        return best

    def mean_prices(self, ideal: Floats) -> Floats:
        """Return the prices of the mean at which these fractions are best."""
        off = self._target - ideal
        prices: Floats = off * (2 * self._weight * len(self._tangents))
        return prices

    def at(self, flat: Floats, branches: int = BRANCHES) -> tuple[float, Floats]:
        """Return the bound of the weighted squares, and its supergradient.

        Args:
            flat: Prices in one vector.
            branches: Most branches to evaluate per node.
        """
        cluster = self._cluster
        prices = GuestPrices.of(flat, len(cluster.budgets))
        nodes, root = len(cluster.share), np.sqrt(self._weight)
        fees = prices.budgets @ cluster.measures - prices.guests
        ideal = self.ideal(prices.mean)
        offsets = (ideal - cluster.share) * root
        problems = NodeProblems(
            offsets,
            root / cluster.capacity,
            cluster.demand,
            cluster.origin,
            np.stack([prices.guests, fees]),
        )
        costs = best_choices(problems, self._tangents, self._chosen, branches)
        constant = nodes * self._weight * (np.square(self._target) - np.square(ideal))
        means = np.where(prices.mean > 0, self._means[1], self._means[0])
        value = costs.sum() + constant.sum() - self._loss
        value -= prices.budgets @ cluster.budgets + prices.mean @ means
        added = nodes * (np.abs(fees).sum() + np.abs(prices.guests).sum())
        added += np.square(offsets).sum() + np.abs(constant).sum()
        return float(value - ROUNDING * added), self._slope(means)

    def stabilize(self, prices: GuestPrices) -> GuestPrices:
        """Return *prices* with a margin for guests that stay anyway.

        If every node would pay less for a guest than its own node asks, its price is
        set halfway between.
        """
        cluster = self._cluster
        self.at(prices.flat, branches=0)
        nodes, guests = self._chosen.shape
        value = 2 * self._tangents * np.sqrt(self._weight) / cluster.capacity
        value_at_node = value @ cluster.demand.T
        source_value = value_at_node[cluster.origin, np.arange(guests)]
        source_value = source_value + prices.budgets @ cluster.measures
        value_at_node[cluster.origin, np.arange(guests)] = -np.inf
        most = value_at_node.max(axis=0) if nodes > 1 else source_value - 1
        halfway = np.where(
            most < source_value, (most + source_value) / 2, prices.guests
        )
        return GuestPrices(halfway, prices.budgets, prices.mean)

    def _slope(self, means: Floats) -> Floats:
        cluster, chosen = self._cluster, self._chosen
        guests = np.arange(len(cluster.origin))
        left = chosen[cluster.origin, guests]
        change = np.where(np.arange(len(chosen))[:, None] == cluster.origin, -1.0, 1.0)
        change *= chosen
        share = cluster.share + change @ cluster.demand / cluster.capacity
        return np.concatenate(
            [
                change.sum(axis=0),
                cluster.measures @ left - cluster.budgets,
                share.mean(axis=0) - means,
            ]
        )


class NodeProblems(NamedTuple):
    """Choices of all nodes.

    Attributes:
        offsets: Scaled distance from the load of each node to its ideal; shape (N, 2).
        scale: Scale of each node; shape (N, 2).
        demand: Demand of each guest; shape (G, 2).
        origin: Node of each guest; shape (G,).
        costs: Cost of arrival and of departure of each guest; shape (2, G).
    """

    offsets: Floats
    scale: Floats
    demand: Floats
    origin: Indices
    costs: Floats


@compiled
def best_choices(
    problems: NodeProblems, tangents: Floats, chosen: Mask, branches: int
) -> Floats:
    """Return a lower bound of the cost of each node; shape (N,).

    Args:
        problems: Choices of all nodes.
        tangents: Best tangent of each node, which is also the start; shape (N, 2).
        chosen: Output: departures and arrivals of each node; shape (N, G).
        branches: Most branches to evaluate per node.
    """
    least = np.empty(len(problems.offsets))
    for node in range(len(least)):
        own = problems.origin == node
        sign = np.where(own, -1.0, 1.0).reshape(-1, 1)
        problem = NodeProblem(
            problems.offsets[node],
            problems.demand * problems.scale[node] * sign,
            np.where(own, problems.costs[1], problems.costs[0]),
        )
        least[node] = best_choice(problem, tangents[node], chosen[node], branches)
    return least
