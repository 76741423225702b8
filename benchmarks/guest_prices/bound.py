"""The bound, with a price for each guest, of what both squares come to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from guest_prices.choices import Choices
from guest_prices.cluster import Cluster
from guest_prices.prices import Prices
from guest_prices.volume import Space, ascended
from opendrs.policies.optimising.decomposition.ground import PLANE
from opendrs.policies.optimising.groups import Floats


@dataclass(frozen=True, slots=True)
class _Found:
    """Prices that were good before.

    Attributes:
        direction: The weights of both squares; shape (2,).
        prices: The prices, in a row.
        ideal: The shares that are best for all nodes at these; shape (2,).
    """

    direction: Floats
    prices: Floats
    ideal: Floats


class Bounds:
    """The bounds that are found one after another, each from what is known by then.

    Args:
        cluster: The nodes, and who may move within which budgets.
        looks: How many prices are tried for each, at most.
    """

    def __init__(self, cluster: Cluster, looks: int) -> None:
        self._cluster = cluster
        self._looks = looks
        self._known: list[_Found] = []

    def least(self, direction: Floats, means: Floats, load_prices: Floats) -> float:
        """Return what the squares, weighted, come to at least.

        Args:
            direction: The weights of both squares; its length is 1. Shape (2,).
            means: Between what the mean of the shares is: the least and the most,
                (2, 2). Only plans for which that holds are looked at.
            load_prices: Where nothing is known yet, the prices to begin with: those
                that `opendrs.policies.optimising.decomposition` found.
        """
        cluster = self._cluster
        choices = Choices(cluster, direction, means)
        if self._known:
            like = max(self._known, key=lambda each: each.direction @ direction)
            start = like.prices.copy()
            start[-PLANE:] = choices.mean_prices(like.ideal)
        else:
            start = choices.settled(self._from_load(load_prices)).flat
        positive = np.zeros(len(start), np.bool_)
        positive[len(cluster.origin) : -PLANE] = True
        space = Space(cluster.scale, positive)
        least, prices = ascended(choices.at, start, space, self._looks)
        ideal = choices.ideal(prices[-PLANE:])
        self._known.append(_Found(direction, prices, ideal))
        return least

    def _from_load(self, flat: Floats) -> Prices:
        """Return prices of guests by what they take."""
        cluster = self._cluster
        load = np.abs(cluster.share * cluster.capacity).mean(axis=0)
        unit = np.where(load > 0, load, 1.0)
        budgets, mean = flat[: len(cluster.budgets)], flat[-PLANE:]
        arrival, price = flat[len(budgets)], flat[-2 * PLANE : -PLANE]
        return Prices(arrival + cluster.demand / unit @ price, budgets, mean)
