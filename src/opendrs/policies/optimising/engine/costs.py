"""What nodes and units cost, now and after a move; compiled."""

from __future__ import annotations

from opendrs.policies.optimising.engine.compiled import part, vectorised
from opendrs.policies.optimising.engine.state import MOST_MOVED, State
from opendrs.policies.optimising.engine.tables import NONE, Tables


@vectorised
def goals_after(
    tables: Tables, state: State, node: int, joins: int, leaves: int
) -> float:
    """Return what overload, unevenness and balance cost on *node*."""
    cost = 0.0
    load, more, less = state.load[node], tables.demand[joins], tables.demand[leaves]
    free = tables.capacity[node]
    for r in range(len(load)):
        after = load[r] + (more[r] - less[r])
        over = after - tables.capacity[node, r]
        cost += max(over, 0.0) * tables.overload_weight[r]
        away = after * tables.even_slope[node, r] - tables.even_target[r]
        cost += tables.even_weight[r] * away * away
    for b in range(len(tables.balance_weight)):
        i, j = tables.balance_first[b], tables.balance_second[b]
        first = free[i] - (load[i] + (more[i] - less[i]))
        second = free[j] - (load[j] + (more[j] - less[j]))
        lack = tables.balance_target[b] * first - second
        cost += max(lack, 0.0) * tables.balance_weight[b]
    return cost


@vectorised
def node_after(
    tables: Tables, state: State, node: int, joins: int, leaves: int
) -> tuple[float, float]:
    """Return what *node* and its overfill cost once a unit joins and one leaves.

    NONE stands for no unit.
    """
    count = state.units_on[node] + (joins != NONE) - (leaves != NONE)
    cost = tables.use_cost[node] if count > 0 else 0.0
    over = 0.0
    back = 1.0 if tables.origin[joins] == node else 0.0
    off = 1.0 if tables.origin[leaves] == node else 0.0
    for r in range(tables.capacity.shape[1]):
        load = state.load[node, r] + (
            tables.demand[joins, r] - tables.demand[leaves, r]
        )
        left = off * tables.held[leaves, r] - back * tables.held[joins, r]
        full = load + (state.left[node, r] + left) - tables.limit[node, r]
        over += max(full, 0.0) * state.price[node, r]
        excess = load - tables.safety[node, r]
        cost += max(excess, 0.0) * tables.excess_weight[node, r]
    if tables.has_goals:
        cost += goals_after(tables, state, node, joins, leaves)
    received = state.received[node]
    received += joins != NONE and back == 0.0
    received -= leaves != NONE and off == 0.0
    return cost, over if received > 0 else 0.0


@part
def standing_cost(tables: Tables, unit: int, node: int) -> float:
    """Return what *unit* costs on *node* by itself: its place and its move."""
    cost = 0.0
    if tables.has_place:
        cost += tables.place_cost[tables.class_of[unit], node]
    origin = tables.origin[unit]
    if node != origin:
        cost += tables.move_cost[unit]
        if tables.has_pair:
            cost += tables.pair_cost[origin, node]
    return cost


@part
def sharing_cost(
    tables: Tables, state: State, unit: int, node: int, leaves: int
) -> float:
    """Return what *unit* costs on *node* for those of its groups that are there."""
    cost = 0.0
    for i in range(tables.group_start[unit], tables.group_start[unit + 1]):
        group = tables.unit_groups[i]
        if tables.apart_weight[group] != 0.0:
            for j in range(tables.member_start[group], tables.member_start[group + 1]):
                other = tables.members[j]
                if state.node_of[other] == node and other not in (unit, leaves):
                    cost += tables.apart_weight[group]
                    break
    return cost


@part
def more_moved(tables: Tables, state: State, unit: int, change: int) -> int:
    """Return how much more is moved of the group with most moved."""
    most = state.numbers[MOST_MOVED]
    after = most
    leaders = 0
    for i in range(tables.group_start[unit], tables.group_start[unit + 1]):
        moved = state.moved[tables.unit_groups[i]]
        leaders += moved == most
        if change > 0:
            after = max(after, moved + 1)
    if change < 0 and leaders > 0 and leaders == state.histogram[most]:
        after = most - 1
    return int(after - most)
