"""Fractional knapsack: the largest value within budgets."""

from __future__ import annotations

import numpy as np

from opendrs.optimizer.problem import Floats

BISECTION_STEPS = 40  # of the price of the last budget


def fractional_knapsack(value: Floats, costs: Floats, budgets: Floats) -> Floats:
    """Return the fraction of each item to take for the largest value.

    Args:
        value: Value of each item; shape (G,). Items without value are not taken.
        costs: Use of each budget by each item; shape (B, G), not negative.
        budgets: Limit of each budget; shape (B,).

    Returns:
        Fractions in [0, 1]; shape (G,).

    Source:
        Dantzig, Discrete-variable extremum problems (1957), for one budget. Further
        budgets get Lagrange multipliers.
    """
    part = (value > 0).astype(float)
    tight = costs @ part > budgets
    if not tight.any():
        return part
    if len(budgets) == 1:
        return _by_density(value, costs[0], float(budgets[0]))
    return _by_multiplier(value, costs, budgets)


def _by_density(value: Floats, cost: Floats, budget: float) -> Floats:
    """Return the fractions within one budget, by value per cost."""
    part = np.zeros(len(value))
    wanted = np.flatnonzero(value > 0)
    with np.errstate(divide="ignore"):
        density = value[wanted] / cost[wanted]
    order = wanted[np.argsort(-density, kind="stable")]
    spent = np.cumsum(cost[order])
    whole = int(np.searchsorted(spent, budget, side="right"))
    part[order[:whole]] = 1.0
    if whole < len(order):
        left = budget - (spent[whole - 1] if whole else 0.0)
        part[order[whole]] = left / cost[order[whole]]
    return part


def _by_multiplier(value: Floats, costs: Floats, budgets: Floats) -> Floats:
    """Return the fractions within several budgets, with a price for the last."""
    cost, budget = costs[-1], float(budgets[-1])
    part = fractional_knapsack(value, costs[:-1], budgets[:-1])
    if cost @ part <= budget:
        return part
    low_price, high_price = 0.0, _max_price(value, cost)
    low = part
    high = np.zeros(len(value))
    for _ in range(BISECTION_STEPS):
        price = (low_price + high_price) / 2
        part = fractional_knapsack(value - price * cost, costs[:-1], budgets[:-1])
        if cost @ part > budget:
            low_price, low = price, part
        else:
            high_price, high = price, part
    # Both are optimal at the limit price, and so is the mixture that uses the budget.
    most, least = float(cost @ low), float(cost @ high)
    mixed = (budget - least) / (most - least)
    return mixed * low + (1 - mixed) * high


def _max_price(value: Floats, cost: Floats) -> float:
    """Return a price at which no item is worth its cost."""
    costly = cost > 0
    return float((value[costly] / cost[costly]).max()) * (1 + 1e-9)
