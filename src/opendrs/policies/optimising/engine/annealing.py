"""Simulated annealing by shifts, swaps and ejections; compiled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opendrs.policies.optimising.engine.compiled import compiled, inlined, part
from opendrs.policies.optimising.engine.costs import node_after
from opendrs.policies.optimising.engine.lock import give_back, take
from opendrs.policies.optimising.engine.moves import (
    chain_delta,
    may_be,
    may_go,
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
TRIES = 32  # draws after which a unit that hardly fits anywhere is left
MOST_HEAT = 37.0  # the most that is tolerated, in temperatures: log 2**53


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


class Move(NamedTuple):
    """A unit goes to a target, and drives another from there to a third node.

    The other is NONE where nobody is driven away, the target NONE where the draw came
    to nothing.
    """

    unit: int
    target: int
    other: int
    third: int


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


@inlined
def one_alike(tables: Tables, state: State, unit: int) -> int:
    """Return another unit, more often than not one of about the size of *unit*."""
    way = 2.0 * draw(state) - 1.0
    at = tables.rank[unit] + int(way * way * way * len(tables.order))
    if at < 0 or at >= len(tables.order):
        at = one_of(state, len(tables.order))
    return int(tables.order[at])


@inlined
def one_open(tables: Tables, state: State, unit: int) -> int:
    """Return another node where *unit* can be; NONE where none is found soon."""
    for _ in range(TRIES):
        node = one_of(state, len(state.units_on))
        if node != state.node_of[unit] and may_go(tables, unit, node):
            return node
    return NONE


@inlined
def drawn_swap(tables: Tables, state: State, unit: int) -> Move:
    """Return *unit* and another that can change places with it."""
    source = state.node_of[unit]
    for _ in range(TRIES // 4):
        other = one_alike(tables, state, unit)
        target = state.node_of[other]
        if (
            target != source
            and may_go(tables, unit, target)
            and may_go(tables, other, source)
        ):
            return Move(unit, target, other, source)
    return Move(unit, NONE, NONE, NONE)


@inlined
def drawn_move(tables: Tables, state: State, habits: Habits) -> Move:
    """Return a move drawn at random."""
    unit = int(tables.movable[one_of(state, len(tables.movable))])
    if draw(state) < habits.swaps:
        return drawn_swap(tables, state, unit)
    origin = int(tables.origin[unit])
    away = state.node_of[unit] != origin
    if away and draw(state) < habits.home:
        target = origin
    else:
        target = one_open(tables, state, unit)
    if target == NONE or not has_place(state, target):
        return Move(unit, NONE, NONE, NONE)
    if state.units_on[target] == 0 or draw(state) >= habits.ejections:
        return Move(unit, target, NONE, NONE)
    other = state.standing[target, one_of(state, state.units_on[target])]
    third = tables.origin[other]
    if third == target or draw(state) < 0.5:
        third = one_open(tables, state, other)
    if third == NONE or not has_place(state, third):
        return Move(unit, NONE, NONE, NONE)
    return Move(unit, target, other, third)


@inlined
def has_place(state: State, node: int) -> bool:
    """Return whether the list of *node* has room for a unit more."""
    return bool(state.units_on[node] + 1 < state.standing.shape[1])


@inlined
def farther(tables: Tables, state: State, move: Move) -> int:
    """Return how many more units are away from their origin after *move*."""
    origin = tables.origin[move.unit]
    away = int(move.target != origin) - int(state.node_of[move.unit] != origin)
    if move.other != NONE:
        origin = tables.origin[move.other]
        away += int(move.third != origin) - int(move.target != origin)
    return away


@inlined
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


@inlined
def change_of(
    tables: Tables, state: State, move: Move, most: float
) -> tuple[float, float]:
    """Return how cost and overfill change by *move*; infinity where above *most*."""
    unit, target, other, third = move
    if other == NONE:
        return shift_delta(tables, state, unit, target, most)
    return chain_delta(tables, state, unit, other, third, most)


@inlined
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


@inlined
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
    for _ in range(sample):
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
