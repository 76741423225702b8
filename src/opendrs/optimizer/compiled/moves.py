"""Feasibility, cost change and application of a move; compiled.

A group joins a node and another may leave it: two nodes change, and their sets.
Capacity is not part of feasibility; the overfill of a move is returned with its cost.
"""

from __future__ import annotations

import numpy as np

from opendrs.optimizer.compiled.compiler import compiled_inner
from opendrs.optimizer.compiled.costs import (
    group_cost,
    most_moved_change,
    node_cost_after,
    sharing_cost,
)
from opendrs.optimizer.problem_arrays import (
    COST,
    LOGGED,
    MOST_MOVED,
    NONE,
    OVERFULL,
    ProblemArrays,
    SolutionState,
)


@compiled_inner
def is_allowed(arrays: ProblemArrays, group: int, node: int) -> bool:
    """Return True if *group* can ever run on *node*."""
    if node == arrays.origin[group]:
        return True
    return bool(arrays.fits[arrays.fit_row[group], node >> 3] >> (node & 7) & 1)


@compiled_inner
def can_place(
    arrays: ProblemArrays, state: SolutionState, group: int, node: int, departing: int
) -> bool:
    """Return True if class, size and strict sets allow *group* on *node*."""
    if not is_allowed(arrays, group, node):
        return False
    origin = arrays.origin[group]
    for i in range(arrays.group_set_start[group], arrays.group_set_start[group + 1]):
        group_set = arrays.sets_of_group[i]
        if arrays.strict[group_set]:
            for j in range(
                arrays.member_start[group_set], arrays.member_start[group_set + 1]
            ):
                other = arrays.members[j]
                if (
                    state.node_of[other] == node
                    and other not in (group, departing)
                    and (node != origin or arrays.origin[other] != node)
                ):
                    return False
    return True


@compiled_inner
def count_set_move(
    arrays: ProblemArrays, state: SolutionState, group: int, source: int, target: int
) -> None:
    """Add the move of *group* to the counts of its sets."""
    origin = arrays.origin[group]
    change = int(target != origin) - int(source != origin)
    old_location, new_location = arrays.location[source], arrays.location[target]
    old_near, new_near = arrays.neighborhood[source], arrays.neighborhood[target]
    for i in range(arrays.group_set_start[group], arrays.group_set_start[group + 1]):
        group_set = arrays.sets_of_group[i]
        if change != 0:
            state.moved_histogram[state.moved_count[group_set]] -= 1
            state.moved_count[group_set] += change
            state.moved_histogram[state.moved_count[group_set]] += 1
            most = max(state.counters[MOST_MOVED], state.moved_count[group_set])
            while most > 0 and state.moved_histogram[most] == 0:
                most -= 1
            state.counters[MOST_MOVED] = most
        row = arrays.count_row[group_set]
        if row != NONE:
            state.at_location[row, old_location] -= 1
            state.location_count[row] -= state.at_location[row, old_location] == 0
            state.location_count[row] += state.at_location[row, new_location] == 0
            state.at_location[row, new_location] += 1
            state.in_neighborhood[row, old_near] -= 1
            state.in_neighborhood[row, new_near] += 1


@compiled_inner
def satisfies_spread(
    arrays: ProblemArrays, state: SolutionState, group: int, before: int, after: int
) -> bool:
    """Return True if the sets of *group* have the required spread and neighbors.

    Only the neighborhoods of the nodes *before* and *after* are checked. The move must
    already be counted.
    """
    for i in range(arrays.group_set_start[group], arrays.group_set_start[group + 1]):
        group_set = arrays.sets_of_group[i]
        row = arrays.count_row[group_set]
        if row == NONE:
            continue
        if state.location_count[row] < arrays.spread[group_set]:
            return False
        here = arrays.neighborhood[after]
        left = arrays.neighborhood[before]
        if here == left:
            continue
        for j in range(arrays.need_start[group_set], arrays.need_start[group_set + 1]):
            needed = arrays.count_row[arrays.needs[j]]
            if (
                state.in_neighborhood[row, here] > 0
                and state.in_neighborhood[needed, here] == 0
            ):
                return False
            if (
                state.in_neighborhood[row, left] > 0
                and state.in_neighborhood[needed, left] == 0
            ):
                return False
        if state.in_neighborhood[row, left] == 0:
            for j in range(
                arrays.needed_start[group_set], arrays.needed_start[group_set + 1]
            ):
                if (
                    state.in_neighborhood[arrays.count_row[arrays.needed_by[j]], left]
                    > 0
                ):
                    return False
    return True


