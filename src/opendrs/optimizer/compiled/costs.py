"""Cost of nodes and groups, now and after a move; compiled."""

from __future__ import annotations

from opendrs.optimizer.compiled.compiler import compiled_fast_math, compiled_inner
from opendrs.optimizer.problem_arrays import (
    MOST_MOVED,
    NONE,
    ProblemArrays,
    SolutionState,
)


@compiled_fast_math
def load_cost_after(
    arrays: ProblemArrays,
    state: SolutionState,
    node: int,
    arriving: int,
    departing: int,
) -> float:
    """Return the overload, imbalance and ratio cost of *node* after a change."""
    cost = 0.0
    load, gained, lost = (
        state.load[node],
        arrays.demand[arriving],
        arrays.demand[departing],
    )
    free = arrays.capacity[node]
    for r in range(len(load)):
        after = load[r] + (gained[r] - lost[r])
        over = after - arrays.capacity[node, r]
        cost += max(over, 0.0) * arrays.overload_weight[r]
        distance = after * arrays.inverse_capacity[node, r] - arrays.target_load[r]
        cost += arrays.imbalance_weight[r] * distance * distance
    for b in range(len(arrays.ratio_weight)):
        i, j = arrays.ratio_first[b], arrays.ratio_second[b]
        first = free[i] - (load[i] + (gained[i] - lost[i]))
        second = free[j] - (load[j] + (gained[j] - lost[j]))
        deficit = arrays.ratio_target[b] * first - second
        cost += max(deficit, 0.0) * arrays.ratio_weight[b]
    return cost


@compiled_fast_math
def node_cost_after(
    arrays: ProblemArrays,
    state: SolutionState,
    node: int,
    arriving: int,
    departing: int,
) -> tuple[float, float]:
    """Return cost and overfill of *node* after a group arrives and one departs.

    NONE stands for no group.
    """
    count = state.group_count[node] + (arriving != NONE) - (departing != NONE)
    cost = arrays.use_cost[node] if count > 0 else 0.0
    over = 0.0
    returns = 1.0 if arrays.origin[arriving] == node else 0.0
    leaves_origin = 1.0 if arrays.origin[departing] == node else 0.0
    for r in range(arrays.capacity.shape[1]):
        load = state.load[node, r] + (
            arrays.demand[arriving, r] - arrays.demand[departing, r]
        )
        left = (
            leaves_origin * arrays.transient_demand[departing, r]
            - returns * arrays.transient_demand[arriving, r]
        )
        full = load + (state.left_behind[node, r] + left) - arrays.limit[node, r]
        over += max(full, 0.0) * state.penalty[node, r]
        excess = load - arrays.safety_capacity[node, r]
        cost += max(excess, 0.0) * arrays.excess_weight[node, r]
    if arrays.has_load_cost:
        cost += load_cost_after(arrays, state, node, arriving, departing)
    received = state.arrived_count[node]
    received += arriving != NONE and returns == 0.0
    received -= departing != NONE and leaves_origin == 0.0
    return cost, over if received > 0 else 0.0


@compiled_inner
def group_cost(arrays: ProblemArrays, group: int, node: int) -> float:
    """Return the placement and move cost of *group* on *node*."""
    cost = 0.0
    if arrays.has_placement_cost:
        cost += arrays.placement_cost[arrays.class_of[group], node]
    origin = arrays.origin[group]
    if node != origin:
        cost += arrays.move_cost[group]
        if arrays.has_pair_cost:
            cost += arrays.pair_cost[origin, node]
    return cost


@compiled_inner
def shares(arrays: ProblemArrays, row: int, one: int, other: int) -> bool:
    """Return True if two nodes are in one domain of the partition *row*."""
    if row == 0:
        return one == other
    return bool(arrays.domain[row, one] == arrays.domain[row, other])


@compiled_inner
def places_left(arrays: ProblemArrays, group_set: int, node: int) -> int:
    """Return how many moving members may share the domain of *node* without a cost."""
    left = arrays.most[group_set]
    place = arrays.domain[arrays.partition[group_set], node]
    for j in range(arrays.fixed_start[group_set], arrays.fixed_start[group_set + 1]):
        left -= arrays.fixed[j] == place
    return int(left)


@compiled_inner
def sharing_cost(
    arrays: ProblemArrays, state: SolutionState, group: int, node: int, departing: int
) -> float:
    """Return the cost of *group* for sharing *node* with members of its sets.

    Of a set with a limit, a *departing* member counts as if it left the domain.
    """
    cost = 0.0
    for i in range(arrays.group_set_start[group], arrays.group_set_start[group + 1]):
        group_set = arrays.sets_of_group[i]
        if arrays.anti_affinity_weight[group_set] != 0.0:
            left = places_left(arrays, group_set, node)
            row = arrays.partition[group_set]
            for j in range(
                arrays.member_start[group_set], arrays.member_start[group_set + 1]
            ):
                if left <= 0:
                    break
                other = arrays.members[j]
                if other not in (group, departing):
                    left -= shares(arrays, row, state.node_of[other], node)
            if left <= 0:
                cost += arrays.anti_affinity_weight[group_set]
    return cost


@compiled_inner
def most_moved_change(
    arrays: ProblemArrays, state: SolutionState, group: int, change: int
) -> int:
    """Return the change of the largest number of displaced members of a set."""
    most = state.counters[MOST_MOVED]
    after = most
    leaders = 0
    for i in range(arrays.group_set_start[group], arrays.group_set_start[group + 1]):
        moved = state.moved_count[arrays.sets_of_group[i]]
        leaders += moved == most
        if change > 0:
            after = max(after, moved + 1)
    if change < 0 and leaders > 0 and leaders == state.moved_histogram[most]:
        after = most - 1
    return int(after - most)
