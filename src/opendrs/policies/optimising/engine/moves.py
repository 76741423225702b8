"""What a move would cost, whether it may be made, and making it; compiled.

A unit joins a node and another may leave it: two nodes change, and their groups.
"""

from __future__ import annotations

from opendrs.policies.optimising.engine.compiled import inlined, part
from opendrs.policies.optimising.engine.state import (
    COST,
    LOGGED,
    MOST_MOVED,
    State,
)
from opendrs.policies.optimising.engine.tables import NONE, Tables


@inlined
def node_after(
    tables: Tables, state: State, node: int, joins: int, leaves: int
) -> tuple[float, float]:
    """Return the cost and the overfill of *node* once a unit joins and one leaves.

    NONE stands for no unit.
    """
    received = state.received[node]
    count = state.units_on[node]
    if joins != NONE:
        count += 1
        received += tables.origin[joins] != node
    if leaves != NONE:
        count -= 1
        received -= tables.origin[leaves] != node
    cost = tables.use_cost[node] if count > 0 else 0.0
    over = 0.0
    for r in range(tables.capacity.shape[1]):
        load = state.load[node, r]
        left = state.left[node, r]
        if joins != NONE:
            load += tables.demand[joins, r]
            if tables.transient[r] and tables.origin[joins] == node:
                left -= tables.demand[joins, r]
        if leaves != NONE:
            load -= tables.demand[leaves, r]
            if tables.transient[r] and tables.origin[leaves] == node:
                left += tables.demand[leaves, r]
        state.scratch[r] = load
        if received > 0 and load + left > tables.limit[node, r]:
            over += (load + left - tables.limit[node, r]) * tables.overfill_scale[r]
        if load > tables.safety[node, r]:
            cost += tables.excess_weight[node, r] * (load - tables.safety[node, r])
        if tables.has_overload and load > tables.capacity[node, r]:
            cost += tables.overload_weight[r] * (load - tables.capacity[node, r])
        if tables.has_even:
            away = load * tables.even_slope[node, r] - tables.even_target[r]
            cost += tables.even_weight[r] * away * away
    for b in range(len(tables.balance_weight)):
        first, second = tables.balance_first[b], tables.balance_second[b]
        lack = tables.balance_target[b] * (
            tables.capacity[node, first] - state.scratch[first]
        ) - (tables.capacity[node, second] - state.scratch[second])
        if lack > 0:
            cost += tables.balance_weight[b] * lack
    return cost, over


@inlined
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


@inlined
def may_join(tables: Tables, state: State, unit: int, node: int, leaves: int) -> bool:
    """Return whether class and strict groups let *unit* onto *node*."""
    origin = tables.origin[unit]
    if node != origin and not tables.allowed[tables.class_of[unit], node]:
        return False
    for i in range(tables.group_start[unit], tables.group_start[unit + 1]):
        group = tables.unit_groups[i]
        if tables.strict[group]:
            for j in range(tables.member_start[group], tables.member_start[group + 1]):
                other = tables.members[j]
                if (
                    state.node_of[other] == node
                    and other not in (unit, leaves)
                    and (node != origin or tables.origin[other] != node)
                ):
                    return False
    return True


@inlined
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


@inlined
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


@inlined
def shift_delta(
    tables: Tables, state: State, unit: int, target: int
) -> tuple[float, float]:
    """Return how cost and overfill change when *unit* goes to *target*."""
    source = state.node_of[unit]
    cost_there, over_there = node_after(tables, state, target, unit, NONE)
    cost_here, over_here = node_after(tables, state, source, NONE, unit)
    delta = cost_there - state.node_cost[target] + cost_here - state.node_cost[source]
    over = over_there - state.overfill[target] + over_here - state.overfill[source]
    delta += standing_cost(tables, unit, target) - standing_cost(tables, unit, source)
    if tables.has_apart:
        delta += sharing_cost(tables, state, unit, target, NONE)
        delta -= sharing_cost(tables, state, unit, source, NONE)
    if tables.group_move_weight != 0.0:
        origin = tables.origin[unit]
        change = int(target != origin) - int(source != origin)
        if change != 0:
            more = more_moved(tables, state, unit, change)
            delta += tables.group_move_weight * more
    return delta, over


