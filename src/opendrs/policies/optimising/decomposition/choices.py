"""What the choices of all nodes come to at given prices."""

from __future__ import annotations

import numpy as np

from opendrs.policies.optimising.decomposition.choice import Choice
from opendrs.policies.optimising.decomposition.ground import Ground
from opendrs.policies.optimising.decomposition.prices import Prices
from opendrs.policies.optimising.decomposition.search import SURE, Search, Yardstick
from opendrs.policies.optimising.groups import Floats

ROUNDING = 1e-12  # of all that is added up, so much may be lost; so it stays a bound


class Choices:
    """The choices of all nodes at given prices.

    Args:
        ground: The nodes, and who may move.
        means: Between what the mean of the shares is: the least and the most, (2, 2).
            Only loads for which that holds are looked at.
    """

    def __init__(self, ground: Ground, means: Floats) -> None:
        self._ground = ground
        self._means = means
        self._yardstick = Yardstick(ground)
        self._last = Choice.of_nobody(ground.leaving.first)

    def at(self, flat: Floats) -> tuple[float, Floats]:
        """Return the bound of what evenness costs, and its supergradient.

        Where there are several of these, it depends on what was asked before which.

        Args:
            flat: The prices in a row: of budgets, arrival, load, mean.
        """
        prices, ground = Prices.of(flat), self._ground
        linear = prices.load + prices.mean * ground.share / len(ground.load)
        target = self._yardstick.target
        ideal = target - linear / (2 * self._yardstick.weight)
        anyway = (linear * (target + ideal) / 2).sum(axis=1)
        found = Search(ground, self._yardstick, prices, ideal, self._last)
        found.run()
        self._last = found.choice
        means = np.where(prices.mean > 0, self._means[1], self._means[0])
        given = prices.budgets @ ground.budgets
        given += prices.load @ ground.load.sum(axis=0) + prices.mean @ means
        value = found.cost.sum() + anyway.sum() - given
        value -= ROUNDING * (np.abs(found.cost).sum() + np.abs(anyway).sum())
        value -= SURE * len(anyway)
        slope = np.concatenate(
            [
                found.measured() - ground.budgets,
                [found.choice.arrived.sum() - found.departed.sum()],
                (found.load - ground.load).sum(axis=0),
                (found.load * ground.share).mean(axis=0) - means,
            ]
        )
        return float(value), slope
