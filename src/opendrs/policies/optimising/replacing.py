"""One who is away goes home, and another leaves: what that gains in a small cluster."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opendrs.policies.optimising.grid import Grid
from opendrs.policies.optimising.groups import Floats, Indices, Mask
from opendrs.policies.optimising.valuation import steepness


class Replacement(NamedTuple):
    """Who goes home, and who leaves for where instead."""

    home: int
    unit: int
    target: int


def replacements(grid: Grid, least: float, most: int) -> list[Replacement]:
    """Return what seems to gain most, best first, if it is more than *least*.

    For two moves together evenness is a quadratic form, so what they gain is right
    where nothing else changes; who would only fit, or only keep a rule, once the other
    has gone home is passed over.

    Args:
        grid: Where units are.
        least: What must be gained.
        most: How many to return.
    """
    problem = grid.problem
    back = np.flatnonzero(grid.away)
    if not len(back) or not len(problem.budgets):
        return []
    more, may = grid.shifts(), grid.may_shift()
    origin = problem.origin
    back = back[may[back, origin[back]]]
    returning = more[back, origin[back]]
    more[~may | grid.away[:, None]] = np.inf
    first = more.argmin(axis=1)
    shape = (len(back), len(first))
    found = [
        _changes(grid, back, returning, more, np.broadcast_to(targets, shape))
        for targets in (first, grid.node_of[back][:, None], origin[back][:, None])
    ]
    changes = np.stack([each[0] for each in found])
    best = changes.argmin(axis=0)
    change = np.take_along_axis(changes, best[None], axis=0)[0]
    change[~_affordable(grid, back)] = np.inf
    flat = change.ravel()
    chosen = np.argsort(flat, kind="stable")[:most]
    rows, units = np.divmod(chosen[flat[chosen] < -least], len(first))
    return [
        Replacement(int(back[i]), int(unit), int(found[best[i, unit]][1][i, unit]))
        for i, unit in zip(rows.tolist(), units.tolist(), strict=True)
    ]


def _changes(
    grid: Grid, back: Indices, returning: Floats, more: Floats, targets: Indices
) -> tuple[Floats, Indices]:
    """Return what it costs more that units leave for *targets*, one for each of *back*.

    Both shapes are (len(back), G).
    """
    problem = grid.problem
    slope = steepness(problem)
    here, home = grid.node_of[back], problem.origin[back]
    demand, source = problem.demand, problem.origin
    units = np.arange(len(demand))
    # (x + y)^2 - x^2 - y^2 = 2 x y, for each node on which both change something.
    at_here = 2 * (demand[back] * slope[here]) @ demand.T
    at_home = 2 * (demand[back] * slope[home]) @ demand.T
    cross = at_here * (
        (source == here[:, None]).astype(float) - (targets == here[:, None])
    )
    cross += at_home * (
        (targets == home[:, None]).astype(float) - (source == home[:, None])
    )
    return more[units, targets] + returning[:, None] + cross, targets


def _affordable(grid: Grid, back: Indices) -> Mask:
    """Return who may leave when one of *back* goes home; shape (len(back), G)."""
    may = np.ones((len(back), len(grid.away)), np.bool_)
    for measure, spent, most in zip(
        grid.problem.measures, grid.spent, grid.budgets, strict=True
    ):
        may &= (spent - measure[back])[:, None] + measure <= most
    return may
