"""Simulated annealing by shifts and swaps; compiled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opendrs.policies.optimising.engine.compiled import compiled, inlined, part
from opendrs.policies.optimising.engine.moves import (
    chain_delta,
    may_be,
    may_join,
    relocate,
    settle,
    shift_delta,
)
from opendrs.policies.optimising.engine.state import COST, LOGGED, State
from opendrs.policies.optimising.engine.tables import NONE, Tables


@inlined
def draw(state: State) -> float:
    """Return a random number in [0, 1): xorshift64*."""
    x = state.dice[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state.dice[0] = x
    return float((x * np.uint64(2685821657736338717)) >> np.uint64(11)) * 2.0**-53


@inlined
def one_of(state: State, count: int) -> int:
    """Return a random number below *count*."""
    return int(draw(state) * count)


@part
def keep_best(state: State) -> None:
    """Take the assignment over as the best one."""
    logged = state.numbers[LOGGED]
    if logged < len(state.log):
        for i in range(logged):
            state.best[state.log[i]] = state.node_of[state.log[i]]
    else:
        for unit in range(len(state.best)):
            state.best[unit] = state.node_of[unit]
    state.numbers[LOGGED] = 0
    state.best_cost[0] = state.sums[COST]


class Habits(NamedTuple):
    """Which moves are tried, how often.

    Attributes:
        swaps: The part of the moves that exchange two units.
        home: The part of the others that take a unit back to its origin.
        ejections: The part of the others that drive a unit from the target.
        drift: How much units are drawn home while it is hot, in temperatures. There
            are many nodes to go to and one to come from, so heat alone fills what
            moving uses up (transient resources, budgets) with moves of no worth.
    """

    swaps: float
    home: float
    ejections: float
    drift: float


@compiled
def anneal(
    tables: Tables,
    state: State,
    habits: Habits,
    iterations: int,
    hot: float,
    cold: float,
) -> int:
    """Try *iterations* moves while the temperature falls from *hot* to *cold*.

    Returns how many were made.
    """
    units = len(state.node_of)
    nodes = len(state.units_on)
    width = state.standing.shape[1]
    temperature = hot
    accepted = 0
    cooling = (cold / hot) ** (1000.0 / max(iterations, 1000))
    for i in range(iterations):
        if i % 1000 == 999:
            temperature *= cooling
        bound = -temperature * np.log(1.0 - draw(state))
        unit = one_of(state, units)
        source = state.node_of[unit]
        other = NONE
        third = NONE
        delta = 0.0
        over = 0.0
        if draw(state) < habits.swaps:
            other = one_of(state, units)
            target = state.node_of[other]
            third = source
            if target == source:
                continue
        else:
            target = one_of(state, nodes)
            if draw(state) < habits.home:
                target = tables.origin[unit]
            if target == source or state.units_on[target] + 1 >= width:
                continue
            if draw(state) < habits.ejections and state.units_on[target] > 0:
                other = state.standing[target, one_of(state, state.units_on[target])]
                third = tables.origin[other]
                if third == target or draw(state) < 0.5:
                    third = one_of(state, nodes)
                if third == target or state.units_on[third] + 1 >= width:
                    continue
        if not may_join(tables, state, unit, target, other):
            continue
        if other != NONE:
            if not may_join(tables, state, other, third, unit):
                continue
            delta, over = chain_delta(tables, state, unit, other, third)
        else:
            delta, over = shift_delta(tables, state, unit, target)
        if over > 0.0:
            continue
        if habits.drift != 0.0:
            origin = tables.origin[unit]
            away = int(target != origin) - int(source != origin)
            if other != NONE:
                origin = tables.origin[other]
                away += int(third != origin) - int(target != origin)
            bound -= habits.drift * temperature * away
        if delta > bound:
            continue
        if not may_be(tables, state, unit, target, other, third):
            continue
        if other != NONE:
            relocate(tables, state, other, third)
        relocate(tables, state, unit, target)
        accepted += 1
        if state.sums[COST] < state.best_cost[0]:
            keep_best(state)
    return accepted


@compiled
def start(tables: Tables, state: State) -> None:
    """Work out the sums of the assignment, and keep it as the best."""
    settle(tables, state)
    state.numbers[LOGGED] = len(state.log)
    keep_best(state)


@compiled
def mean_change(tables: Tables, state: State, sample: int) -> float:
    """Return by how much drawn shifts that may be made change the cost on average."""
    total, count = 0.0, 0
    for _ in range(sample):
        unit = one_of(state, len(state.node_of))
        target = one_of(state, len(state.units_on))
        if target != state.node_of[unit] and may_join(
            tables, state, unit, target, NONE
        ):
            delta, over = shift_delta(tables, state, unit, target)
            if over <= 0.0:
                total += abs(delta)
                count += 1
    return total / count if count > 0 else 0.0
