"""Simulated annealing by shifts, swaps and ejections; compiled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opendrs.policies.optimising.engine.compiled import compiled, part
from opendrs.policies.optimising.engine.costs import node_after
from opendrs.policies.optimising.engine.drawing import (
    Habits,
    Move,
    draw,
    drawn_move,
    has_place,
    one_of,
)
from opendrs.policies.optimising.engine.lock import give_back, take
from opendrs.policies.optimising.engine.moves import (
    chain_delta,
    may_be,
    may_join,
    relocate,
    shift_delta,
)
from opendrs.policies.optimising.engine.settling import settle
from opendrs.policies.optimising.engine.state import (
    COST,
    LOGGED,
    OVERFULL,
    State,
)
from opendrs.policies.optimising.engine.tables import NONE, Tables
from opendrs.policies.optimising.groups import Indices

ALONE = -1
MOST_HEAT = 37.0  # the most that is tolerated, in temperatures: log 2**53


class Leg(NamedTuple):
    """A stretch of the schedule.

    Attributes:
        iterations: How many moves are tried.
        step: After how many of them temperature and prices change.
        hot: The temperature in the beginning.
        cold: The temperature at the end.
        dearer: By which factor what is over a limit becomes dearer in each step.
        cheaper: By which factor it becomes cheaper in each step where nothing is.
    """

    iterations: int
    step: int
    hot: float
    cold: float
    dearer: float
    cheaper: float


@part
def farther(tables: Tables, state: State, move: Move) -> int:
    """Return how many more units are away from their origin after *move*."""
    origin = tables.origin[move.unit]
    away = int(move.target != origin) - int(state.node_of[move.unit] != origin)
    if move.other != NONE:
        origin = tables.origin[move.other]
        away += int(move.third != origin) - int(move.target != origin)
    return away


@part
def may_meet(tables: Tables, state: State, move: Move) -> bool:
    """Return whether classes and strict groups let *move* be made."""
    unit, target, other, third = move
    return may_join(tables, state, unit, target, other) and (
        other == NONE or may_join(tables, state, other, third, unit)
    )


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


@part
def reprice(tables: Tables, state: State, leg: Leg) -> None:
    """Let what is over a limit cost more, and what is not over it less."""
    for node in range(len(state.units_on)):
        overfull = state.overfill[node] > 0.0
        for r in range(tables.capacity.shape[1]):
            held = state.load[node, r] + state.left[node, r]
            over = overfull and held > tables.limit[node, r]
            state.price[node, r] *= leg.dearer if over else leg.cheaper
        if overfull:
            _, state.overfill[node] = node_after(tables, state, node, NONE, NONE)


@part
def change_of(
    tables: Tables, state: State, move: Move, most: float
) -> tuple[float, float]:
    """Return how cost and overfill change by *move*; infinity where above *most*."""
    unit, target, other, third = move
    if other == NONE:
        return shift_delta(tables, state, unit, target, most)
    return chain_delta(tables, state, unit, other, third, most)


@part
def stands(tables: Tables, state: State, move: Move, source: int, bound: float) -> bool:
    """Return whether *move* is still one from *source* that changes *bound* at most.

    Others may have moved units while it was looked at.
    """
    unit, target, other, third = move
    if state.node_of[unit] != source or not has_place(state, target):
        return False
    if other != NONE and (
        state.node_of[other] != target or not has_place(state, third)
    ):
        return False
    if not may_meet(tables, state, move):
        return False
    delta, over = change_of(tables, state, move, bound)
    return delta + over <= bound


@part
def make(tables: Tables, state: State, move: Move) -> bool:
    """Make *move* if groups and budgets let it, and say whether; keep the best."""
    unit, target, other, third = move
    if not may_be(tables, state, unit, target, other, third):
        return False
    if other != NONE:
        relocate(tables, state, other, third)
    relocate(tables, state, unit, target)
    if state.sums[COST] < state.best_cost[0] and state.numbers[OVERFULL] == 0:
        keep_best(state)
    return True


@compiled
def anneal(
    tables: Tables, state: State, habits: Habits, leg: Leg, turn: int, lock: Indices
) -> int:
    """Try moves while the temperature falls; return how many were made.

    Nodes may be overfull on the way, for a price: where they are nearly full, there is
    little between good solutions that is not. Each limit has a price of its own, that
    grows while it is exceeded and falls slowly while it is not.

    Several threads may do this with one assignment, each with dice of its own: nearly
    all moves are given up once they have been looked at, which needs no lock. The one
    whose *turn* is 0 changes the prices; alone, it is ALONE.
    """
    if len(tables.movable) == 0:
        return 0
    temperature = leg.hot
    made = 0
    cooling = (leg.cold / leg.hot) ** (leg.step / max(leg.iterations, leg.step))
    for i in range(leg.iterations):
        if i % leg.step == leg.step - 1:
            temperature *= cooling
            if turn <= 0:
                take(lock)
                reprice(tables, state, leg)
                give_back(lock)
        move = drawn_move(tables, state, habits)
        source = state.node_of[move.unit]
        if move.target in (NONE, source) or not may_meet(tables, state, move):
            continue
        pull = 0.0
        if habits.drift != 0.0:
            pull = habits.drift * temperature * farther(tables, state, move)
        most = MOST_HEAT * temperature - pull
        delta, over = change_of(tables, state, move, most)
        if delta + over > most:
            continue
        bound = -temperature * np.log(1.0 - draw(state)) - pull
        if delta + over > bound:
            continue
        take(lock)
        if turn == ALONE or stands(tables, state, move, source, bound):
            made += make(tables, state, move)
        give_back(lock)
    return made


@compiled
def start(tables: Tables, state: State) -> None:
    """Work out the sums of the assignment, and keep it as the best."""
    settle(tables, state)
    state.numbers[LOGGED] = len(state.log)
    keep_best(state)


@compiled
def mean_changes(tables: Tables, state: State, sample: int) -> tuple[float, float]:
    """Return by how much drawn shifts change cost and overfill on average."""
    cost, overfill, count = 0.0, 0.0, 0
    for _ in range(sample if len(state.node_of) > 0 else 0):
        unit = one_of(state, len(state.node_of))
        target = one_of(state, len(state.units_on))
        if target != state.node_of[unit] and may_join(
            tables, state, unit, target, NONE
        ):
            delta, over = shift_delta(tables, state, unit, target, np.inf)
            cost += abs(delta)
            overfill += abs(over)
            count += 1
    return cost / max(count, 1), overfill / max(count, 1)
