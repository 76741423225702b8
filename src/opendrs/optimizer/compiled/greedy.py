"""Greedy selection of shifts by gain per price; compiled."""

from __future__ import annotations

from typing import NamedTuple

from opendrs.optimizer.compiled.compiler import compiled, compiled_inner
from opendrs.optimizer.compiled.costs import node_cost_after
from opendrs.optimizer.compiled.moves import (
    apply_move,
    arrival_delta,
    can_move,
    can_place,
)
from opendrs.optimizer.problem import Floats, Indices, Mask
from opendrs.optimizer.problem_arrays import NONE, ProblemArrays, SolutionState

BLOCK_SIZE = 256  # groups per block, of which the best score is kept


class ShiftQueue(NamedTuple):
    """Groups in the order in which their shifts are evaluated.

    Attributes:
        price: Price of moving each group; shape (G,), positive.
        score: Upper estimate of the gain per price of each group; shape (G,). It is
            evaluated lazily, since a move rarely increases the gain of others.
        block_best: Best score of each block.
        targets: Targets of groups of wide placement classes.
        is_narrow: Placement classes with so few nodes that all of them are evaluated.
    """

    price: Floats
    score: Floats
    block_best: Floats
    targets: Indices
    is_narrow: Mask


@compiled_inner
def best_shift(
    arrays: ProblemArrays, state: SolutionState, group: int, queue: ShiftQueue
) -> tuple[float, int]:
    """Return the gain of the best shift of *group*, and its target or NONE."""
    gain, best_target = 0.0, NONE
    everywhere = queue.is_narrow[arrays.class_of[group]]
    count = len(state.group_count) if everywhere else len(queue.targets)
    source = state.node_of[group]
    cost_here, over_here = node_cost_after(arrays, state, source, NONE, group)
    for i in range(count):
        node = i if everywhere else queue.targets[i]
        if node == source or not can_place(arrays, state, group, node, NONE):
            continue
        delta, over = arrival_delta(arrays, state, group, node)
        delta += cost_here
        if over + over_here <= 0.0 and -delta > gain:
            gain, best_target = -delta, node
    return gain, best_target


@compiled_inner
def refresh_block(score: Floats, top: Floats, block: int) -> None:
    """Recompute the best score of a block."""
    best = 0.0
    for group in range(block * BLOCK_SIZE, min((block + 1) * BLOCK_SIZE, len(score))):
        best = max(best, score[group])
    top[block] = best


@compiled_inner
def best_block(top: Floats) -> int:
    """Return the block with the best score; the first of equals."""
    best = 0
    for block in range(1, len(top)):
        if top[block] > top[best]:
            best = block
    return best


@compiled
def greedy_shifts(
    arrays: ProblemArrays, state: SolutionState, queue: ShiftQueue, max_moves: int
) -> int:
    """Make up to *max_moves* shifts by gain per price; return their number."""
    score, top = queue.score, queue.block_best
    for block in range(len(top)):
        refresh_block(score, top, block)
    move_count = 0
    while move_count < max_moves:
        block = best_block(top)
        if not top[block] > 0.0:
            break
        group = block * BLOCK_SIZE
        while score[group] < top[block]:
            group += 1
        gain, target = best_shift(arrays, state, group, queue)
        score[group] = gain / queue.price[group]
        refresh_block(score, top, block)
        if target == NONE or score[group] < top[best_block(top)]:
            continue
        score[group] = 0.0  # each group is shifted at most once
        refresh_block(score, top, block)
        if can_move(arrays, state, group, target, NONE, NONE):
            apply_move(arrays, state, group, target)
            move_count += 1
    return move_count
