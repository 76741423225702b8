"""Two moves at once in a small cluster: swaps, and one who leaves for one who returns.

What evenness gains by them is a quadratic form, worked out for all pairs at once. What
else they change is looked at for those only that gain most by it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opendrs.policies.optimising.grid import Grid
from opendrs.policies.optimising.groups import Floats, Indices, Mask

CHUNK = 64  # pairs that are looked at closely at once


class Swap(NamedTuple):
    """What a swap gains, and who changes places; no gain where there is none."""

    gain: float
    unit: int
    other: int


def best_swap(grid: Grid, least: float) -> Swap:
    """Return the swap that gains most, if it gains more than *least*."""
    found = Swap(least, -1, -1)
    rows, every = _rows(grid), np.arange(len(grid.away))
    close = _lesser_known(grid)
    if close.any():
        units = np.flatnonzero(close)
        units, others = np.repeat(units, len(every)), np.tile(every, len(units))
        found = _closest(grid, units, others, found)
        rows = rows[~close[rows]]
    change = _instead(grid, rows, every)
    back = change if len(rows) == len(every) else _instead(grid, every, rows)
    flat = (change.T + back).ravel()
    worth = np.flatnonzero(flat < -found.gain)
    if not len(worth):
        return found if found.unit >= 0 else Swap(0.0, -1, -1)
    units, others = np.divmod(worth, len(every))
    may = affordable_swaps(grid, rows[units], others) & ~close[others]
    worth, units, others = worth[may], rows[units[may]], others[may]
    order = np.argsort(flat[worth], kind="stable")
    for begin in range(0, len(order), CHUNK):
        chunk = order[begin : begin + CHUNK]
        if flat[worth[chunk[0]]] >= -found.gain:
            break
        found = _closest(grid, units[chunk], others[chunk], found)
    return found if found.unit >= 0 else Swap(0.0, -1, -1)


def _instead(grid: Grid, units: Indices, others: Indices) -> Floats:
    """Return what changes on the nodes of *units* with *others* there; (others, units).

    Of evenness, and of what *units* cost by themselves on the nodes of *others*. What
    the node bears more is x = b - a, which costs s x^2 + p x more: as a product of
    what is known of a and what is known of b, s b^2 + (p - 2 s a) b + (s a - p) a.
    """
    tariff, here, there = grid.tariff, grid.node_of[units], grid.node_of[others]
    demand = grid.problem.demand[:, tariff.uneven]
    a, b, s = demand[units], demand[others], tariff.steep[here]
    p = 2 * s * (grid.load[here][:, tariff.uneven] - tariff.even[here])
    known = np.hstack([s, p - 2 * s * a, (s * a - p) * a])
    total: Floats = np.hstack([b * b, b, np.ones(b.shape)]) @ known.T
    total += (grid.standing[:, units] - grid.standing[here, units])[there]
    return total


def _rows(grid: Grid) -> Indices:
    """Return units one of which is in each swap that the budgets let be made.

    Where they do not let two more leave, these are the ones that have left.
    """
    for measure, spent, most in zip(
        grid.problem.measures, grid.spent, grid.budgets, strict=True
    ):
        least = np.sort(measure[~grid.away])[:2]
        if least.sum() > 0 and spent + least.sum() > most:
            return np.flatnonzero(grid.away)
    return np.arange(len(grid.away))


def _lesser_known(grid: Grid) -> Mask:
    """Return which units may gain more than evenness by a swap; shape (G,).

    Those whose node pays for more than unevenness, who share a node with whom they
    should not, and who prefer company.
    """
    problem = grid.problem
    over = np.maximum(grid.load - problem.capacity, 0) * problem.overload_weight
    excess = np.maximum(grid.load - problem.safety, 0) * problem.excess_weight
    pays = (over + excess).sum(axis=1)[grid.node_of]
    known: Mask = (pays > 0) | (_shared(grid, np.arange(len(grid.away))) > 0)
    known |= grid.weighted.min(axis=1, initial=0.0) < 0
    return known


def _closest(grid: Grid, units: Indices, others: Indices, found: Swap) -> Swap:
    """Return the best of these swaps, if it is better than *found*."""
    delta = swapped(grid, units, others)
    place = int(delta.argmin())
    if -delta[place] > found.gain:
        return Swap(-float(delta[place]), int(units[place]), int(others[place]))
    return found


def swapped(grid: Grid, units: Indices, others: Indices) -> Floats:
    """Return what each swap would cost more; inf where it may not be made."""
    problem = grid.problem
    here, there = grid.node_of[units], grid.node_of[others]
    more = problem.demand[others] - problem.demand[units]
    after, beyond = grid.load[here] + more, grid.load[there] - more
    delta = grid.tariff.of(after, here) - grid.cost[here]
    delta += grid.tariff.of(beyond, there) - grid.cost[there]
    delta += grid.standing[there, units] - grid.standing[here, units]
    delta += grid.standing[here, others] - grid.standing[there, others]
    may = (after <= grid.limit[here]).all(axis=1)
    may &= (beyond <= grid.limit[there]).all(axis=1)
    may &= grid.open[there, units] & grid.open[here, others] & (here != there)
    if len(grid.count):
        met = grid.count[:, there].T - grid.member[others] > 0
        meeting = grid.count[:, here].T - grid.member[units] > 0
        delta += (grid.weighted[units] * met).sum(axis=1) - _shared(grid, units)
        delta += (grid.weighted[others] * meeting).sum(axis=1)
        delta -= _shared(grid, others)
        may &= (grid.strict[units] * met).sum(axis=1) == 0
        may &= (grid.strict[others] * meeting).sum(axis=1) == 0
    may &= affordable_swaps(grid, units, others)
    delta[~may] = np.inf
    return delta


def _shared(grid: Grid, units: Indices) -> Floats:
    """Return what each of *units* pays for sharing its node."""
    others = grid.count[:, grid.node_of[units]].T > 1
    paid: Floats = (grid.weighted[units] * others).sum(axis=1)
    return paid


def affordable_swaps(grid: Grid, units: Indices, others: Indices) -> Mask:
    """Return which of these swaps the budgets let be made."""
    problem = grid.problem
    here, there = grid.node_of[units], grid.node_of[others]
    first = (there != problem.origin[units]).astype(int) - grid.away[units]
    second = (here != problem.origin[others]).astype(int) - grid.away[others]
    may = np.ones(len(units), np.bool_)
    for measure, spent, most in zip(
        problem.measures, grid.spent, grid.budgets, strict=True
    ):
        spends = first * measure[units] + second * measure[others]
        may &= (spends <= 0) | (spent + spends <= most)
    return may
