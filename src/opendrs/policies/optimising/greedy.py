"""The best move, and the best after it, in compiled code."""

from __future__ import annotations

from typing import NamedTuple

from opendrs.policies.optimising.engine.compiled import compiled, part
from opendrs.policies.optimising.engine.costs import node_after
from opendrs.policies.optimising.engine.moves import (
    arrival_delta,
    may_be,
    may_join,
    relocate,
)
from opendrs.policies.optimising.engine.state import State
from opendrs.policies.optimising.engine.tables import NONE, Tables
from opendrs.policies.optimising.groups import Floats, Indices, Mask

BLOCK = 256  # units among which the best is kept


class Wishes(NamedTuple):
    """What is looked at first.

    Attributes:
        price: What moving each unit costs; shape (G,), positive.
        score: What each unit is taken to gain for its price, or more; found out when
            it comes to it, since moves seldom leave more to gain for others.
        top: The best score of each block; kept up to date.
        targets: Where units of wide classes go.
        narrow: Which classes have so few nodes that their units look at all.
    """

    price: Floats
    score: Floats
    top: Floats
    targets: Indices
    narrow: Mask


@part
def best_shift(
    tables: Tables, state: State, unit: int, wishes: Wishes
) -> tuple[float, int]:
    """Return the gain of the best move of *unit*, and where to; NONE without any."""
    gain, where = 0.0, NONE
    everywhere = wishes.narrow[tables.class_of[unit]]
    count = len(state.units_on) if everywhere else len(wishes.targets)
    source = state.node_of[unit]
    cost_here, over_here = node_after(tables, state, source, NONE, unit)
    for i in range(count):
        node = i if everywhere else wishes.targets[i]
        if node == source or not may_join(tables, state, unit, node, NONE):
            continue
        delta, over = arrival_delta(tables, state, unit, node)
        delta += cost_here
        if over + over_here <= 0.0 and -delta > gain:
            gain, where = -delta, node
    return gain, where


@part
def refresh(score: Floats, top: Floats, block: int) -> None:
    """Find the best score of a block anew."""
    best = 0.0
    for unit in range(block * BLOCK, min((block + 1) * BLOCK, len(score))):
        best = max(best, score[unit])
    top[block] = best


@part
def best_block(top: Floats) -> int:
    """Return the block with the best score; the first of equals."""
    best = 0
    for block in range(1, len(top)):
        if top[block] > top[best]:
            best = block
    return best


@compiled
def improve(tables: Tables, state: State, wishes: Wishes, most: int) -> int:
    """Make the moves that gain most for their price, up to *most*; say how many."""
    score, top = wishes.score, wishes.top
    for block in range(len(top)):
        refresh(score, top, block)
    made = 0
    while made < most:
        block = best_block(top)
        if not top[block] > 0.0:
            break
        unit = block * BLOCK
        while score[unit] < top[block]:
            unit += 1
        gain, target = best_shift(tables, state, unit, wishes)
        score[unit] = gain / wishes.price[unit]
        refresh(score, top, block)
        if target == NONE or score[unit] < top[best_block(top)]:
            continue
        score[unit] = 0.0  # who has moved stays, and so does who may not
        refresh(score, top, block)
        if may_be(tables, state, unit, target, NONE, NONE):
            relocate(tables, state, unit, target)
            made += 1
    return made
