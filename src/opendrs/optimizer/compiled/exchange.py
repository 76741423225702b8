"""Exchange moves within budgets; compiled.

If budgets bind, hardly any single move is feasible. So both moves are made at once: a
displaced group returns, and another one leaves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opendrs.optimizer.compiled.annealing import store_best
from opendrs.optimizer.compiled.compiler import compiled, compiled_inner
from opendrs.optimizer.compiled.costs import group_cost, node_cost_after, sharing_cost
from opendrs.optimizer.compiled.moves import apply_move, budget_change, can_place
from opendrs.optimizer.compiled.proposals import random_float, random_index
from opendrs.optimizer.problem import Indices
from opendrs.optimizer.problem_arrays import COST, NONE, ProblemArrays, SolutionState

UPDATE_INTERVAL = 100  # moves between two temperature changes
MOVE_AWAY = 0.05  # a candidate leaves
MOVE_HOME = 0.08  # a displaced group returns
CHANGE_TARGET = 0.23  # a displaced group changes its target
SWAP_TARGETS = 0.35  # two displaced groups exchange targets
REPLACE_SAME_TARGET = 0.5  # a group leaves from the same origin to the same target
REPLACE_NEW_TARGET = 0.65  # a group leaves from the same origin to another target
REPLACE_AT_TARGET = 0.8  # a group leaves from another origin to the same target


class DisplacedGroups(NamedTuple):
    """Displaced groups, and candidates to leave.

    Attributes:
        displaced: Displaced groups, in the first `displaced_count` places; shape (G,).
        slot: Place of each group in `displaced`, or NONE; shape (G,).
        displaced_count: Number of displaced groups; shape (1,).
        candidates: Groups that gain most by leaving.
        targets: Targets of groups that leave.
    """

    displaced: Indices
    slot: Indices
    displaced_count: Indices
    candidates: Indices
    targets: Indices


class BudgetStage(NamedTuple):
    """A stage of the schedule.

    Attributes:
        iterations: Number of moves to evaluate.
        start_temperature: Temperature at the start.
        end_temperature: Temperature at the end.
    """

    iterations: int
    start_temperature: float
    end_temperature: float


class ExchangeMove(NamedTuple):
    """A move of one group, and of another one to a third node.

    Attributes:
        group: First group; NONE if the draw failed.
        target: Target of the first group.
        other: Second group, or NONE.
        third: Target of the second group.
        chained: True if the first group moves to the node of the second. Otherwise the
            two moves have no node in common.
    """

    group: int
    target: int
    other: int
    third: int
    chained: bool


@compiled_inner
def propose_exchange(
    arrays: ProblemArrays, state: SolutionState, displaced: DisplacedGroups
) -> ExchangeMove:
    """Return a random exchange move."""
    kind = random_float(state)
    fresh = displaced.candidates[random_index(state, len(displaced.candidates))]
    target = displaced.targets[random_index(state, len(displaced.targets))]
    count = displaced.displaced_count[0]
    if count == 0 or kind < MOVE_AWAY:
        return ExchangeMove(fresh, target, NONE, NONE, False)  # noqa: FBT003 - as its fields
    group = displaced.displaced[random_index(state, count)]
    here, home = state.node_of[group], arrays.origin[group]
    if kind < CHANGE_TARGET:
        there = home if kind < MOVE_HOME else target
        return ExchangeMove(group, there, NONE, NONE, False)  # noqa: FBT003
    if kind < SWAP_TARGETS:
        other = displaced.displaced[random_index(state, count)]
        return ExchangeMove(group, state.node_of[other], other, here, True)  # noqa: FBT003
    if kind < REPLACE_NEW_TARGET:
        other = random_group_at_origin(arrays, state, home)
        third = here if kind < REPLACE_SAME_TARGET else target
        return ExchangeMove(group if other != NONE else NONE, home, other, third, True)  # noqa: FBT003
    if kind < REPLACE_AT_TARGET:
        return ExchangeMove(fresh, here, group, home, True)  # noqa: FBT003
    return ExchangeMove(fresh, target, group, home, False)  # noqa: FBT003


@compiled_inner
def random_group_at_origin(
    arrays: ProblemArrays, state: SolutionState, home: int
) -> int:
    """Return a random group at its origin *home*; NONE if the draw fails."""
    if state.group_count[home] == 0:
        return NONE
    group = state.groups_on[home, random_index(state, state.group_count[home])]
    return int(group) if arrays.origin[group] == home else NONE


@compiled_inner
def has_slots(state: SolutionState, change: ExchangeMove) -> bool:
    """Return True if *change* is a move and its nodes have slots for the groups."""
    group, target, other, third, chained = change
    here, width = state.node_of[group], state.groups_on.shape[1]
    if target == here or state.group_count[target] + 1 >= width:
        return False
    if other == NONE:
        return True
    there = state.node_of[other]
    if group == other or third == there or state.group_count[third] + 1 >= width:
        return False
    return chained or not (there in (here, target) or third in (here, target))


@compiled_inner
def is_placeable(
    arrays: ProblemArrays, state: SolutionState, change: ExchangeMove
) -> bool:
    """Return True if classes and strict sets allow *change*."""
    group, target, other, third, chained = change
    departing = other if chained else NONE
    for turn in range(1 if other == NONE else 2):
        # A single call site halves the size of the compiled code.
        if turn == 1:
            group, target, departing = other, third, group if chained else NONE
        if not can_place(arrays, state, group, target, departing):
            return False
    return True


@compiled_inner
def is_affordable(
    arrays: ProblemArrays, state: SolutionState, change: ExchangeMove
) -> bool:
    """Return True if the budgets allow *change*."""
    for b in range(len(arrays.budgets)):
        more = budget_change(arrays, state, b, change.group, change.target)
        if change.other != NONE:
            more += budget_change(arrays, state, b, change.other, change.third)
        if more > 0 and state.spent[b] + more > arrays.budgets[b]:
            return False
    return True


@compiled_inner
def exchange_delta(
    arrays: ProblemArrays, state: SolutionState, change: ExchangeMove
) -> tuple[float, float]:
    """Return the change of cost and overfill of *change*."""
    group, target, other, third, chained = change
    here, there = state.node_of[group], state.node_of[other]
    second = other if chained else NONE  # departs from the target of the first
    closed = chained and third == here  # a swap
    delta, over = 0.0, 0.0
    for turn in range(2 if other == NONE or closed else 4 - chained):
        node, arriving, departing = target, group, second
        if turn == 1:
            node, arriving, departing = here, other if closed else NONE, group
        elif turn == 2:
            node, arriving, departing = third, other, NONE
        elif turn == 3:
            node, arriving, departing = there, NONE, other
        after, full = node_cost_after(arrays, state, node, arriving, departing)
        delta += after - state.node_cost[node]
        over += full - state.overfill[node]
    second = NONE if other == NONE else group if chained else NONE
    for turn in range(2 if other == NONE else 4):
        node, moving, departing = target, group, other if chained else NONE
        if turn == 1:
            node, departing = here, NONE
        elif turn == 2:
            node, moving, departing = third, other, second
        elif turn == 3:
            node, moving, departing = there, other, NONE
        cost = group_cost(arrays, moving, node)
        if arrays.has_anti_affinity:
            cost += sharing_cost(arrays, state, moving, node, departing)
        delta += cost if turn % 2 == 0 else -cost
    return delta, over


@compiled_inner
def apply_exchange(
    arrays: ProblemArrays,
    state: SolutionState,
    displaced: DisplacedGroups,
    change: ExchangeMove,
) -> None:
    """Apply *change* and update the list of displaced groups."""
    group, node = change.group, change.target
    for turn in range(1 if change.other == NONE else 2):
        if turn == 1:
            group, node = change.other, change.third
        apply_move(arrays, state, group, node)
        at = displaced.slot[group]
        if node != arrays.origin[group]:
            if at == NONE:
                displaced.displaced[displaced.displaced_count[0]] = group
                displaced.slot[group] = displaced.displaced_count[0]
                displaced.displaced_count[0] += 1
        elif at != NONE:
            displaced.displaced_count[0] -= 1
            last = displaced.displaced[displaced.displaced_count[0]]
            displaced.displaced[at] = last
            displaced.slot[last] = at
            displaced.slot[group] = NONE


@compiled
def anneal_exchanges(
    arrays: ProblemArrays,
    state: SolutionState,
    displaced: DisplacedGroups,
    stage: BudgetStage,
) -> int:
    """Evaluate moves at falling temperature; return the number accepted."""
    made = 0
    temperature = stage.start_temperature
    cooling = (stage.end_temperature / stage.start_temperature) ** (
        UPDATE_INTERVAL / max(stage.iterations, UPDATE_INTERVAL)
    )
    for i in range(stage.iterations):
        if i % UPDATE_INTERVAL == UPDATE_INTERVAL - 1:
            temperature *= cooling
        change = propose_exchange(arrays, state, displaced)
        if change.group == NONE or not has_slots(state, change):
            continue
        if not is_affordable(arrays, state, change):
            continue
        if not is_placeable(arrays, state, change):
            continue
        bound = -temperature * np.log(1.0 - random_float(state))
        delta, over = exchange_delta(arrays, state, change)
        if over > 0.0 or delta > bound:
            continue
        apply_exchange(arrays, state, displaced, change)
        made += 1
        if state.totals[COST] < state.best_cost[0]:
            store_best(state)
    return made
