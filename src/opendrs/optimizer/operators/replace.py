"""Replacements in a small cluster: a displaced group returns, another one leaves."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opendrs.optimizer.operators.shift import ShiftTable
from opendrs.optimizer.problem import Floats, Indices, Mask


class ReplaceMove(NamedTuple):
    """A displaced group that returns, and a group that leaves for a target instead."""

    returning: int
    group: int
    target: int


def best_replacements(
    table: ShiftTable, min_gain: float, max_count: int
) -> list[ReplaceMove]:
    """Return the replacements with the largest estimated gain above *min_gain*.

    The imbalance cost of two moves is a quadratic form, so the estimate is exact if no
    other cost changes. Moves that become feasible only after the other group has
    returned are not considered; every returned replacement is feasible.

    Args:
        table: Current assignment.
        min_gain: Gain to exceed.
        max_count: Most replacements to return.

    Returns:
        Replacements, the largest gain first.
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
    """Return the cost change of the best departure per return, and its target.

    The target is the best one without the return, or the node that the displaced group
    leaves, but not the origin of that group. Both shapes are (returning, G).
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
    """Return the additional cost of each group on *nodes* next to *returning*.

    From (x + y)^2 - x^2 - y^2 = 2 x y.
    """
    costs = table.node_costs
    demand = table.problem.demand[:, costs.balanced_resources]
    both: Floats = (2 * demand[returning] * costs.curvature[nodes[:, 0]]) @ demand.T
    return both


def _within_budgets(table: ShiftTable, returning: Indices) -> Mask:
    """Return the groups that may leave when *returning* return; (returning, G)."""
    affordable = np.ones((len(returning), len(table.is_displaced)), np.bool_)
    for measure, spent, most in zip(
        table.problem.budget_weights, table.spent, table.budgets, strict=True
    ):
        affordable &= (spent - measure[returning])[:, None] + measure <= most
    return affordable