@compiled_inner
def budget_change(
    arrays: ProblemArrays, state: SolutionState, budget: int, group: int, target: int
) -> float:
    """Return the change of the use of *budget* when *group* moves to *target*."""
    origin = arrays.origin[group]
    change = int(target != origin) - int(state.node_of[group] != origin)
    return float(change * arrays.budget_weights[budget, group])


@compiled_inner
def within_budgets(
    arrays: ProblemArrays,
    state: SolutionState,
    group: int,
    target: int,
    other: int,
    third: int,
) -> bool:
    """Return True if budgets allow *group* to *target* and *other* to *third*."""
    for b in range(len(arrays.budgets)):
        more = budget_change(arrays, state, b, group, target)
        if other != NONE:
            more += budget_change(arrays, state, b, other, third)
        if more > 0 and state.spent[b] + more > arrays.budgets[b]:
            return False
    return True


@compiled_inner
def can_move(
    arrays: ProblemArrays,
    state: SolutionState,
    group: int,
    target: int,
    other: int,
    third: int,
) -> bool:
    """Return True if sets and budgets allow *group* to *target*, *other* to *third*.

    *other* may be NONE.
    """
    if not within_budgets(arrays, state, group, target, other, third):
        return False
    source = state.node_of[group]
    count_set_move(arrays, state, group, source, target)
    if other != NONE:
        count_set_move(arrays, state, other, target, third)
    satisfied = satisfies_spread(arrays, state, group, source, target) and (
        other == NONE or satisfies_spread(arrays, state, other, target, third)
    )
    if other != NONE:
        count_set_move(arrays, state, other, third, target)
    count_set_move(arrays, state, group, target, source)
    return satisfied


@compiled_inner
def shift_group_delta(
    arrays: ProblemArrays, state: SolutionState, group: int, target: int
) -> float:
    """Return the cost change of a shift without the cost of nodes."""
    source = state.node_of[group]
    delta = group_cost(arrays, group, target) - group_cost(arrays, group, source)
    if arrays.has_anti_affinity:
        delta += sharing_cost(arrays, state, group, target, NONE)
        delta -= sharing_cost(arrays, state, group, source, NONE)
    if arrays.set_move_weight != 0.0:
        origin = arrays.origin[group]
        change = int(target != origin) - int(source != origin)
        if change != 0:
            more = most_moved_change(arrays, state, group, change)
            delta += arrays.set_move_weight * more
    return delta


@compiled_inner
def arrival_delta(
    arrays: ProblemArrays, state: SolutionState, group: int, target: int
) -> tuple[float, float]:
    """Return the change of cost and overfill of a shift without the source."""
    source = state.node_of[group]
    delta = shift_group_delta(arrays, state, group, target)
    delta -= state.node_cost[target] + state.node_cost[source]
    cost_there, over_there = node_cost_after(arrays, state, target, group, NONE)
    over = over_there - state.overfill[target] - state.overfill[source]
    return delta + cost_there, over


@compiled_inner
def shift_delta(
    arrays: ProblemArrays, state: SolutionState, group: int, target: int, most: float
) -> tuple[float, float]:
    """Return the change of cost and overfill of a shift.

    If the sum exceeds *most*, the result may be infinity. The cost of a node is never
    negative, so the target alone may exclude the move.
    """
    delta, over = arrival_delta(arrays, state, group, target)
    if delta + over > most:
        return np.inf, np.inf
    source = state.node_of[group]
    cost_here, over_here = node_cost_after(arrays, state, source, NONE, group)
    return delta + cost_here, over + over_here


