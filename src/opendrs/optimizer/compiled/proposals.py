"""Random proposals of moves; compiled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opendrs.optimizer.compiled.compiler import compiled_inner
from opendrs.optimizer.compiled.moves import is_allowed
from opendrs.optimizer.problem_arrays import NONE, ProblemArrays, SolutionState

MAX_ATTEMPTS = 32  # draws of a target for a group that fits on few nodes
PARTNER_RATIO = 0.7  # part of the swaps with a preferred partner, if there are any


class ProposalWeights(NamedTuple):
    """Probabilities of the kinds of moves.

    Attributes:
        swap: Probability of a swap.
        home: Otherwise: probability that a displaced group returns.
        ejection: Otherwise: probability of ejecting a group from the target.
        drift: Preference for moves home at high temperatures, in temperatures. There
            are many targets and one origin, so heat alone would fill transient
            resources and budgets with worthless moves.
    """

    swap: float
    home: float
    ejection: float
    drift: float


class ProposedMove(NamedTuple):
    """A shift of a group, and the ejection of another from the target to a third node.

    `other` is NONE without ejection, `target` is NONE if the draw failed.
    """

    group: int
    target: int
    other: int
    third: int


@compiled_inner
def random_float(state: SolutionState) -> float:
    """Return a random number in [0, 1): xorshift64*."""
    x = state.random_state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state.random_state[0] = x
    return float((x * np.uint64(2685821657736338717)) >> np.uint64(11)) * 2.0**-53


@compiled_inner
def random_index(state: SolutionState, count: int) -> int:
    """Return a random integer in [0, count)."""
    return int(random_float(state) * count)


@compiled_inner
def random_similar_group(
    arrays: ProblemArrays, state: SolutionState, group: int
) -> int:
    """Return a preferred partner of *group*, or a group of probably similar size."""
    partners = arrays.swap_partners.shape[1]
    if partners > 0 and random_float(state) < PARTNER_RATIO:
        part = random_float(state)
        return int(arrays.swap_partners[group, int(part * part * partners)])
    offset = 2.0 * random_float(state) - 1.0
    at = arrays.size_rank[group] + int(
        offset * offset * offset * len(arrays.size_order)
    )
    if at < 0 or at >= len(arrays.size_order):
        at = random_index(state, len(arrays.size_order))
    return int(arrays.size_order[at])


@compiled_inner
def has_slot(state: SolutionState, node: int) -> bool:
    """Return True if the list of *node* has a slot for one more group."""
    return bool(state.group_count[node] + 1 < state.groups_on.shape[1])


@compiled_inner
def random_allowed_node(arrays: ProblemArrays, state: SolutionState, group: int) -> int:
    """Return another node that allows *group*, or NONE after too many draws."""
    for _ in range(MAX_ATTEMPTS):
        node = random_index(state, len(state.group_count))
        if node != state.node_of[group] and is_allowed(arrays, group, node):
            return node
    return NONE


@compiled_inner
def propose_swap(
    arrays: ProblemArrays, state: SolutionState, group: int
) -> ProposedMove:
    """Return a swap of *group* with another group that both nodes allow."""
    source = state.node_of[group]
    for _ in range(MAX_ATTEMPTS // 4):
        other = random_similar_group(arrays, state, group)
        target = state.node_of[other]
        if (
            target != source
            and is_allowed(arrays, group, target)
            and is_allowed(arrays, other, source)
        ):
            return ProposedMove(group, target, other, source)
    return ProposedMove(group, NONE, NONE, NONE)


@compiled_inner
def propose_move(
    arrays: ProblemArrays, state: SolutionState, weights: ProposalWeights
) -> ProposedMove:
    """Return a random move."""
    group = int(arrays.movable[random_index(state, len(arrays.movable))])
    if random_float(state) < weights.swap:
        return propose_swap(arrays, state, group)
    origin = int(arrays.origin[group])
    away = state.node_of[group] != origin
    if away and random_float(state) < weights.home:
        target = origin
    else:
        target = random_allowed_node(arrays, state, group)
    if target == NONE or not has_slot(state, target):
        return ProposedMove(group, NONE, NONE, NONE)
    if state.group_count[target] == 0 or random_float(state) >= weights.ejection:
        return ProposedMove(group, target, NONE, NONE)
    other = state.groups_on[target, random_index(state, state.group_count[target])]
    third = arrays.origin[other]
    if third == target or random_float(state) < 0.5:
        third = random_allowed_node(arrays, state, other)
    if third == NONE or not has_slot(state, third):
        return ProposedMove(group, NONE, NONE, NONE)
    return ProposedMove(group, target, other, third)
