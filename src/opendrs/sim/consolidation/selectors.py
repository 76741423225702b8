"""Which guest leaves an overloaded host, as CloudSim 3.0.3 chooses."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np

from opendrs.sim.consolidation.hardware import Floats
from opendrs.sim.consolidation.regression import determinations
from opendrs.sim.consolidation.schemes import Selector
from opendrs.sim.consolidation.watches import View

Select = Callable[[Sequence[int]], int]  # of the guests of a host, in their order

WELL = 1e10  # condition up to which the quick form of the regression is exact enough
APART = 1e-9  # by which the best must lead there
MOVED = 1e-14  # sum of squares below which a load has not changed


def selector(which: Selector, view: View, rng: random.Random) -> Select:
    """Return how a guest is selected at this decision."""
    memory = view.guests.memory.tolist()
    if which is Selector.RS:
        return rng.choice
    if which is Selector.MU:
        # A fraction of MIPS, multiplied and divided again: equals differ so.
        load = (view.request / view.guests.mips).tolist()
        return lambda guests: min(guests, key=load.__getitem__)
    if which is Selector.MMT:
        return lambda guests: min(guests, key=memory.__getitem__)
    return lambda guests: _most_correlated(guests, view.history, memory)


def _most_correlated(
    guests: Sequence[int], history: Floats, memory: Sequence[float]
) -> int:
    """Return the guest whose load is told best by the others' loads.

    The one with the least memory where no regression is possible.
    """
    samples = history[guests]
    if len(guests) > 1 and samples.shape[1] >= len(guests):
        best = _clear_best(samples)
        if best is None:
            best = _exact_best(samples)
        if best is not None:
            return guests[best]
    return min(guests, key=memory.__getitem__)


def _clear_best(samples: Floats) -> int | None:
    """Return the best if rounding cannot matter, else None.

    From the inverse of the correlations: R² = 1 - 1 / (its diagonal).
    """
    if samples.shape[1] <= len(samples):
        return None
    centred = samples - samples.mean(axis=1, keepdims=True)
    products = centred @ centred.T
    squares = np.diag(products)
    if (squares <= MOVED).any():
        return None
    correlations = products / np.sqrt(np.outer(squares, squares))
    if np.linalg.cond(correlations) >= WELL:
        return None
    told = 1 - 1 / np.diag(np.linalg.inv(correlations))
    *_, second, first = np.sort(told)
    return int(np.argmax(told)) if first - second > APART else None


def _exact_best(samples: Floats) -> int | None:
    told = determinations(samples[:, ::-1])  # the newest first, as they are kept there
    return None if told is None else int(np.argmax(np.fmax(told, 0.0)))
