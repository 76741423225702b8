"""Two moves at once in a small cluster: swaps, and one who leaves for one who returns.

What evenness gains by them is a quadratic form, worked out for all pairs at once. What
else they change is looked at for those only that gain most by it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opendrs.policies.optimising.grid import Grid
from opendrs.policies.optimising.groups import Floats, Indices, Mask
from opendrs.policies.optimising.problem import Problem
from opendrs.policies.optimising.valuation import node_cost, steepness

CHUNK = 64  # pairs that are looked at closely at once


class Swap(NamedTuple):
    """What a swap gains, and who changes places; no gain where there is none."""

    gain: float
    unit: int
    other: int


class Swaps:
    """The swaps of units of one problem."""

    def __init__(self, problem: Problem) -> None:
        self._active = np.flatnonzero(problem.even_weight)
        demand = problem.demand[:, self._active]
        # Resource by resource, what the node of a row bears more; shape (A, G, G).
        self._more = np.ascontiguousarray(
            np.moveaxis(demand[None, :, :] - demand[:, None, :], 2, 0)
        )
        self._squared = np.square(self._more)

    def best(self, grid: Grid, least: float) -> Swap:
        """Return the swap that gains most, if it gains more than *least*."""
        found = Swap(least, -1, -1)
        rows, every = _rows(grid), np.arange(len(grid.away))
        close = _lesser_known(grid)
        if close.any():
            units = np.flatnonzero(close)
            units, others = np.repeat(units, len(every)), np.tile(every, len(units))
            found = _closest(grid, units, others, found)
            rows = rows[~close[rows]]
        delta = self._even(grid, rows)
        delta[:, close] = np.inf
        flat = delta.ravel()
        worth = np.flatnonzero(flat < -found.gain)
        units, others = np.divmod(worth, len(every))
        may = affordable_swaps(grid, rows[units], others)
        worth, units, others = worth[may], rows[units[may]], others[may]
        order = np.argsort(flat[worth], kind="stable")
        for begin in range(0, len(order), CHUNK):
            chunk = order[begin : begin + CHUNK]
            if flat[worth[chunk[0]]] >= -found.gain:
                break
            found = _closest(grid, units[chunk], others[chunk], found)
        return found if found.unit >= 0 else Swap(0.0, -1, -1)

    def _even(self, grid: Grid, rows: Indices) -> Floats:
        """Return what swaps of *rows* change of evenness and standing; (rows, G)."""
        problem, here, active = grid.problem, grid.node_of, self._active
        capacity = problem.capacity[:, active]
        slope = steepness(problem)[:, active]
        away = grid.load[:, active] - problem.even_target[active] * capacity
        steep, pull = slope[here], 2 * (slope * away)[here]
        every = np.arange(len(here))
        own = grid.standing[every, here]
        total: Floats = grid.standing[rows][:, here] - own[rows, None]
        total += grid.standing[:, here[rows]].T - own
        chosen = slice(None) if len(rows) == len(here) else rows
        for r in range(len(active)):
            total += self._squared[r][chosen] * (steep[rows, None, r] + steep[:, r])
            total += self._more[r][chosen] * (pull[rows, None, r] - pull[:, r])
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
    known: Mask = (pays > 0) | (grid.shared > 0)
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
    delta = node_cost(problem, after, here) - grid.cost[here]
    delta += node_cost(problem, beyond, there) - grid.cost[there]
    delta += grid.standing[units, there] - grid.standing[units, here]
    delta += grid.standing[others, here] - grid.standing[others, there]
    may = (after <= grid.limit[here]).all(axis=1)
    may &= (beyond <= grid.limit[there]).all(axis=1)
    may &= grid.open[units, there] & grid.open[others, here] & (here != there)
    if len(grid.count):
        met = grid.count[:, there].T - grid.member[others] > 0
        meeting = grid.count[:, here].T - grid.member[units] > 0
        delta += (grid.weighted[units] * met).sum(axis=1) - grid.shared[units]
        delta += (grid.weighted[others] * meeting).sum(axis=1)
        delta -= grid.shared[others]
        may &= (grid.strict[units] * met).sum(axis=1) == 0
        may &= (grid.strict[others] * meeting).sum(axis=1) == 0
    may &= affordable_swaps(grid, units, others)
    delta[~may] = np.inf
    return delta


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
