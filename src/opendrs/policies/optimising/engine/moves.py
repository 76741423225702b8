"""What a move would change, and making it; compiled.

A unit joins a node and another may leave it: two nodes change, and their groups.
"""

from __future__ import annotations

import numpy as np

from opendrs.policies.optimising.engine.compiled import part
from opendrs.policies.optimising.engine.costs import (
    more_moved,
    node_after,
    sharing_cost,
    standing_cost,
)
from opendrs.policies.optimising.engine.feasibility import count_move
from opendrs.policies.optimising.engine.feasibility import may_be as may_be
from opendrs.policies.optimising.engine.feasibility import may_go as may_go
from opendrs.policies.optimising.engine.feasibility import may_join as may_join
from opendrs.policies.optimising.engine.state import (
    COST,
    LOGGED,
    MOST_MOVED,
    OVERFULL,
    State,
)
from opendrs.policies.optimising.engine.tables import NONE, Tables


@part
def shift_alone(tables: Tables, state: State, unit: int, target: int) -> float:
    """Return how cost changes when *unit* goes to *target*, but for that of nodes."""
    source = state.node_of[unit]
    delta = standing_cost(tables, unit, target) - standing_cost(tables, unit, source)
    if tables.has_apart:
        delta += sharing_cost(tables, state, unit, target, NONE)
        delta -= sharing_cost(tables, state, unit, source, NONE)
    if tables.group_move_weight != 0.0:
        origin = tables.origin[unit]
        change = int(target != origin) - int(source != origin)
        if change != 0:
            more = more_moved(tables, state, unit, change)
            delta += tables.group_move_weight * more
    return delta


@part
def arrival_delta(
    tables: Tables, state: State, unit: int, target: int
) -> tuple[float, float]:
    """Return how cost and overfill change when *unit* goes to *target*.

    What its source costs afterwards is left out.
    """
    source = state.node_of[unit]
    delta = shift_alone(tables, state, unit, target)
    delta -= state.node_cost[target] + state.node_cost[source]
    cost_there, over_there = node_after(tables, state, target, unit, NONE)
    over = over_there - state.overfill[target] - state.overfill[source]
    return delta + cost_there, over


@part
def shift_delta(
    tables: Tables, state: State, unit: int, target: int, most: float
) -> tuple[float, float]:
    """Return how cost and overfill change when *unit* goes to *target*.

    Where both together are more than *most*, infinity may be told instead: no node
    costs less than nothing, so what the target costs may tell enough.
    """
    delta, over = arrival_delta(tables, state, unit, target)
    if delta + over > most:
        return np.inf, np.inf
    source = state.node_of[unit]
    cost_here, over_here = node_after(tables, state, source, NONE, unit)
    return delta + cost_here, over + over_here


@part
def chain_alone(
    tables: Tables, state: State, unit: int, other: int, third: int
) -> float:
    """Return how cost changes when *unit* drives *other* away, but for that of nodes.

    Of group moves, only what each unit changes by itself is counted.
    """
    here, there = state.node_of[unit], state.node_of[other]
    delta = standing_cost(tables, unit, there) - standing_cost(tables, unit, here)
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
    return delta


@part
def chain_delta(
    tables: Tables, state: State, unit: int, other: int, third: int, most: float
) -> tuple[float, float]:
    """Return how cost and overfill change when *unit* drives *other* to *third*.

    Where *third* is the node of *unit*, the two change places. Where both together are
    more than *most*, infinity may be told instead.
    """
    here, there = state.node_of[unit], state.node_of[other]
    delta = chain_alone(tables, state, unit, other, third)
    delta -= state.node_cost[there] + state.node_cost[here]
    over = -state.overfill[there] - state.overfill[here]
    if third != here:
        delta -= state.node_cost[third]
        over -= state.overfill[third]
    cost_there, over_there = node_after(tables, state, there, unit, other)
    delta += cost_there
    over += over_there
    if delta + over > most:
        return np.inf, np.inf
    back = other if third == here else NONE
    cost_here, over_here = node_after(tables, state, here, back, unit)
    delta += cost_here
    over += over_here
    if third != here:
        cost_third, over_third = node_after(tables, state, third, other, NONE)
        delta += cost_third
        over += over_third
    return delta, over


@part
def stand(state: State, unit: int, node: int) -> None:
    """Put *unit* on the list of *node*."""
    at = state.units_on[node]
    state.standing[node, at] = unit
    state.slot[unit] = at
    state.units_on[node] = at + 1


@part
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
        state.numbers[OVERFULL] += int(over > 0.0) - int(state.overfill[node] > 0.0)
        state.overfill[node] = over
    state.sums[COST] += cost
    if state.numbers[LOGGED] < len(state.log):
        state.log[state.numbers[LOGGED]] = unit
        state.numbers[LOGGED] += 1
