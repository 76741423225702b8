"""What the choices of all nodes come to at given prices."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from guest_prices.choice import best_choice
from guest_prices.cluster import Cluster
from guest_prices.compiled import compiled
from guest_prices.prices import Prices
from guest_prices.tangent import Task
from opendrs.policies.optimising.decomposition.ground import PLANE
from opendrs.policies.optimising.groups import Floats, Indices, Mask

ROUNDING = 1e-12  # of all that is added up, so much may be lost; so it stays a bound
BRANCHES = 500_000  # that are looked at for each node; the rest count as bounds


class Choices:
    """The choices of all nodes at given prices.

    Args:
        cluster: The nodes, and who may move.
        direction: The weight of the square of each variation; shape (2,).
        means: Between what the mean of the shares is: the least and the most, (2, 2).
            Only loads for which that holds are looked at.
    """

    def __init__(self, cluster: Cluster, direction: Floats, means: Floats) -> None:
        low, high = means
        nodes = len(cluster.share)
        self._cluster = cluster
        self._means = means
        self._weight = direction / (nodes * np.square(high))
        self._target = (low + high) / 2
        self._loss = float(direction @ np.square((high - low) / 2 / high))
        self._tangents = np.zeros((nodes, PLANE))
        self._chosen = np.zeros((nodes, len(cluster.demand)), np.bool_)

    def ideal(self, mean: Floats) -> Floats:
        """Return the shares that are best for all nodes at prices of the *mean*."""
        best: Floats = self._target - mean / (2 * self._weight * len(self._tangents))
        return best

    def mean_prices(self, ideal: Floats) -> Floats:
        """Return the prices of the mean at which these shares are best."""
        off = self._target - ideal
        prices: Floats = off * (2 * self._weight * len(self._tangents))
        return prices

    def at(self, flat: Floats, branches: int = BRANCHES) -> tuple[float, Floats]:
        """Return the bound of what both squares come to, and its supergradient.

        Args:
            flat: The prices in a row.
            branches: That are looked at for each node, at most.
        """
        cluster = self._cluster
        prices = Prices.of(flat, len(cluster.budgets))
        nodes, root = len(cluster.share), np.sqrt(self._weight)
        fees = prices.budgets @ cluster.measures - prices.guests
        ideal = self.ideal(prices.mean)
        ways = (ideal - cluster.share) * root
        offer = Offer(
            ways,
            root / cluster.capacity,
            cluster.demand,
            cluster.origin,
            np.stack([prices.guests, fees]),
        )
        costs = best_choices(offer, self._tangents, self._chosen, branches)
        anyway = nodes * self._weight * (np.square(self._target) - np.square(ideal))
        means = np.where(prices.mean > 0, self._means[1], self._means[0])
        value = costs.sum() + anyway.sum() - self._loss
        value -= prices.budgets @ cluster.budgets + prices.mean @ means
        added = nodes * (np.abs(fees).sum() + np.abs(prices.guests).sum())
        added += np.square(ways).sum() + np.abs(anyway).sum()
        return float(value - ROUNDING * added), self._slope(means)

    def settled(self, prices: Prices) -> Prices:
        """Return *prices* at which nobody moves who stays anyway, by some distance.

        A guest for whom all nodes would pay less than the one where it is asks for gets
        the price halfway between.
        """
        cluster = self._cluster
        self.at(prices.flat, branches=0)
        nodes, guests = self._chosen.shape
        value = 2 * self._tangents * np.sqrt(self._weight) / cluster.capacity
        paid = value @ cluster.demand.T
        asked = paid[cluster.origin, np.arange(guests)]
        asked = asked + prices.budgets @ cluster.measures
        paid[cluster.origin, np.arange(guests)] = -np.inf
        most = paid.max(axis=0) if nodes > 1 else asked - 1
        halfway = np.where(most < asked, (most + asked) / 2, prices.guests)
        return Prices(halfway, prices.budgets, prices.mean)

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


class Offer(NamedTuple):
    """What all nodes choose among.

    Attributes:
        ways: From the load of each node to its best, scaled; shape (N, 2).
        scale: Of each node; shape (N, 2).
        demand: What each guest takes; shape (G, 2).
        origin: Where it is; shape (G,).
        costs: Those of its arrival, and those of its leaving; shape (2, G).
    """

    ways: Floats
    scale: Floats
    demand: Floats
    origin: Indices
    costs: Floats


@compiled
def best_choices(offer: Offer, tangents: Floats, chosen: Mask, branches: int) -> Floats:
    """Return what no choice of each node costs less than; shape (N,).

    Args:
        offer: What they choose among.
        tangents: The highest of each node; shape (N, 2). It begins with them.
        chosen: Is filled with the choices: who leaves or arrives; shape (N, G).
        branches: That are looked at for each node, at most.
    """
    least = np.empty(len(offer.ways))
    for node in range(len(least)):
        own = offer.origin == node
        sign = np.where(own, -1.0, 1.0).reshape(-1, 1)
        task = Task(
            offer.ways[node],
            offer.demand * offer.scale[node] * sign,
            np.where(own, offer.costs[1], offer.costs[0]),
        )
        least[node] = best_choice(task, tangents[node], chosen[node], branches)
    return least
