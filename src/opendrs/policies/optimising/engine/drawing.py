"""Moves drawn at random; compiled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opendrs.policies.optimising.engine.compiled import part
from opendrs.policies.optimising.engine.feasibility import may_go
from opendrs.policies.optimising.engine.state import State
from opendrs.policies.optimising.engine.tables import NONE, Tables

TRIES = 32  # draws after which a unit that hardly fits anywhere is left


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


class Move(NamedTuple):
    """A unit goes to a target, and drives another from there to a third node.

    The other is NONE where nobody is driven away, the target NONE where the draw came
    to nothing.
    """

    unit: int
    target: int
    other: int
    third: int


@part
def draw(state: State) -> float:
    """Return a random number in [0, 1): xorshift64*."""
    x = state.dice[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state.dice[0] = x
    return float((x * np.uint64(2685821657736338717)) >> np.uint64(11)) * 2.0**-53


@part
def one_of(state: State, count: int) -> int:
    """Return a random number below *count*."""
    return int(draw(state) * count)


@part
def one_alike(tables: Tables, state: State, unit: int) -> int:
    """Return another unit, more often than not one of about the size of *unit*."""
    way = 2.0 * draw(state) - 1.0
    at = tables.rank[unit] + int(way * way * way * len(tables.order))
    if at < 0 or at >= len(tables.order):
        at = one_of(state, len(tables.order))
    return int(tables.order[at])


@part
def has_place(state: State, node: int) -> bool:
    """Return whether the list of *node* has room for a unit more."""
    return bool(state.units_on[node] + 1 < state.standing.shape[1])


@part
def one_open(tables: Tables, state: State, unit: int) -> int:
    """Return another node where *unit* can be; NONE where none is found soon."""
    for _ in range(TRIES):
        node = one_of(state, len(state.units_on))
        if node != state.node_of[unit] and may_go(tables, unit, node):
            return node
    return NONE


@part
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


@part
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
