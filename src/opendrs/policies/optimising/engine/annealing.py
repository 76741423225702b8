"""Simulated annealing by shifts and swaps; compiled."""

from __future__ import annotations

import numpy as np

from opendrs.policies.optimising.engine.compiled import compiled, inlined, part
from opendrs.policies.optimising.engine.moves import (
    may_join,
    relocate,
    settle,
    shift_delta,
    shift_stands_well,
    swap_delta,
    swap_stands_well,
)
from opendrs.policies.optimising.engine.state import COST, LOGGED, OVERFULL, State
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


@compiled
def anneal(
    tables: Tables,
    state: State,
    iterations: int,
    hot: float,
    cold: float,
    swaps: float,
    price: float,
) -> int:
    """Try *iterations* moves while the temperature falls from *hot* to *cold*.

    Overfill costs *price* a unit; 0 forbids it.
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
        if draw(state) < swaps:
            other = one_of(state, units)
            target = state.node_of[other]
            if target == source:
                continue
            if not may_join(tables, state, unit, target, other):
                continue
            if not may_join(tables, state, other, source, unit):
                continue
            delta, over = swap_delta(tables, state, unit, other)
        else:
            other = NONE
            target = one_of(state, nodes)
            if target == source or state.units_on[target] + 1 >= width:
                continue
            if not may_join(tables, state, unit, target, NONE):
                continue
            delta, over = shift_delta(tables, state, unit, target)
        if over > 0.0 and price == 0.0:
            continue
        if delta + price * over > bound:
            continue
        if other != NONE:
            if not swap_stands_well(tables, state, unit, other):
                continue
            relocate(tables, state, other, source)
        elif not shift_stands_well(tables, state, unit, target):
            continue
        relocate(tables, state, unit, target)
        accepted += 1
        if (
            state.sums[COST] < state.best_cost[0] - 1e-9
            and state.numbers[OVERFULL] == 0
        ):
            keep_best(state)
    return accepted


@compiled
def start(tables: Tables, state: State) -> None:
    """Work out the sums of the assignment, and keep it as the best."""
    settle(tables, state)
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
