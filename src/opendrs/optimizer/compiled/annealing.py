"""Simulated annealing by shifts, swaps and ejections; compiled.

Several threads may work on one solution. They share a spin lock, which each holds for
less than a microsecond, so contention for it is rare.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np
from numba.core import types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from opendrs.optimizer.compiled.compiler import compiled, compiled_inner
from opendrs.optimizer.compiled.costs import (
    group_cost,
    node_cost_after,
    places_left,
    shares,
)
from opendrs.optimizer.compiled.moves import (
    add_to_node,
    apply_move,
    can_move,
    can_place,
    chain_delta,
    shift_delta,
)
from opendrs.optimizer.compiled.proposals import (
    ProposalWeights,
    ProposedMove,
    has_slot,
    propose_move,
    random_float,
    random_index,
)
from opendrs.optimizer.problem import Indices
from opendrs.optimizer.problem_arrays import (
    COST,
    LOGGED,
    MOST_MOVED,
    NONE,
    OVERFULL,
    ProblemArrays,
    SolutionState,
)


@intrinsic
def _atomic_exchange(_typing: Any, cell: Any, _value: Any) -> Any:  # noqa: ANN401 - Numba's own
    """Store a value in the first element of an array atomically; return the old one."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401 - Numba's own
        view: Any = make_array
        array = view(signature.args[0])(context, builder, arguments[0])
        return builder.atomic_rmw("xchg", array.data, arguments[1], "seq_cst")

    return types.int64(cell, types.int64), code


atomic_exchange = cast("Callable[[Indices, int], int]", _atomic_exchange)


@compiled_inner
def acquire(lock: Indices) -> None:
    """Wait for the lock and take it."""
    while atomic_exchange(lock, 1) != 0:
        pass


@compiled_inner
def release(lock: Indices) -> None:
    """Release the lock."""
    atomic_exchange(lock, 0)


@compiled_inner
def add_group(arrays: ProblemArrays, state: SolutionState, group: int) -> None:
    """Add *group* to the sums of its node and its sets."""
    node = state.node_of[group]
    origin = arrays.origin[group]
    away = node != origin
    for r in range(arrays.capacity.shape[1]):
        state.load[node, r] += arrays.demand[group, r]
        if away and arrays.transient[r]:
            state.left_behind[origin, r] += arrays.demand[group, r]
    add_to_node(state, group, node)
    state.arrived_count[node] += away
    state.totals[COST] += group_cost(arrays, group, node)
    for b in range(len(state.spent)):
        if away:
            state.spent[b] += arrays.budget_weights[b, group]
    for i in range(arrays.group_set_start[group], arrays.group_set_start[group + 1]):
        group_set = arrays.sets_of_group[i]
        state.moved_count[group_set] += away
        if arrays.anti_affinity_weight[group_set] != 0.0:
            left = places_left(arrays, group_set, node)
            at = arrays.partition[group_set]
            for j in range(
                arrays.member_start[group_set], arrays.member_start[group_set + 1]
            ):
                other = arrays.members[j]
                if other < group:
                    left -= shares(arrays, at, state.node_of[other], node)
            if left <= 0:
                state.totals[COST] += arrays.anti_affinity_weight[group_set]
        row = arrays.count_row[group_set]
        if row != NONE:
            place, near = arrays.location[node], arrays.neighborhood[node]
            state.location_count[row] += state.at_location[row, place] == 0
            state.at_location[row, place] += 1
            state.in_neighborhood[row, near] += 1


