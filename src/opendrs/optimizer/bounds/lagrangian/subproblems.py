"""Node subproblems at given multipliers.

A node selects a set of large groups that leaves, the number of small ones that leave in
addition, and the number of arrivals. If small groups leave, the load may be nearer to
the ideal load by as much as they can take with them, so the cost is a lower bound.
Solutions at earlier multipliers are evaluated first, after the empty set. They are
still good and exclude most other choices.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from opendrs.optimizer.bounds.lagrangian.data import BoundData, ConvexHulls, Multipliers
from opendrs.optimizer.problem import Floats, Indices, Mask


@dataclass(frozen=True, slots=True)
class SubproblemSolution:
    """Choices of nodes, or candidates for them; all of shape (C,).

    Attributes:
        departing: Set of large groups that leaves; it determines the node.
        small_departing: Number of small groups that leave in addition.
        min_arrivals: Least number of arrivals, which are paid for.
        max_arrivals: Largest number of arrivals.
    """

    departing: Indices
    small_departing: Indices
    min_arrivals: Indices
    max_arrivals: Indices

    @classmethod
    def empty(cls, empty_set: Indices) -> SubproblemSolution:
        """Return the choice of the empty sets *empty_set*."""
        return cls.of_departures(empty_set.copy(), np.zeros_like(empty_set))

    @classmethod
    def of_departures(
        cls, departing: Indices, small_departing: Indices
    ) -> SubproblemSolution:
        """Return the choice without arrivals."""
        return cls(
            departing,
            small_departing,
            np.zeros_like(small_departing),
            np.zeros_like(small_departing),
        )

    def with_arrivals(self, least: int, most: int) -> SubproblemSolution:
        """Return the choice with this range of arrivals."""
        return replace(
            self,
            min_arrivals=np.full_like(self.small_departing, least),
            max_arrivals=np.full_like(self.small_departing, most),
        )

    def select(self, which: Indices | Mask) -> SubproblemSolution:
        """Return the choices at *which*."""
        return SubproblemSolution(
            self.departing[which],
            self.small_departing[which],
            self.min_arrivals[which],
            self.max_arrivals[which],
        )

    def assign(self, nodes: Indices, solution: SubproblemSolution) -> None:
        """Replace the choices of *nodes* by *solution*."""
        self.departing[nodes] = solution.departing
        self.small_departing[nodes] = solution.small_departing
        self.min_arrivals[nodes] = solution.min_arrivals
        self.max_arrivals[nodes] = solution.max_arrivals


BATCH_SIZE = 20_000  # approximate number of departures that are evaluated at once
SINGLE_ARRIVALS = 4  # numbers of arrivals that are evaluated one by one
RANGE_GROWTH = 2.0  # growth of the ranges of arrivals after that
TINY = 1e-300  # smallest divisor
MIN_IMPROVEMENT = 1e-12  # smaller differences are rounding


class DistanceNorm:
    """Distance of loads at each node: root of the imbalance cost."""

    def __init__(self, data: BoundData) -> None:
        self.weight = data.weight * np.square(data.share)
        self.target = data.target / data.share
        self.scale = np.sqrt(self.weight)
        self.set_scale = self.scale[data.departures.node]
        self.hulls = ConvexHulls(data.corners, self.scale)
        taken = data.departures.small_demand * self.scale[:, None, :]
        self.reach: Floats = np.sqrt(np.square(taken).sum(axis=2))


class SubproblemSolver:
    """Branch and bound over the choices of all nodes.

    Args:
        data: Nodes and groups.
        norm: Distance norm of each node.
        prices: Multipliers.
        ideal: Best load of each node at these multipliers; shape (N, 2).
        warm_start: Choices to evaluate first.

    Attributes:
        solution: Best choice of each node.
        cost: Its cost; shape (N,).
        load: Final load of each node; shape (N, 2).
    """

    def __init__(
        self,
        data: BoundData,
        norm: DistanceNorm,
        prices: Multipliers,
        ideal: Floats,
        warm_start: SubproblemSolution,
    ) -> None:
        self._data = data
        self._sets = data.departures
        self._norm = norm
        self._prices = prices
        self._ideal = ideal
        own = self._sets.node
        above = np.maximum(self._sets.load_after - ideal[own], 0.0) * norm.set_scale
        self._excess_distance = np.hypot(above[:, 0], above[:, 1])
        self._set_price = prices.budgets @ self._sets.budget_use
        self._set_price -= prices.arrival * self._sets.count
        self._small_price, self._small_group = self._cheapest_small()
        self.solution = SubproblemSolution.empty(data.departures.empty_set)
        self.cost = np.full(len(ideal), np.inf)
        self.load = np.zeros_like(ideal)
        self._evaluate(SubproblemSolution.empty(data.departures.empty_set))
        self._evaluate(warm_start)

    @property
    def departure_count(self) -> Floats:
        """Number of groups that leave each node; shape (N,)."""
        return self._sets.count[self.solution.departing] + self.solution.small_departing

    def budget_use(self) -> Floats:
        """Return the use of each budget by all departures; shape (B,)."""
        total: Floats = self._sets.budget_use[:, self.solution.departing].sum(axis=1)
        some = np.flatnonzero(self.solution.small_departing)
        groups = self._small_group[some]
        return (
            total
            + self._data.budget_weights[:, groups] @ self.solution.small_departing[some]
        )

    def solve(self) -> None:
        """Find the best choice of each node."""
        least = 0
        while True:
            most = self._max_steps()
            sets = np.flatnonzero(most >= least)
            if not len(sets):
                return
            after = least + max(1, BATCH_SIZE // len(sets))
            self._add_arrivals(
                self._departures(sets, least, np.minimum(most[sets] + 1, after))
            )
            least = after

    def _max_steps(self) -> Indices:
        """Return how many small groups may leave with each set at these prices.

        At a negative price either all of them leave or none, which is one step.
        """
        own = self._sets.node
        count, price = self._sets.small_count[own], self._small_price[own]
        slack = np.maximum(self.cost[own] - self._set_price, 0.0)
        some = np.full_like(price, np.inf)
        with np.errstate(over="ignore"):
            np.divide(slack, price, out=some, where=price > 0)
        steps = np.where(price < 0, 1, np.minimum(count, some))
        return steps.astype(np.int64)

    def _departures(
        self, sets: Indices, least: int, after: Indices
    ) -> SubproblemSolution:
        """Return *sets* with *least* to *after* - 1 steps of small groups."""
        many = after - least
        rows = np.repeat(np.arange(len(sets)), many)
        steps = least + np.arange(len(rows)) - (np.cumsum(many) - many)[rows]
        own = self._sets.node[sets[rows]]
        each = np.where(self._small_price[own] < 0, self._sets.small_count[own], 1)
        return SubproblemSolution.of_departures(sets[rows], steps * each)

    def _add_arrivals(self, left: SubproblemSolution) -> None:
        """Evaluate these departures without arrivals, then with increasing ranges."""
        short = self._evaluate(self._promising(left))
        short = short.select(self._data.can_receive[self._sets.node[short.departing]])
        for least, most in _arrival_ranges(self._data.max_arrivals):
            filled = self._promising(short.with_arrivals(least, most))
            if not len(filled.departing):
                return
            short = self._evaluate(filled)

    def _promising(self, solution: SubproblemSolution) -> SubproblemSolution:
        """Return the part of *solution* that may improve the choice of a node."""
        own = self._sets.node[solution.departing]
        reach = self._norm.reach[own, solution.small_departing]
        over = np.maximum(self._excess_distance[solution.departing] - reach, 0.0)
        least = self._multiplier_cost(solution) + np.square(over)
        return solution.select(least < self.cost[own] - MIN_IMPROVEMENT)

    def _multiplier_cost(self, solution: SubproblemSolution) -> Floats:
        """Return the cost of the choices at the multipliers."""
        own = self._sets.node[solution.departing]
        each = np.where(solution.small_departing > 0, self._small_price[own], 0.0)
        cost: Floats = (
            self._set_price[solution.departing] + each * solution.small_departing
        )
        return cost + self._prices.arrival * solution.min_arrivals

    def _evaluate(self, solution: SubproblemSolution) -> SubproblemSolution:
        """Store the choices that are better than those of their node.

        Returns:
            The choices with which a node does not reach its ideal load.
        """
        own = self._sets.node[solution.departing]
        load = self._load_after(solution)
        rest = (self._ideal[own] - load) * self._norm.scale[own]
        distance = np.hypot(rest[:, 0], rest[:, 1])
        reach = self._norm.reach[own, solution.small_departing]
        value = self._multiplier_cost(solution) + np.square(
            np.maximum(distance - reach, 0.0)
        )
        better = np.flatnonzero(value < self.cost[own] - MIN_IMPROVEMENT)
        order = better[np.lexsort((value[better], own[better]))]
        nodes = own[order]
        first = np.ones(len(nodes), np.bool_)
        np.not_equal(nodes[1:], nodes[:-1], out=first[1:])
        best, nodes = order[first], nodes[first]
        self.cost[nodes] = value[best]
        self.solution.assign(nodes, solution.select(best))
        part = np.minimum(1.0, reach[best] / np.maximum(distance[best], TINY))
        back = (self._ideal[nodes] - load[best]) * part[:, None]
        self.load[nodes] = load[best] + back
        return solution.select(distance > reach)

    def _load_after(self, solution: SubproblemSolution) -> Floats:
        """Return the loads after departures and arrivals; shape (C, 2)."""
        load = self._sets.load_after[solution.departing]
        some = np.flatnonzero(solution.max_arrivals)
        own = self._sets.node[solution.departing[some]]
        wanted = self._ideal[own] - load[some]
        load[some] += self._norm.hulls.nearest(own, wanted, solution.max_arrivals[some])
        return load

    def _cheapest_small(self) -> tuple[Floats, Indices]:
        """Return the price and the index of the cheapest small group of each node."""
        groups, count = self._sets.small, self._sets.small_count
        price = np.full(len(count), np.inf)
        group = np.zeros(len(count), np.int64)
        if len(groups):
            each = self._prices.budgets @ self._data.budget_weights[:, groups]
            each = each - self._prices.arrival
            some = np.flatnonzero(count)
            begin = (np.cumsum(count) - count)[some]
            price[some] = np.minimum.reduceat(each, begin)
            place = np.flatnonzero(each == np.repeat(price, count))[::-1]
            group[np.repeat(np.arange(len(count)), count)[place]] = groups[place]
        return price, group


def _arrival_ranges(most: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of arrivals: 1, 2, ..., then several numbers at once."""
    least = 1
    while least <= most:
        last = (
            least if least <= SINGLE_ARRIVALS else min(most, int(RANGE_GROWTH * least))
        )
        yield least, last
        least = last + 1
