"""Which parts of things to take so that they are worth most, within budgets."""

from __future__ import annotations

import numpy as np

from opendrs.policies.optimising.groups import Floats

HALVINGS = 40  # of the price of what a further budget counts


def fractions(worth: Floats, costs: Floats, budgets: Floats) -> Floats:
    """Return the part of each thing to take, in [0, 1], so that they are worth most.

    Args:
        worth: What each thing is worth; shape (G,). What is worth nothing is left.
        costs: What each thing costs of each budget; shape (B, G), not negative.
        budgets: What there is of each; shape (B,).

    Source:
        Dantzig, Discrete-variable extremum problems (1957), for one budget. Of
        further ones, prices are found under which they are kept: Lagrange.
    """
    part = (worth > 0).astype(float)
    tight = costs @ part > budgets
    if not tight.any():
        return part
    if len(budgets) == 1:
        return _by_density(worth, costs[0], float(budgets[0]))
    return _by_price(worth, costs, budgets)


def _by_density(worth: Floats, cost: Floats, budget: float) -> Floats:
    """Return what to take within one budget: what is worth most for its cost."""
    part = np.zeros(len(worth))
    wanted = np.flatnonzero(worth > 0)
    with np.errstate(divide="ignore"):
        density = worth[wanted] / cost[wanted]
    order = wanted[np.argsort(-density, kind="stable")]
    spent = np.cumsum(cost[order])
    whole = int(np.searchsorted(spent, budget, side="right"))
    part[order[:whole]] = 1.0
    if whole < len(order):
        left = budget - (spent[whole - 1] if whole else 0.0)
        part[order[whole]] = left / cost[order[whole]]
    return part


def _by_price(worth: Floats, costs: Floats, budgets: Floats) -> Floats:
    """Return what to take within several budgets, the last of which gets a price."""
    cost, budget = costs[-1], float(budgets[-1])
    part = fractions(worth, costs[:-1], budgets[:-1])
    if cost @ part <= budget:
        return part
    cheap, dear = 0.0, _highest_price(worth, cost)
    low = part
    high = np.zeros(len(worth))
    for _ in range(HALVINGS):
        price = (cheap + dear) / 2
        part = fractions(worth - price * cost, costs[:-1], budgets[:-1])
        if cost @ part > budget:
            cheap, low = price, part
        else:
            dear, high = price, part
    # At one price both are best; the mixture that spends the budget is, too.
    most, least = float(cost @ low), float(cost @ high)
    mixed = (budget - least) / (most - least)
    return mixed * low + (1 - mixed) * high


def _highest_price(worth: Floats, cost: Floats) -> float:
    """Return a price at which nothing is worth its cost."""
    costly = cost > 0
    return float((worth[costly] / cost[costly]).max()) * (1 + 1e-9)
