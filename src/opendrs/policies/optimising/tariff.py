"""What nodes cost with what load, with as few operations as it can be worked out."""

from __future__ import annotations

import numpy as np

from opendrs.policies.optimising.groups import Floats, Indices
from opendrs.policies.optimising.problem import Problem
from opendrs.policies.optimising.valuation import steepness


class Tariff:
    """What load costs: its square off the even load, and what is over some levels.

    What a resource costs nowhere is left out.

    Attributes:
        uneven: The resources whose evenness counts; shape (E,).
        steep: What the square off the even load costs; shape (N, E).
        even: The even load; shape (N, E).
    """

    def __init__(self, problem: Problem) -> None:
        self.uneven = np.flatnonzero(problem.even_weight)
        self.steep = steepness(problem)[:, self.uneven]
        self.even = (problem.even_target * problem.capacity)[:, self.uneven]
        prices = np.broadcast_to(problem.overload_weight, problem.capacity.shape)
        prices = np.hstack([prices, problem.excess_weight])
        levels = np.hstack([problem.capacity, problem.safety])
        dear = np.flatnonzero(prices.any(axis=0))
        # First what is squared, then what counts only where it is more than nothing.
        self._of = np.hstack([self.uneven, dear % max(problem.resources, 1)])
        self._levels = np.hstack([self.even, levels[:, dear]])
        self._prices = np.hstack([self.steep, prices[:, dear]])
        units = np.stack([problem.demand.T, -problem.demand.T], axis=1)
        self._units = units[self._of][:, None]

    def of(self, load: Floats, nodes: Indices) -> Floats:
        """Return what each of *nodes* costs with *load*, of shape (n, R)."""
        return self._cost(self._beyond(load, nodes), self._prices[nodes].T)

    def with_units(self, load: Floats, nodes: Indices) -> Floats:
        """Return what they cost with each unit more, and with each unit less.

        The shape is (n, 2, G).
        """
        beyond = self._beyond(load, nodes)[:, :, None, None] + self._units
        return self._cost(beyond, self._prices[nodes].T[:, :, None, None])

    def _beyond(self, load: Floats, nodes: Indices) -> Floats:
        """Return by how much *load* is off the even load, and over levels."""
        beyond: Floats = (load[:, self._of] - self._levels[nodes]).T
        return beyond

    def _cost(self, beyond: Floats, prices: Floats) -> Floats:
        """Return what that costs; *beyond* is used up."""
        off, over = beyond[: len(self.uneven)], beyond[len(self.uneven) :]
        np.square(off, out=off)
        np.maximum(over, 0.0, out=over)
        beyond *= prices
        cost: Floats = beyond.sum(axis=0)
        return cost