@compiled_inner
def recompute(arrays: ProblemArrays, state: SolutionState) -> None:
    """Recompute all sums from `node_of`."""
    for node in range(len(state.group_count)):
        for r in range(arrays.capacity.shape[1]):
            state.load[node, r] = arrays.base_load[node, r]
    state.left_behind[:] = 0.0
    state.group_count[:] = 0
    state.arrived_count[:] = 0
    state.moved_count[:] = 0
    state.at_location[:] = 0
    state.in_neighborhood[:] = 0
    state.location_count[:] = 0
    state.spent[:] = 0.0
    state.totals[COST] = 0.0
    for group in range(len(state.node_of)):
        add_group(arrays, state, group)
    state.moved_histogram[:] = 0
    for group_set in range(len(state.moved_count)):
        state.moved_histogram[state.moved_count[group_set]] += 1
    most = 0
    for group_set in range(len(state.moved_count)):
        most = max(most, state.moved_count[group_set])
    state.counters[MOST_MOVED] = most
    state.totals[COST] += arrays.set_move_weight * most
    state.counters[OVERFULL] = 0
    for node in range(len(state.group_count)):
        after, over = node_cost_after(arrays, state, node, NONE, NONE)
        state.node_cost[node] = after
        state.overfill[node] = over
        state.counters[OVERFULL] += over > 0.0
        state.totals[COST] += after


SINGLE_THREAD = -1
# largest increase that can be accepted, in temperatures: log 2**53
MAX_ACCEPTED_INCREASE = 37.0


class AnnealingStage(NamedTuple):
    """A stage of the schedule.

    Attributes:
        iterations: Number of moves to evaluate.
        update_interval: Moves between two changes of temperature and penalties.
        start_temperature: Temperature at the start.
        end_temperature: Temperature at the end.
        penalty_growth: Factor of the penalty of an exceeded limit, per update.
        penalty_decay: Factor of the penalty of other limits, per update.
    """

    iterations: int
    update_interval: int
    start_temperature: float
    end_temperature: float
    penalty_growth: float
    penalty_decay: float


@compiled_inner
def displacement_change(
    arrays: ProblemArrays, state: SolutionState, move: ProposedMove
) -> int:
    """Return the change of the number of displaced groups by *move*."""
    origin = arrays.origin[move.group]
    away = int(move.target != origin) - int(state.node_of[move.group] != origin)
    if move.other != NONE:
        origin = arrays.origin[move.other]
        away += int(move.third != origin) - int(move.target != origin)
    return away


@compiled_inner
def can_place_both(
    arrays: ProblemArrays, state: SolutionState, move: ProposedMove
) -> bool:
    """Return True if classes and strict sets allow *move*."""
    group, target, other, third = move
    return can_place(arrays, state, group, target, other) and (
        other == NONE or can_place(arrays, state, other, third, group)
    )


@compiled_inner
def store_best(state: SolutionState) -> None:
    """Store the current assignment as the best."""
    logged = state.counters[LOGGED]
    if logged < len(state.change_log):
        for i in range(logged):
            state.best[state.change_log[i]] = state.node_of[state.change_log[i]]
    else:
        for group in range(len(state.best)):
            state.best[group] = state.node_of[group]
    state.counters[LOGGED] = 0
    state.best_cost[0] = state.totals[COST]


@compiled_inner
def update_penalties(
    arrays: ProblemArrays, state: SolutionState, stage: AnnealingStage
) -> None:
    """Raise the penalties of exceeded limits and lower the others."""
    for node in range(len(state.group_count)):
        overfull = state.overfill[node] > 0.0
        for r in range(arrays.capacity.shape[1]):
            held = state.load[node, r] + state.left_behind[node, r]
            over = overfull and held > arrays.limit[node, r]
            state.penalty[node, r] *= (
                stage.penalty_growth if over else stage.penalty_decay
            )
        if overfull:
            _, state.overfill[node] = node_cost_after(arrays, state, node, NONE, NONE)


@compiled_inner
def move_delta(
    arrays: ProblemArrays, state: SolutionState, move: ProposedMove, most: float
) -> tuple[float, float]:
    """Return the change of cost and overfill of *move*; infinity if above *most*."""
    group, target, other, third = move
    if other == NONE:
        return shift_delta(arrays, state, group, target, most)
    return chain_delta(arrays, state, group, other, third, most)


