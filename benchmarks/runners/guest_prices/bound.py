"""Lower bound by the volume algorithm.

Source:
    Barahona and Anbil, The volume algorithm: producing primal solutions with a
    subgradient method (2000).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from opendrs.optimizer import Floats, Mask
from opendrs.optimizer.bounds.lagrangian.data import DIMENSIONS
from runners.guest_prices.choices import Choices, GuestPrices, RelaxedCluster

Function = Callable[[Floats], tuple[float, Floats]]
TARGET_GAIN = 0.03  # assumed gap to the maximum, as a fraction of the value
INITIAL_STEP = 0.3  # first step, as a fraction of the way to the target
STEP_GROWTH = 1.1  # factor after a step that ascends in the mixed direction
MAX_STEP = 2.0
STEP_DECAY = 0.7  # factor after MAX_FAILED_STEPS steps without ascent
MAX_FAILED_STEPS = 8  # steps without ascent
MIN_STEP = 1e-3  # smallest step; the search ends below it

# Least and largest weight of the last slope in the mixed one.
MIXING_RANGE = (
    0.01,
    0.1,
)


@dataclass(frozen=True, slots=True)
class SearchSpace:
    """Scale and sign constraints of the multipliers.

    Attributes:
        scale: Relative distance to the maximum in each dimension; shape (D,).
        positive: Dimensions in which points must not be negative; shape (D,).
    """

    scale: Floats
    positive: Mask


def maximize(
    function: Function, start: Floats, space: SearchSpace, max_evaluations: int
) -> tuple[float, Floats]:
    """Return the highest value found, and its point.

    Args:
        function: Returns the value at a point and a supergradient.
        start: Initial point; shape (D,).
        space: Scale and sign constraints.
        max_evaluations: Most points to evaluate.
    """
    best, slope = function(start)
    top, mixed = start, slope * space.scale
    step_size, failed_steps = INITIAL_STEP, 0
    for _ in range(max_evaluations - 1):
        if step_size < MIN_STEP or not mixed.any():
            break
        step = step_size * TARGET_GAIN * abs(best) / (mixed @ mixed)
        point = top + step * mixed * space.scale
        point = np.where(space.positive, np.maximum(point, 0.0), point)
        value, slope = function(point)
        latest = slope * space.scale
        failed_steps += 1
        if value > best:
            if latest @ mixed > 0:
                step_size = min(MAX_STEP, step_size * STEP_GROWTH)
            best, top, failed_steps = value, point, 0
        elif failed_steps == MAX_FAILED_STEPS:
            step_size, failed_steps = step_size * STEP_DECAY, 0
        mixed = mixed + mixing_weight(mixed, latest) * (latest - mixed)
    return best, top


def mixing_weight(mixed: Floats, latest: Floats) -> float:
    """Return the weight of the *latest* slope that gives the shortest mixed slope."""
    change = latest - mixed
    length = float(change @ change)
    shortest = -float(mixed @ change) / length if length > 0 else 0.0
    return min(max(shortest, MIXING_RANGE[0]), MIXING_RANGE[1])


@dataclass(frozen=True, slots=True)
class _KnownPrices:
    """Prices of an earlier bound.

    Attributes:
        direction: Weights of both squares; shape (2,).
        prices: Prices in one vector.
        ideal: Used fractions that are best for all nodes at these prices; shape (2,).
    """

    direction: Floats
    prices: Floats
    ideal: Floats


class Bounds:
    """Bounds found one after another, each starting from earlier prices.

    Args:
        cluster: Nodes and movable guests.
        max_evaluations: Most prices to evaluate per bound.
    """

    def __init__(self, cluster: RelaxedCluster, max_evaluations: int) -> None:
        self._cluster = cluster
        self._max_evaluations = max_evaluations
        self._known: list[_KnownPrices] = []

    def lower_bound(
        self, direction: Floats, means: Floats, load_prices: Floats
    ) -> float:
        """Return a lower bound of the weighted sum of both squares.

        Args:
            direction: Weights of both squares, of length 1; shape (2,).
            means: Lower and upper limit of the mean used fraction; shape (2, 2). Only
                plans within these limits are considered.
            load_prices: Initial multipliers for the first bound, from
                `opendrs.optimizer.bounds.lagrangian.dual`.
        """
        cluster = self._cluster
        choices = Choices(cluster, direction, means)
        if self._known:
            closest = max(self._known, key=lambda each: each.direction @ direction)
            start = closest.prices.copy()
            start[-DIMENSIONS:] = choices.mean_prices(closest.ideal)
        else:
            start = choices.stabilize(self._initial_prices(load_prices)).flat
        positive = np.zeros(len(start), np.bool_)
        positive[len(cluster.origin) : -DIMENSIONS] = True
        space = SearchSpace(cluster.scale, positive)
        bound, prices = maximize(choices.at, start, space, self._max_evaluations)
        ideal = choices.ideal(prices[-DIMENSIONS:])
        self._known.append(_KnownPrices(direction, prices, ideal))
        return bound

    def _initial_prices(self, flat: Floats) -> GuestPrices:
        """Return prices of guests in proportion to their demand."""
        cluster = self._cluster
        load = np.abs(cluster.share * cluster.capacity).mean(axis=0)
        unit = np.where(load > 0, load, 1.0)
        budgets, mean = flat[: len(cluster.budgets)], flat[-DIMENSIONS:]
        arrival, price = flat[len(budgets)], flat[-2 * DIMENSIONS : -DIMENSIONS]
        return GuestPrices(arrival + cluster.demand / unit @ price, budgets, mean)
