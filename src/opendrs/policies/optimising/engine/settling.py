"""All the sums of an assignment, worked out anew; compiled."""

from __future__ import annotations

from opendrs.policies.optimising.engine.compiled import part
from opendrs.policies.optimising.engine.costs import node_after, standing_cost
from opendrs.policies.optimising.engine.moves import stand
from opendrs.policies.optimising.engine.state import COST, MOST_MOVED, OVERFULL, State
from opendrs.policies.optimising.engine.tables import NONE, Tables


@part
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


@part
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
    state.sums[COST] = 0.0
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
    state.numbers[OVERFULL] = 0
    for node in range(len(state.units_on)):
        after, over = node_after(tables, state, node, NONE, NONE)
        state.node_cost[node] = after
        state.overfill[node] = over
        state.numbers[OVERFULL] += over > 0.0
        state.sums[COST] += after