@compiled_inner
def is_still_acceptable(
    arrays: ProblemArrays,
    state: SolutionState,
    move: ProposedMove,
    source: int,
    bound: float,
) -> bool:
    """Return True if *move* still starts at *source* and changes at most *bound*.

    Other threads may have moved groups since it was evaluated.
    """
    group, target, other, third = move
    if state.node_of[group] != source or not has_slot(state, target):
        return False
    if other != NONE and (state.node_of[other] != target or not has_slot(state, third)):
        return False
    if not can_place_both(arrays, state, move):
        return False
    delta, over = move_delta(arrays, state, move, bound)
    return delta + over <= bound


@compiled_inner
def try_move(arrays: ProblemArrays, state: SolutionState, move: ProposedMove) -> bool:
    """Apply *move* if sets and budgets allow it; return True if applied.

    The assignment is stored if it is the best one without overload.
    """
    group, target, other, third = move
    if not can_move(arrays, state, group, target, other, third):
        return False
    if other != NONE:
        apply_move(arrays, state, other, third)
    apply_move(arrays, state, group, target)
    if state.totals[COST] < state.best_cost[0] and state.counters[OVERFULL] == 0:
        store_best(state)
    return True


@compiled
def anneal(
    arrays: ProblemArrays,
    state: SolutionState,
    weights: ProposalWeights,
    stage: AnnealingStage,
    thread: int,
    lock: Indices,
) -> int:
    """Evaluate moves at falling temperature; return the number accepted.

    Capacity limits are soft: with nearly full nodes, good solutions are connected only
    by infeasible ones. The penalty of each limit grows while it is exceeded and decays
    slowly otherwise.

    Several threads may share one assignment, each with its own random state. Nearly all
    moves are rejected, and evaluating them needs no lock. The thread with the number 0
    updates the penalties; SINGLE_THREAD is the only thread.
    """
    if len(arrays.movable) == 0:
        return 0
    temperature = stage.start_temperature
    made = 0
    cooling = (stage.end_temperature / stage.start_temperature) ** (
        stage.update_interval / max(stage.iterations, stage.update_interval)
    )
    for i in range(stage.iterations):
        if i % stage.update_interval == stage.update_interval - 1:
            temperature *= cooling
            if thread <= 0:
                acquire(lock)
                update_penalties(arrays, state, stage)
                release(lock)
        move = propose_move(arrays, state, weights)
        source = state.node_of[move.group]
        if move.target in (NONE, source) or not can_place_both(arrays, state, move):
            continue
        pull = 0.0
        if weights.drift != 0.0:
            pull = (
                weights.drift * temperature * displacement_change(arrays, state, move)
            )
        most = MAX_ACCEPTED_INCREASE * temperature - pull
        delta, over = move_delta(arrays, state, move, most)
        if delta + over > most:
            continue
        bound = -temperature * np.log(1.0 - random_float(state)) - pull
        if delta + over > bound:
            continue
        acquire(lock)
        if thread == SINGLE_THREAD or is_still_acceptable(
            arrays, state, move, source, bound
        ):
            made += try_move(arrays, state, move)
        release(lock)
    return made


@compiled
def initialize(arrays: ProblemArrays, state: SolutionState) -> None:
    """Compute the sums of the assignment, and store it as the best."""
    recompute(arrays, state)
    state.counters[LOGGED] = len(state.change_log)
    store_best(state)


@compiled
def mean_move_delta(
    arrays: ProblemArrays, state: SolutionState, sample: int
) -> tuple[float, float]:
    """Return the mean absolute change of cost and overfill of random shifts."""
    cost, overfill, count = 0.0, 0.0, 0
    for _ in range(sample if len(state.node_of) > 0 else 0):
        group = random_index(state, len(state.node_of))
        target = random_index(state, len(state.group_count))
        if target != state.node_of[group] and can_place(
            arrays, state, group, target, NONE
        ):
            delta, over = shift_delta(arrays, state, group, target, np.inf)
            cost += abs(delta)
            overfill += abs(over)
            count += 1
    return cost / max(count, 1), overfill / max(count, 1)