@inlined
def chain_delta(
    tables: Tables, state: State, unit: int, other: int, third: int
) -> tuple[float, float]:
    """Return how cost and overfill change when *unit* drives *other* to *third*.

    Where *third* is the node of *unit*, the two change places. Of group moves, only
    what each unit changes by itself is counted.
    """
    here, there = state.node_of[unit], state.node_of[other]
    delta, over = node_after(tables, state, there, unit, other)
    delta -= state.node_cost[there]
    over -= state.overfill[there]
    back = other if third == here else NONE
    cost_here, over_here = node_after(tables, state, here, back, unit)
    delta += cost_here - state.node_cost[here]
    over += over_here - state.overfill[here]
    if third != here:
        cost_third, over_third = node_after(tables, state, third, other, NONE)
        delta += cost_third - state.node_cost[third]
        over += over_third - state.overfill[third]
    delta += standing_cost(tables, unit, there) - standing_cost(tables, unit, here)
    delta += standing_cost(tables, other, third) - standing_cost(tables, other, there)
    if tables.has_apart:
        delta += sharing_cost(tables, state, unit, there, other)
        delta -= sharing_cost(tables, state, unit, here, NONE)
        delta += sharing_cost(tables, state, other, third, unit)
        delta -= sharing_cost(tables, state, other, there, NONE)
    if tables.group_move_weight != 0.0:
        first = int(there != tables.origin[unit]) - int(here != tables.origin[unit])
        home = tables.origin[other]
        second = int(third != home) - int(there != home)
        if first + second != 0:
            driving = unit if first != 0 else other
            more = more_moved(tables, state, driving, first + second)
            delta += tables.group_move_weight * more
    return delta, over


@inlined
def count_move(
    tables: Tables, state: State, unit: int, source: int, target: int
) -> None:
    """Carry the move of *unit* into the counts of its groups."""
    origin = tables.origin[unit]
    change = int(target != origin) - int(source != origin)
    old_place, new_place = tables.location[source], tables.location[target]
    old_near, new_near = tables.neighbourhood[source], tables.neighbourhood[target]
    for i in range(tables.group_start[unit], tables.group_start[unit + 1]):
        group = tables.unit_groups[i]
        if change != 0:
            state.histogram[state.moved[group]] -= 1
            state.moved[group] += change
            state.histogram[state.moved[group]] += 1
            most = max(state.numbers[MOST_MOVED], state.moved[group])
            while most > 0 and state.histogram[most] == 0:
                most -= 1
            state.numbers[MOST_MOVED] = most
        row = tables.row_of[group]
        if row != NONE:
            state.at_location[row, old_place] -= 1
            state.locations[row] -= state.at_location[row, old_place] == 0
            state.locations[row] += state.at_location[row, new_place] == 0
            state.at_location[row, new_place] += 1
            state.near[row, old_near] -= 1
            state.near[row, new_near] += 1


@inlined
def stands_well(tables: Tables, state: State, unit: int, before: int, now: int) -> bool:
    """Return whether the groups of *unit* are spread and near as they must be.

    Looks at the neighbourhoods of the nodes *before* and *now*, to be asked once the
    move is counted.
    """
    for i in range(tables.group_start[unit], tables.group_start[unit + 1]):
        group = tables.unit_groups[i]
        row = tables.row_of[group]
        if row == NONE:
            continue
        if state.locations[row] < tables.spread[group]:
            return False
        here = tables.neighbourhood[now]
        gone = tables.neighbourhood[before]
        if here == gone:
            continue
        for j in range(tables.need_start[group], tables.need_start[group + 1]):
            needed = tables.row_of[tables.needs[j]]
            if state.near[row, here] > 0 and state.near[needed, here] == 0:
                return False
            if state.near[row, gone] > 0 and state.near[needed, gone] == 0:
                return False
        if state.near[row, gone] == 0:
            for j in range(tables.needed_start[group], tables.needed_start[group + 1]):
                if state.near[tables.row_of[tables.needed_by[j]], gone] > 0:
                    return False
    return True


@inlined
def more_spent(
    tables: Tables, state: State, budget: int, unit: int, target: int
) -> float:
    """Return how much more of *budget* is spent when *unit* goes to *target*."""
    origin = tables.origin[unit]
    change = int(target != origin) - int(state.node_of[unit] != origin)
    return float(change * tables.measures[budget, unit])


@inlined
def affordable(
    tables: Tables, state: State, unit: int, target: int, other: int, third: int
) -> bool:
    """Return whether the budgets let *unit* go to *target*, and *other* to *third*."""
    for b in range(len(tables.budgets)):
        more = more_spent(tables, state, b, unit, target)
        if other != NONE:
            more += more_spent(tables, state, b, other, third)
        if more > 0 and state.spent[b] + more > tables.budgets[b]:
            return False
    return True


@inlined
def may_be(
    tables: Tables, state: State, unit: int, target: int, other: int, third: int
) -> bool:
    """Return whether groups and budgets let *unit* to *target*, *other* to *third*.

    *other* may be NONE.
    """
    if not affordable(tables, state, unit, target, other, third):
        return False
    source = state.node_of[unit]
    count_move(tables, state, unit, source, target)
    if other != NONE:
        count_move(tables, state, other, target, third)
    well = stands_well(tables, state, unit, source, target) and (
        other == NONE or stands_well(tables, state, other, target, third)
    )
    if other != NONE:
        count_move(tables, state, other, third, target)
    count_move(tables, state, unit, target, source)
    return well


