"""One who is away goes home, and another leaves: what that gains in a small cluster."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opendrs.policies.optimising.grid import Grid
from opendrs.policies.optimising.groups import Floats, Indices, Mask


class Replacement(NamedTuple):
    """Who goes home, and who leaves for where instead."""

    home: int
    unit: int
    target: int


def replacements(grid: Grid, least: float, most: int) -> list[Replacement]:
    """Return what seems to gain most, best first, if it is more than *least*.

    For two moves together evenness is a quadratic form, so what they gain is right
    where nothing else changes; who would only fit, or only keep a rule, once the other
    has gone home is passed over. So all that are returned may be made.

    Args:
        grid: Where units are.
        least: What must be gained.
        most: How many to return.
    """
    back = np.flatnonzero(grid.away)
    back = back[grid.may[grid.problem.origin[back], back]]
    if not len(back) or not len(grid.budgets):
        return []
    more = grid.shifts()
    returning = more[grid.problem.origin[back], back]
    more[~grid.may | grid.away] = np.inf
    change, targets = _changes(grid, back, more)
    change += returning[:, None]
    change[~_affordable(grid, back)] = np.inf
    found = []
    for _ in range(most):
        place = int(change.argmin())
        if not -change.flat[place] > least:
            break
        change.flat[place] = np.inf
        row, unit = divmod(place, len(grid.away))
        found.append(Replacement(int(back[row]), unit, int(targets.flat[place])))
    return found


def _changes(grid: Grid, back: Indices, more: Floats) -> tuple[Floats, Indices]:
    """Return what it costs more that each leaves for the best target, and that target.

    That is where it would go anyhow, or what one of *back* leaves, but never the home
    of that; both shapes are (len(back), G).
    """
    here, home = grid.node_of[back][:, None], grid.problem.origin[back][:, None]
    at_here, at_home = _together(grid, back, here), _together(grid, back, home)
    first = more.argmin(axis=0)
    to_first = more[first, np.arange(len(first))] - at_here * (first == here)
    to_first[first == home] = np.inf
    to_here = more[here[:, 0]] - at_here
    targets = np.where(to_here < to_first, here, first)
    change = np.minimum(to_first, to_here)
    source = grid.problem.origin
    change += at_here * (source == here)
    change -= at_home * (source == home)
    return change, targets


def _together(grid: Grid, back: Indices, nodes: Indices) -> Floats:
    """Return what each unit costs more on *nodes* beside one of *back*.

    (x + y)^2 - x^2 - y^2 = 2 x y.
    """
    tariff = grid.tariff
    demand = grid.problem.demand[:, tariff.uneven]
    both: Floats = (2 * demand[back] * tariff.steep[nodes[:, 0]]) @ demand.T
    return both


def _affordable(grid: Grid, back: Indices) -> Mask:
    """Return who may leave when one of *back* goes home; shape (len(back), G)."""
    may = np.ones((len(back), len(grid.away)), np.bool_)
    for measure, spent, most in zip(
        grid.problem.measures, grid.spent, grid.budgets, strict=True
    ):
        may &= (spent - measure[back])[:, None] + measure <= most
    return may
