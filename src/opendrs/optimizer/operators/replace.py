"""One who is away goes home, and another leaves: what that gains in a small cluster."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opendrs.optimizer.operators.shift import ShiftTable
from opendrs.optimizer.problem import Floats, Indices, Mask


class ReplaceMove(NamedTuple):
    """Who goes home, and who leaves for where instead."""

    returning: int
    group: int
    target: int


def best_replacements(
    table: ShiftTable, min_gain: float, max_count: int
) -> list[ReplaceMove]:
    """Return what seems to gain most, best first, if it is more than *min_gain*.

    For two moves together evenness is a quadratic form, so what they gain is right
    where nothing else changes; who would only fit, or only keep a rule, once the other
    has gone home is passed over. So all that are returned may be made.

    Args:
        table: Where units are.
        min_gain: What must be gained.
        max_count: How many to return.
    """
    returning = np.flatnonzero(table.is_displaced)
    returning = returning[table.can_shift[table.problem.origin[returning], returning]]
    if not len(returning) or not len(table.budgets):
        return []
    more = table.shift_deltas()
    return_delta = more[table.problem.origin[returning], returning]
    more[~table.can_shift | table.is_displaced] = np.inf
    change, targets = _replacement_deltas(table, returning, more)
    change += return_delta[:, None]
    change[~_within_budgets(table, returning)] = np.inf
    moves = []
    for _ in range(max_count):
        index = int(change.argmin())
        if not -change.flat[index] > min_gain:
            break
        change.flat[index] = np.inf
        row, group = divmod(index, len(table.is_displaced))
        moves.append(ReplaceMove(int(returning[row]), group, int(targets.flat[index])))
    return moves


def _replacement_deltas(
    table: ShiftTable, returning: Indices, more: Floats
) -> tuple[Floats, Indices]:
    """Return what it costs more that each leaves for the best target, and that target.

    That is where it would go anyhow, or what one of *returning* leaves, but never the home
    of that; both shapes are (len(back), G).
    """
    here, home = (
        table.node_of[returning][:, None],
        table.problem.origin[returning][:, None],
    )
    at_here, at_home = (
        _interaction(table, returning, here),
        _interaction(table, returning, home),
    )
    first = more.argmin(axis=0)
    to_first = more[first, np.arange(len(first))] - at_here * (first == here)
    to_first[first == home] = np.inf
    to_here = more[here[:, 0]] - at_here
    targets = np.where(to_here < to_first, here, first)
    change = np.minimum(to_first, to_here)
    source = table.problem.origin
    change += at_here * (source == here)
    change -= at_home * (source == home)
    return change, targets


def _interaction(table: ShiftTable, returning: Indices, nodes: Indices) -> Floats:
    """Return what each unit costs more on *nodes* beside one of *returning*.

    (x + y)^2 - x^2 - y^2 = 2 x y.
    """
    costs = table.node_costs
    demand = table.problem.demand[:, costs.balanced_resources]
    both: Floats = (2 * demand[returning] * costs.curvature[nodes[:, 0]]) @ demand.T
    return both


def _within_budgets(table: ShiftTable, returning: Indices) -> Mask:
    """Return who may leave when one of *returning* goes home; shape (len(back), G)."""
    affordable = np.ones((len(returning), len(table.is_displaced)), np.bool_)
    for measure, spent, most in zip(
        table.problem.budget_weights, table.spent, table.budgets, strict=True
    ):
        affordable &= (spent - measure[returning])[:, None] + measure <= most
    return affordable