@compiled_inner
def chain_group_delta(
    arrays: ProblemArrays, state: SolutionState, group: int, other: int, third: int
) -> float:
    """Return the cost change of an ejection without the cost of nodes.

    Of the change of the most displaced set, only the group that changes the count is
    used.
    """
    here, there = state.node_of[group], state.node_of[other]
    delta = group_cost(arrays, group, there) - group_cost(arrays, group, here)
    delta += group_cost(arrays, other, third) - group_cost(arrays, other, there)
    if arrays.has_anti_affinity:
        delta += sharing_cost(arrays, state, group, there, other)
        delta -= sharing_cost(arrays, state, group, here, NONE)
        delta += sharing_cost(arrays, state, other, third, group)
        delta -= sharing_cost(arrays, state, other, there, NONE)
    if arrays.set_move_weight != 0.0:
        first = int(there != arrays.origin[group]) - int(here != arrays.origin[group])
        home = arrays.origin[other]
        second = int(third != home) - int(there != home)
        if first + second != 0:
            driving = group if first != 0 else other
            more = most_moved_change(arrays, state, driving, first + second)
            delta += arrays.set_move_weight * more
    return delta


@compiled_inner
def chain_delta(
    arrays: ProblemArrays,
    state: SolutionState,
    group: int,
    other: int,
    third: int,
    most: float,
) -> tuple[float, float]:
    """Return the change of cost and overfill when *group* ejects *other* to *third*.

    If *third* is the node of *group*, the move is a swap. If the sum exceeds *most*,
    the result may be infinity.
    """
    here, there = state.node_of[group], state.node_of[other]
    delta = chain_group_delta(arrays, state, group, other, third)
    delta -= state.node_cost[there] + state.node_cost[here]
    over = -state.overfill[there] - state.overfill[here]
    if third != here:
        delta -= state.node_cost[third]
        over -= state.overfill[third]
    cost_there, over_there = node_cost_after(arrays, state, there, group, other)
    delta += cost_there
    over += over_there
    if delta + over > most:
        return np.inf, np.inf
    back = other if third == here else NONE
    cost_here, over_here = node_cost_after(arrays, state, here, back, group)
    delta += cost_here
    over += over_here
    if third != here:
        cost_third, over_third = node_cost_after(arrays, state, third, other, NONE)
        delta += cost_third
        over += over_third
    return delta, over


@compiled_inner
def add_to_node(state: SolutionState, group: int, node: int) -> None:
    """Add *group* to the list of *node*."""
    at = state.group_count[node]
    state.groups_on[node, at] = group
    state.slot[group] = at
    state.group_count[node] = at + 1


@compiled_inner
def remove_from_node(state: SolutionState, group: int, node: int) -> None:
    """Remove *group* from the list of *node*."""
    last = state.group_count[node] - 1
    moved = state.groups_on[node, last]
    at = state.slot[group]
    state.groups_on[node, at] = moved
    state.slot[moved] = at
    state.group_count[node] = last


@compiled_inner
def apply_move(
    arrays: ProblemArrays, state: SolutionState, group: int, target: int
) -> None:
    """Move *group* to *target* without checks, and update all sums."""
    source = state.node_of[group]
    origin = arrays.origin[group]
    cost = group_cost(arrays, group, target) - group_cost(arrays, group, source)
    if arrays.has_anti_affinity:
        cost -= sharing_cost(arrays, state, group, source, NONE)
        cost += sharing_cost(arrays, state, group, target, NONE)
    most = state.counters[MOST_MOVED]
    count_set_move(arrays, state, group, source, target)
    cost += arrays.set_move_weight * (state.counters[MOST_MOVED] - most)
    for r in range(arrays.capacity.shape[1]):
        demand = arrays.demand[group, r]
        state.load[source, r] -= demand
        state.load[target, r] += demand
        if arrays.transient[r]:
            if source == origin:
                state.left_behind[source, r] += demand
            if target == origin:
                state.left_behind[target, r] -= demand
    state.arrived_count[source] -= source != origin
    state.arrived_count[target] += target != origin
    change = int(target != origin) - int(source != origin)
    for b in range(len(arrays.budgets)):
        state.spent[b] += change * arrays.budget_weights[b, group]
    state.node_of[group] = target
    remove_from_node(state, group, source)
    add_to_node(state, group, target)
    for node in (source, target):
        after, over = node_cost_after(arrays, state, node, NONE, NONE)
        cost += after - state.node_cost[node]
        state.node_cost[node] = after
        state.counters[OVERFULL] += int(over > 0.0) - int(state.overfill[node] > 0.0)
        state.overfill[node] = over
    state.totals[COST] += cost
    if state.counters[LOGGED] < len(state.change_log):
        state.change_log[state.counters[LOGGED]] = group
        state.counters[LOGGED] += 1
