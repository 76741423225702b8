"""Swaps of two groups in a small cluster.

The imbalance gain of a swap is a quadratic form, evaluated for all pairs at once. All
other costs are computed only for the pairs with the largest imbalance gain.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opendrs.optimizer.operators.shift import ShiftTable
from opendrs.optimizer.problem import Floats, Indices, Mask

CHUNK_SIZE = 64  # pairs whose exact cost is computed at once


class SwapMove(NamedTuple):
    """Two groups that exchange nodes, and the gain; gain 0 and groups -1 for none."""

    gain: float
    group: int
    other: int


def best_swap(table: ShiftTable, min_gain: float) -> SwapMove:
    """Return the swap with the largest gain above *min_gain*."""
    best = SwapMove(min_gain, -1, -1)
    rows, every = _first_groups(table), np.arange(len(table.is_displaced))
    needs_exact = _needs_exact_delta(table)
    if needs_exact.any():
        groups = np.flatnonzero(needs_exact)
        groups, others = np.repeat(groups, len(every)), np.tile(every, len(groups))
        best = _better_swap(table, groups, others, best)
        rows = rows[~needs_exact[rows]]
    change = _one_sided_delta(table, rows, every)
    reverse = (
        change if len(rows) == len(every) else _one_sided_delta(table, every, rows)
    )
    flat = (change.T + reverse).ravel()
    promising = np.flatnonzero(flat < -best.gain)
    if not len(promising):
        return best if best.group >= 0 else SwapMove(0.0, -1, -1)
    groups, others = np.divmod(promising, len(every))
    affordable = (
        swaps_within_budgets(table, rows[groups], others) & ~needs_exact[others]
    )
    promising, groups, others = (
        promising[affordable],
        rows[groups[affordable]],
        others[affordable],
    )
    order = np.argsort(flat[promising], kind="stable")
    for begin in range(0, len(order), CHUNK_SIZE):
        chunk = order[begin : begin + CHUNK_SIZE]
        if flat[promising[chunk[0]]] >= -best.gain:
            break
        best = _better_swap(table, groups[chunk], others[chunk], best)
    return best if best.group >= 0 else SwapMove(0.0, -1, -1)


def _one_sided_delta(table: ShiftTable, groups: Indices, others: Indices) -> Floats:
    """Return the cost change on the nodes of *groups* by *others*; (others, groups).

    It includes the imbalance cost and the placement cost of *groups* on the nodes of
    *others*. The load of a node changes by x = b - a, at the cost s x^2 + p x. This is
    a product of terms of a and terms of b: s b^2 + (p - 2 s a) b + (s a - p) a.
    """
    costs, here, there = table.node_costs, table.node_of[groups], table.node_of[others]
    demand = table.problem.demand[:, costs.balanced_resources]
    a, b, s = demand[groups], demand[others], costs.curvature[here]
    p = (
        2
        * s
        * (table.load[here][:, costs.balanced_resources] - costs.target_load[here])
    )
    coefficients = np.hstack([s, p - 2 * s * a, (s * a - p) * a])
    total: Floats = np.hstack([b * b, b, np.ones(b.shape)]) @ coefficients.T
    total += (table.placement_cost[:, groups] - table.placement_cost[here, groups])[
        there
    ]
    return total


def _first_groups(table: ShiftTable) -> Indices:
    """Return groups of which every swap within the budgets has at least one.

    If no two further groups may leave, these are the displaced groups.
    """
    for measure, spent, most in zip(
        table.problem.budget_weights, table.spent, table.budgets, strict=True
    ):
        least = np.sort(measure[~table.is_displaced])[:2]
        if least.sum() > 0 and spent + least.sum() > most:
            return np.flatnonzero(table.is_displaced)
    return np.arange(len(table.is_displaced))


def _needs_exact_delta(table: ShiftTable) -> Mask:
    """Return the groups whose swaps may gain more than balance; shape (G,).

    They run on a node with overload or excess, share a node at a cost, or have a
    negative cost of sharing.
    """
    problem = table.problem
    over = np.maximum(table.load - problem.capacity, 0) * problem.overload_weight
    excess = np.maximum(table.load - problem.safety_capacity, 0) * problem.excess_weight
    pays = (over + excess).sum(axis=1)[table.node_of]
    needs_exact: Mask = (pays > 0) | (
        _sharing_cost(table, np.arange(len(table.is_displaced))) > 0
    )
    needs_exact |= table.weighted.min(axis=1, initial=0.0) < 0
    if table.limits is not None:
        needs_exact |= table.limits.delta.min(axis=0, initial=0.0) < 0
    return needs_exact


def _better_swap(
    table: ShiftTable, groups: Indices, others: Indices, best: SwapMove
) -> SwapMove:
    """Return the best of these swaps if it is better than *best*."""
    delta = swap_deltas(table, groups, others)
    index = int(delta.argmin())
    if -delta[index] > best.gain:
        return SwapMove(-float(delta[index]), int(groups[index]), int(others[index]))
    return best


def swap_deltas(table: ShiftTable, groups: Indices, others: Indices) -> Floats:
    """Return the cost change of each swap; inf if it is not feasible."""
    problem = table.problem
    here, there = table.node_of[groups], table.node_of[others]
    more = problem.demand[others] - problem.demand[groups]
    after, other_after = table.load[here] + more, table.load[there] - more
    delta = table.node_costs.cost(after, here) - table.node_cost[here]
    delta += table.node_costs.cost(other_after, there) - table.node_cost[there]
    delta += table.placement_cost[there, groups] - table.placement_cost[here, groups]
    delta += table.placement_cost[here, others] - table.placement_cost[there, others]
    allowed = (after <= table.limit[here]).all(axis=1)
    allowed &= (other_after <= table.limit[there]).all(axis=1)
    allowed &= (
        table.is_allowed[there, groups]
        & table.is_allowed[here, others]
        & (here != there)
    )
    if len(table.set_count):
        meets_there = table.set_count[:, there].T - table.member[others] > 0
        meets_here = table.set_count[:, here].T - table.member[groups] > 0
        delta += (table.weighted[groups] * meets_there).sum(axis=1) - _sharing_cost(
            table, groups
        )
        delta += (table.weighted[others] * meets_here).sum(axis=1)
        delta -= _sharing_cost(table, others)
        allowed &= (table.strict[groups] * meets_there).sum(axis=1) == 0
        allowed &= (table.strict[others] * meets_here).sum(axis=1) == 0
    if table.limits is not None:
        # Inexact for two groups of one set; the caller compares the total cost.
        delta += table.limits.delta[there, groups] + table.limits.delta[here, others]
    allowed &= swaps_within_budgets(table, groups, others)
    delta[~allowed] = np.inf
    return delta


def _sharing_cost(table: ShiftTable, groups: Indices) -> Floats:
    """Return the cost of sharing its node for each of *groups*."""
    others = table.set_count[:, table.node_of[groups]].T > 1
    paid: Floats = (table.weighted[groups] * others).sum(axis=1)
    return paid


def swaps_within_budgets(table: ShiftTable, groups: Indices, others: Indices) -> Mask:
    """Return the swaps that the budgets allow."""
    problem = table.problem
    here, there = table.node_of[groups], table.node_of[others]
    first = (there != problem.origin[groups]).astype(int) - table.is_displaced[groups]
    second = (here != problem.origin[others]).astype(int) - table.is_displaced[others]
    affordable = np.ones(len(groups), np.bool_)
    for measure, spent, most in zip(
        problem.budget_weights, table.spent, table.budgets, strict=True
    ):
        spends = first * measure[groups] + second * measure[others]
        affordable &= (spends <= 0) | (spent + spends <= most)
    return affordable
