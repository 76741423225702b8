"""Whether a move may be made; compiled.

A unit joins a node and another may leave it. Capacity is not looked at here: what a
move overfills is told along with what it costs.
"""

from __future__ import annotations

from opendrs.policies.optimising.engine.compiled import part
from opendrs.policies.optimising.engine.state import MOST_MOVED, State
from opendrs.policies.optimising.engine.tables import NONE, Tables


@part
def may_go(tables: Tables, unit: int, node: int) -> bool:
    """Return whether *unit* can be on *node*, whatever else is there."""
    home = node == tables.origin[unit]
    return bool(home or tables.fits[tables.fit_row[unit], node])


@part
def may_join(tables: Tables, state: State, unit: int, node: int, leaves: int) -> bool:
    """Return whether class, size and strict groups let *unit* onto *node*."""
    if not may_go(tables, unit, node):
        return False
    origin = tables.origin[unit]
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


@part
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


@part
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


@part
def more_spent(
    tables: Tables, state: State, budget: int, unit: int, target: int
) -> float:
    """Return how much more of *budget* is spent when *unit* goes to *target*."""
    origin = tables.origin[unit]
    change = int(target != origin) - int(state.node_of[unit] != origin)
    return float(change * tables.measures[budget, unit])


@part
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


@part
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