@inlined
def stand(state: State, unit: int, node: int) -> None:
    """Put *unit* on the list of *node*."""
    at = state.units_on[node]
    state.standing[node, at] = unit
    state.slot[unit] = at
    state.units_on[node] = at + 1


@inlined
def leave(state: State, unit: int, node: int) -> None:
    """Take *unit* off the list of *node*."""
    last = state.units_on[node] - 1
    moved = state.standing[node, last]
    at = state.slot[unit]
    state.standing[node, at] = moved
    state.slot[moved] = at
    state.units_on[node] = last


@part
def relocate(tables: Tables, state: State, unit: int, target: int) -> None:
    """Move *unit* to *target*, whatever that breaks, and keep all sums."""
    source = state.node_of[unit]
    origin = tables.origin[unit]
    cost = standing_cost(tables, unit, target) - standing_cost(tables, unit, source)
    if tables.has_apart:
        cost -= sharing_cost(tables, state, unit, source, NONE)
        cost += sharing_cost(tables, state, unit, target, NONE)
    most = state.numbers[MOST_MOVED]
    count_move(tables, state, unit, source, target)
    cost += tables.group_move_weight * (state.numbers[MOST_MOVED] - most)
    for r in range(tables.capacity.shape[1]):
        demand = tables.demand[unit, r]
        state.load[source, r] -= demand
        state.load[target, r] += demand
        if tables.transient[r]:
            if source == origin:
                state.left[source, r] += demand
            if target == origin:
                state.left[target, r] -= demand
    state.received[source] -= source != origin
    state.received[target] += target != origin
    change = int(target != origin) - int(source != origin)
    for b in range(len(tables.budgets)):
        state.spent[b] += change * tables.measures[b, unit]
    state.node_of[unit] = target
    leave(state, unit, source)
    stand(state, unit, target)
    for node in (source, target):
        after, over = node_after(tables, state, node, NONE, NONE)
        cost += after - state.node_cost[node]
        state.node_cost[node] = after
        state.overfill[node] = over
    state.sums[COST] += cost
    if state.numbers[LOGGED] < len(state.log):
        state.log[state.numbers[LOGGED]] = unit
        state.numbers[LOGGED] += 1


@inlined
def settle_unit(tables: Tables, state: State, unit: int) -> None:
    """Add *unit* to the sums of its node and its groups."""
    node = state.node_of[unit]
    origin = tables.origin[unit]
    away = node != origin
    for r in range(tables.capacity.shape[1]):
        state.load[node, r] += tables.demand[unit, r]
        if away and tables.transient[r]:
            state.left[origin, r] += tables.demand[unit, r]
    stand(state, unit, node)
    state.received[node] += away
    state.sums[COST] += standing_cost(tables, unit, node)
    for b in range(len(state.spent)):
        if away:
            state.spent[b] += tables.measures[b, unit]
    for i in range(tables.group_start[unit], tables.group_start[unit + 1]):
        group = tables.unit_groups[i]
        state.moved[group] += away
        if tables.apart_weight[group] != 0.0:
            for j in range(tables.member_start[group], tables.member_start[group + 1]):
                other = tables.members[j]
                if other < unit and state.node_of[other] == node:
                    state.sums[COST] += tables.apart_weight[group]
                    break
        row = tables.row_of[group]
        if row != NONE:
            place, near = tables.location[node], tables.neighbourhood[node]
            state.locations[row] += state.at_location[row, place] == 0
            state.at_location[row, place] += 1
            state.near[row, near] += 1


@inlined
def settle(tables: Tables, state: State) -> None:
    """Work out all sums anew from `node_of`."""
    for node in range(len(state.units_on)):
        for r in range(tables.capacity.shape[1]):
            state.load[node, r] = tables.base[node, r]
    state.left[:] = 0.0
    state.units_on[:] = 0
    state.received[:] = 0
    state.moved[:] = 0
    state.at_location[:] = 0
    state.near[:] = 0
    state.locations[:] = 0
    state.spent[:] = 0.0
    state.sums[:] = 0.0
    for unit in range(len(state.node_of)):
        settle_unit(tables, state, unit)
    state.histogram[:] = 0
    for group in range(len(state.moved)):
        state.histogram[state.moved[group]] += 1
    most = 0
    for group in range(len(state.moved)):
        most = max(most, state.moved[group])
    state.numbers[MOST_MOVED] = most
    state.sums[COST] += tables.group_move_weight * most
    for node in range(len(state.units_on)):
        after, over = node_after(tables, state, node, NONE, NONE)
        state.node_cost[node] = after
        state.overfill[node] = over
        state.sums[COST] += after
