"""Lower bound by the volume algorithm.

Source:
Barahona, Anbil, The volume algorithm: producing primal solutions with a subgradient method (2000).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from opendrs.optimizer import Floats, Mask
from opendrs.optimizer.bounds.lagrangian.data import DIMENSIONS
from runners.guest_prices.choices import Choices, GuestPrices, RelaxedCluster

Function = Callable[[Floats], tuple[float, Floats]]
TARGET_GAIN = 0.03  # part of the value: how much higher it may be
INITIAL_STEP = 0.3  # of the first step towards it, as a part of the way
STEP_GROWTH = 1.1  # after a step that led higher, in the direction of the ones before
MAX_STEP = 2.0
STEP_DECAY = 0.7  # after some that did not
MAX_FAILED_STEPS = 8  # steps that do not lead higher
MIN_STEP = 1e-3  # goes on no further

MIXING_RANGE = (
    0.01,
    0.1,
)  # part of the last slope in the mixed one: the least and the most


@dataclass(frozen=True, slots=True)
class SearchSpace:
    """Where it looks.

    Attributes:
        scale: How far the highest point may be, in proportion; shape (D,).
        positive: The directions in which no point may be below 0; shape (D,).
    """

    scale: Floats
    positive: Mask


def maximize(
    function: Function, start: Floats, space: SearchSpace, max_evaluations: int
) -> tuple[float, Floats]:
    """Return the highest value that was found, and where.

    Args:
        function: Gives the value at a point, and a supergradient there.
        start: Where it begins; shape (D,).
        space: Where it looks.
        max_evaluations: At how many points, at most.
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
    """Return the part of the *latest* slope that makes the mixed one shortest."""
    change = latest - mixed
    length = float(change @ change)
    shortest = -float(mixed @ change) / length if length > 0 else 0.0
    return min(max(shortest, MIXING_RANGE[0]), MIXING_RANGE[1])


@dataclass(frozen=True, slots=True)
class _KnownPrices:
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
        max_evaluations: How many prices are tried for each, at most.
    """

    def __init__(self, cluster: RelaxedCluster, max_evaluations: int) -> None:
        self._cluster = cluster
        self._max_evaluations = max_evaluations
        self._known: list[_KnownPrices] = []

    def lower_bound(
        self, direction: Floats, means: Floats, load_prices: Floats
    ) -> float:
        """Return what the squares, weighted, come to at least.

        Args:
            direction: The weights of both squares; its length is 1. Shape (2,).
            means: Between what the mean of the shares is: the least and the most,
                (2, 2). Only plans for which that holds are looked at.
            load_prices: Where nothing is known yet, the prices to begin with: those
                that `opendrs.optimizer.bounds.lagrangian.dual` found.
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
        """Return prices of guests by what they take."""
        cluster = self._cluster
        load = np.abs(cluster.share * cluster.capacity).mean(axis=0)
        unit = np.where(load > 0, load, 1.0)
        budgets, mean = flat[: len(cluster.budgets)], flat[-DIMENSIONS:]
        arrival, price = flat[len(budgets)], flat[-2 * DIMENSIONS : -DIMENSIONS]
        return GuestPrices(arrival + cluster.demand / unit @ price, budgets, mean)
