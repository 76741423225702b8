"""The bound of what evenness costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opendrs.policies.optimising.decomposition.ascent import Ending, ascended
from opendrs.policies.optimising.decomposition.choices import Choices
from opendrs.policies.optimising.decomposition.ground import PLANE, Ground
from opendrs.policies.optimising.groups import Floats

GUESS = 0.3  # of what evenness costs at first, for the whole of each budget


@dataclass(frozen=True, slots=True)
class Bound:
    """What no plan within the budgets comes below.

    Attributes:
        cost: What evenness costs at least.
        prices: Those at which that was found, in a row.
    """

    cost: float
    prices: Floats


def bound(
    ground: Ground,
    looks: int,
    means: Floats | None = None,
    start: Floats | None = None,
    *,
    enough: float = 0.0,
) -> Bound:
    """Return the best bound that was found for what evenness costs.

    Args:
        ground: The nodes, and who may move within which budgets.
        looks: How many prices are tried, at most.
        means: Between what the mean of the shares of all nodes is: the least and the
            most; shape (2, 2). Only plans for which that holds are looked at.
        start: The prices to begin with.
        enough: The part of it by which some ten prices must raise it; 0 for all looks.
    """
    now = _cost(ground)
    if now <= 0:
        return Bound(0.0, np.zeros(len(ground.budgets) + 1 + 2 * PLANE))
    scale = _scale(ground, now)
    if means is None:
        means = np.zeros((2, PLANE))
        scale[-PLANE:] = 0.0
    positive = np.arange(len(scale)) <= len(ground.budgets)
    first = np.where(positive, scale, 0.0) if start is None else start
    choices = Choices(ground, means)
    ending = Ending(looks, enough)
    cost, prices = ascended(choices.at, first, scale, positive, ending)
    return Bound(max(0.0, cost), prices)


def _cost(ground: Ground) -> float:
    """Return what evenness costs now."""
    away = ground.load * ground.share - ground.target
    return float((ground.weight * np.square(away)).sum())


def _scale(ground: Ground, cost: float) -> Floats:
    """Return about how high the prices are."""
    nodes, units = len(ground.load), ground.measures.shape[1]
    mean = np.abs(ground.measures).sum(axis=1) / max(units, 1)
    budgets = np.maximum(np.abs(ground.budgets), mean)
    budget = np.divide(GUESS * cost, budgets, out=np.ones_like(mean), where=budgets > 0)
    arrival = float(np.max(budget * mean, initial=0.0)) or GUESS * cost
    plane = np.ones(PLANE)
    return np.concatenate(
        [budget, [arrival / 3], cost / nodes * plane, GUESS * cost * plane]
    )
