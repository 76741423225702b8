"""What is best for each node at given prices.

A node chooses a set of large units that leaves, how many small ones leave besides, and
how many arrive. Where small ones leave, its load may be by as much nearer to what is
best for it as they could take with them; so what it costs is bounded from below.

What was best at other prices is looked at first, after nobody. It is hardly worse now,
so that nearly all else costs more already by what is paid for it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from opendrs.policies.optimising.decomposition.choice import Choice
from opendrs.policies.optimising.decomposition.ground import Ground
from opendrs.policies.optimising.decomposition.hull import Hulls
from opendrs.policies.optimising.decomposition.prices import Prices
from opendrs.policies.optimising.groups import Floats, Indices

ROWS = 20_000  # departures that are looked at at once, about
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


class Search:
    """The search for what is best for each node.

    Args:
        ground: The nodes, and who may move.
        yardstick: How they measure distances.
        prices: What is paid.
        ideal: The load that would be best for each node; shape (N, 2).
        first: What each node might choose, which is looked at first.

    Attributes:
        choice: What each node chooses.
        cost: What that costs each; shape (N,).
        load: The load that each has in the end; shape (N, 2).
    """

    def __init__(
        self,
        ground: Ground,
        yardstick: Yardstick,
        prices: Prices,
        ideal: Floats,
        first: Choice,
    ) -> None:
        self._ground = ground
        self._sets = ground.leaving
        self._yardstick = yardstick
        self._prices = prices
        self._ideal = ideal
        own = self._sets.node
        above = np.maximum(self._sets.left - ideal[own], 0.0) * yardstick.scale[own]
        self._above = np.hypot(above[:, 0], above[:, 1])
        self._price = prices.budgets @ self._sets.measured
        self._price -= prices.arrival * self._sets.count
        self._small_price, self._small_unit = self._cheapest_small()
        self.choice = Choice.of_nobody(ground.leaving.first)
        self.cost = np.full(len(ideal), np.inf)
        self.load = np.zeros_like(ideal)
        self._look_at(Choice.of_nobody(ground.leaving.first))
        self._look_at(first)

    @property
    def departed(self) -> Floats:
        """How many units leave each node; shape (N,)."""
        return self._sets.count[self.choice.leaving] + self.choice.small

    def measured(self) -> Floats:
        """Return what the budgets count of all who leave; shape (B,)."""
        total: Floats = self._sets.measured[:, self.choice.leaving].sum(axis=1)
        some = np.flatnonzero(self.choice.small)
        units = self._small_unit[some]
        return total + self._ground.measures[:, units] @ self.choice.small[some]

    def run(self) -> None:
        """Find what is best for each node."""
        least = 0
        while True:
            most = self._most_steps()
            sets = np.flatnonzero(most >= least)
            if not len(sets):
                return
            after = least + max(1, ROWS // len(sets))
            self._fill(self._departures(sets, least, np.minimum(most[sets] + 1, after)))
            least = after

    def _most_steps(self) -> Indices:
        """Return how many small units may leave with each set, at what is paid.

        Where they are paid to leave, all of them do or none: that is one step.
        """
        own = self._sets.node
        count, price = self._sets.small_count[own], self._small_price[own]
        spare = np.maximum(self.cost[own] - self._price, 0.0)
        some = np.full_like(price, np.inf)
        with np.errstate(over="ignore"):
            np.divide(spare, price, out=some, where=price > 0)
        steps = np.where(price < 0, 1, np.minimum(count, some))
        return steps.astype(np.int64)

    def _departures(self, sets: Indices, least: int, after: Indices) -> Choice:
        """Return *sets* that leave with from *least* to less than *after* steps."""
        many = after - least
        rows = np.repeat(np.arange(len(sets)), many)
        steps = least + np.arange(len(rows)) - (np.cumsum(many) - many)[rows]
        own = self._sets.node[sets[rows]]
        each = np.where(self._small_price[own] < 0, self._sets.small_count[own], 1)
        return Choice.of_departures(sets[rows], steps * each)

    def _fill(self, left: Choice) -> None:
        """Look at these departures, with none and with more and more arrivals."""
        short = self._look_at(self._promising(left))
        short = short.part(self._ground.open[self._sets.node[short.leaving]])
        for least, most in _numbers(self._ground.most):
            filled = self._promising(short.with_arrivals(least, most))
            if not len(filled.leaving):
                return
            short = self._look_at(filled)

    def _promising(self, choice: Choice) -> Choice:
        """Return what of *choice* may be better for a node than what it has."""
        own = self._sets.node[choice.leaving]
        reach = self._yardstick.reach[own, choice.small]
        over = np.maximum(self._above[choice.leaving] - reach, 0.0)
        least = self._paid(choice) + np.square(over)
        return choice.part(least < self.cost[own] - SURE)

    def _paid(self, choice: Choice) -> Floats:
        """Return what is paid for what is chosen."""
        own = self._sets.node[choice.leaving]
        each = np.where(choice.small > 0, self._small_price[own], 0.0)
        paid: Floats = self._price[choice.leaving] + each * choice.small
        return paid + self._prices.arrival * choice.arrived

    def _look_at(self, choice: Choice) -> Choice:
        """Keep for each node what of *choice* is better than what it had.

        Returns:
            That with which nodes do not reach what is best for them.
        """
        own = self._sets.node[choice.leaving]
        load = self._filled(choice)
        rest = (self._ideal[own] - load) * self._yardstick.scale[own]
        distance = np.hypot(rest[:, 0], rest[:, 1])
        reach = self._yardstick.reach[own, choice.small]
        value = self._paid(choice) + np.square(np.maximum(distance - reach, 0.0))
        better = np.flatnonzero(value < self.cost[own] - SURE)
        order = better[np.lexsort((value[better], own[better]))]
        best = order[np.flatnonzero(np.diff(own[order], prepend=-1))]
        nodes = own[best]
        self.cost[nodes] = value[best]
        self.choice.put(nodes, choice.part(best))
        part = np.minimum(1.0, reach[best] / np.maximum(distance[best], TINY))
        back = (self._ideal[nodes] - load[best]) * part[:, None]
        self.load[nodes] = load[best] + back
        return choice.part(distance > reach)

    def _filled(self, choice: Choice) -> Floats:
        """Return the loads once large ones have left and others arrived; (C, 2)."""
        load = self._sets.left[choice.leaving]
        some = np.flatnonzero(choice.most)
        own = self._sets.node[choice.leaving[some]]
        wanted = self._ideal[own] - load[some]
        load[some] += self._yardstick.hulls.nearest(own, wanted, choice.most[some])
        return load

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
