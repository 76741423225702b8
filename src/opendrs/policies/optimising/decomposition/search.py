"""What is best for each node at given prices.

A node chooses a set of large units that leaves, how many small ones leave besides, and
how many arrive. Where small ones leave, its load may be by as much nearer to what is
best for it as they could take with them; so what it costs is bounded from below.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from opendrs.policies.optimising.decomposition.ground import Ground
from opendrs.policies.optimising.decomposition.hull import Hulls
from opendrs.policies.optimising.decomposition.prices import Prices
from opendrs.policies.optimising.groups import Floats, Indices

FEW = 4  # arrivals that are looked at one by one
MORE = 1.5  # times as many are looked at together from there on
TINY = 1e-300  # nothing is divided by less
SURE = 1e-12  # what is not better by more than this is not better


class Yardstick:
    """How each node measures distances of loads: as what evenness costs, its root."""

    def __init__(self, ground: Ground) -> None:
        self.weight = ground.weight * np.square(ground.share)
        self.target = ground.target / ground.share
        self.scale = np.sqrt(self.weight)
        self.hulls = Hulls(ground.corners, self.scale)
        taken = ground.leaving.taken * self.scale[:, None, :]
        self.reach: Floats = np.sqrt(np.square(taken).sum(axis=2))


@dataclass(frozen=True, slots=True)
class _Small:
    """The small units that leave each node: how many, at what price, how far it goes.

    Their reach is how much nearer to any load that of the node may be without them.
    """

    gone: Indices
    price: Floats
    reach: Floats


@dataclass(frozen=True, slots=True)
class _Ends:
    """What is left after sets have left and units arrived, for each set.

    What was paid for it, the load, and its distance from what is best.
    """

    price: Floats
    load: Floats
    distance: Floats


class Search:
    """The search for what is best for each node.

    Attributes:
        cost: What its choice costs each node; shape (N,).
        load: The load that each node has in the end; shape (N, 2).
        arrived: How many units arrive; shape (N,).
    """

    def __init__(
        self, ground: Ground, yardstick: Yardstick, prices: Prices, ideal: Floats
    ) -> None:
        self._ground = ground
        self._sets = ground.leaving
        self._yardstick = yardstick
        self._prices = prices
        self._ideal = ideal
        own = self._sets.node
        away = (self._sets.left - ideal[own]) * yardstick.scale[own]
        self._alone = np.hypot(away[:, 0], away[:, 1])
        above = np.maximum(away, 0.0)
        self._above = np.hypot(above[:, 0], above[:, 1])
        self._price = prices.budgets @ self._sets.measured
        self._price -= prices.arrival * self._sets.count
        self._small_price, self._small_unit = self._cheapest_small()
        self.cost = np.full(len(ideal), np.inf)
        self._set = self._sets.first.copy()
        self._small = np.zeros(len(ideal), np.int64)
        self.arrived = np.zeros(len(ideal))
        self.load = np.zeros_like(ideal)

    @property
    def departed(self) -> Floats:
        """How many units leave each node; shape (N,)."""
        return self._sets.count[self._set] + self._small

    def measured(self) -> Floats:
        """Return what the budgets count of all who leave; shape (B,)."""
        total: Floats = self._sets.measured[:, self._set].sum(axis=1)
        some = np.flatnonzero(self._small)
        units = self._small_unit[some]
        return total + self._ground.measures[:, units] @ self._small[some]

    def run(self) -> None:
        """Find what is best for each node."""
        sets = np.arange(len(self._price))
        number = 0
        while len(sets):
            small = self._small_ones(number)
            own = self._sets.node[sets]
            price = self._price[sets] + small.price[own]
            keep = price < self.cost[own] - SURE
            sets = sets[keep]
            self._without_and_with(sets, price[keep], small)
            number += 1

    def _without_and_with(self, sets: Indices, price: Floats, small: _Small) -> None:
        """Look at these sets, with none and with more and more arrivals."""
        if not len(sets):
            return
        own, left = self._sets.node[sets], self._sets.left[sets]
        distance = self._alone[sets]
        self._note(sets, small, 0, _Ends(price, left, distance))
        for least, most in _numbers(self._ground.most):
            charge = price + self._prices.arrival * least
            over = np.maximum(self._above[sets] - small.reach[own], 0.0)
            keep = charge + np.square(over) < self.cost[own] - SURE
            keep &= (distance > small.reach[own]) & self._ground.open[own]
            sets, price, charge = sets[keep], price[keep], charge[keep]
            if not len(sets):
                return
            own, left = own[keep], left[keep]
            wanted = self._ideal[own] - left
            near = self._yardstick.hulls.nearest(own, wanted, most)
            rest = (wanted - near) * self._yardstick.scale[own]
            distance = np.hypot(rest[:, 0], rest[:, 1])
            self._note(sets, small, least, _Ends(charge, left + near, distance))

    def _note(self, sets: Indices, small: _Small, arrived: int, ends: _Ends) -> None:
        """Keep for each node what is better than what it had."""
        own = self._sets.node[sets]
        rest = np.maximum(ends.distance - small.reach[own], 0.0)
        value = ends.price + np.square(rest)
        begin = np.flatnonzero(np.diff(own, prepend=-1))
        least = np.minimum.reduceat(value, begin)
        better = least < self.cost[own[begin]] - SURE
        best = np.full(len(self.cost), -np.inf)
        best[own[begin][better]] = least[better]
        place = np.flatnonzero(value == best[own])[::-1]
        node = own[place]
        self.cost[node] = value[place]
        self._set[node] = sets[place]
        self._small[node] = small.gone[node]
        self.arrived[node] = arrived
        distance = np.maximum(ends.distance[place], TINY)
        part = np.minimum(1.0, small.reach[node] / distance)
        back = (self._ideal[node] - ends.load[place]) * part[:, None]
        self.load[node] = ends.load[place] + back

    def _small_ones(self, number: int) -> _Small:
        """Return so many small units of each node; all where they are paid to leave."""
        nodes, count = np.arange(len(self.cost)), self._sets.small_count
        if number == 0:
            return _Small(np.zeros_like(count), *np.zeros((2, len(nodes))))
        paid = self._small_price < 0
        gone = np.where(paid, count, np.minimum(number, count))
        may = (number <= count) & (~paid | (number == 1))
        price = np.where(may, self._small_price * np.maximum(gone, 1), np.inf)
        return _Small(gone, price, self._yardstick.reach[nodes, gone])

    def _cheapest_small(self) -> tuple[Floats, Indices]:
        """Return what the cheapest small unit of each node costs, and which it is."""
        units, count = self._sets.small, self._sets.small_count
        price = np.full(len(count), np.inf)
        unit = np.zeros(len(count), np.int64)
        if len(units):
            each = self._prices.budgets @ self._ground.measures[:, units]
            each = each - self._prices.arrival
            some = np.flatnonzero(count)
            begin = (np.cumsum(count) - count)[some]
            price[some] = np.minimum.reduceat(each, begin)
            place = np.flatnonzero(each == np.repeat(price, count))[::-1]
            unit[np.repeat(np.arange(len(count)), count)[place]] = units[place]
        return price, unit


def _numbers(most: int) -> Iterator[tuple[int, int]]:
    """Yield between how many arrivals there are: 1, 2, ..., then several at once."""
    least = 1
    while least <= most:
        last = least if least <= FEW else min(most, int(MORE * least))
        yield least, last
        least = last + 1
