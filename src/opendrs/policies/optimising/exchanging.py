"""Who travels is exchanged for others, within budgets; compiled.

Where budgets bind, hardly any single move is left: each further one asks for another
to be taken back. So both are made at once: one who is away goes home, and another
leaves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opendrs.policies.optimising.engine.annealing import keep_best
from opendrs.policies.optimising.engine.compiled import compiled, part
from opendrs.policies.optimising.engine.costs import (
    node_after,
    sharing_cost,
    standing_cost,
)
from opendrs.policies.optimising.engine.drawing import draw, one_of
from opendrs.policies.optimising.engine.feasibility import more_spent
from opendrs.policies.optimising.engine.moves import may_join, relocate
from opendrs.policies.optimising.engine.state import COST, State
from opendrs.policies.optimising.engine.tables import NONE, Tables
from opendrs.policies.optimising.groups import Indices

STEP = 100  # changes between two temperatures
# How often each kind of change is drawn, added up; the rest is another who leaves from
# elsewhere to elsewhere.
LEAVE = 0.05  # one more leaves
RETURN = 0.08  # one goes home
TURN = 0.23  # one goes elsewhere
CROSS = 0.35  # two who are away change targets
RELIEVE = 0.5  # another leaves the same home for the same target
FOLLOW = 0.65  # another leaves the same home for elsewhere
REPLACE = 0.8  # another leaves its home for the same target


class Travellers(NamedTuple):
    """Who is away, and who might be.

    Attributes:
        away: Units that are not at their origin, as many as `number` says; shape (G,).
        slot: Where among them each unit is, or NONE; shape (G,).
        number: How many they are; shape (1,).
        candidates: Units that would gain most, were they to leave.
        targets: Where units go.
    """

    away: Indices
    slot: Indices
    number: Indices
    candidates: Indices
    targets: Indices


class Leg(NamedTuple):
    """A stretch of the schedule.

    Attributes:
        iterations: How many changes are tried.
        hot: The temperature in the beginning.
        cold: The temperature at the end.
    """

    iterations: int
    hot: float
    cold: float


class Change(NamedTuple):
    """A unit goes to a target, and another goes to a third node.

    Attributes:
        unit: The unit; NONE where the draw came to nothing.
        target: Where it goes.
        other: The other; NONE where there is none.
        third: Where that one goes.
        chained: Whether the target is where the other was. If not, the two have no
            node in common.
    """

    unit: int
    target: int
    other: int
    third: int
    chained: bool


@part
def drawn_change(tables: Tables, state: State, who: Travellers) -> Change:
    """Return a change drawn at random."""
    kind = draw(state)
    fresh = who.candidates[one_of(state, len(who.candidates))]
    target = who.targets[one_of(state, len(who.targets))]
    count = who.number[0]
    if count == 0 or kind < LEAVE:
        return Change(fresh, target, NONE, NONE, False)  # noqa: FBT003 - as its fields
    unit = who.away[one_of(state, count)]
    here, home = state.node_of[unit], tables.origin[unit]
    if kind < TURN:
        there = home if kind < RETURN else target
        return Change(unit, there, NONE, NONE, False)  # noqa: FBT003
    if kind < CROSS:
        other = who.away[one_of(state, count)]
        return Change(unit, state.node_of[other], other, here, True)  # noqa: FBT003
    if kind < FOLLOW:
        other = neighbour(tables, state, home)
        third = here if kind < RELIEVE else target
        return Change(unit if other != NONE else NONE, home, other, third, True)  # noqa: FBT003
    if kind < REPLACE:
        return Change(fresh, here, unit, home, True)  # noqa: FBT003
    return Change(fresh, target, unit, home, False)  # noqa: FBT003


@part
def neighbour(tables: Tables, state: State, home: int) -> int:
    """Return a unit that is at *home* and belongs there; NONE where the draw fails."""
    if state.units_on[home] == 0:
        return NONE
    unit = state.standing[home, one_of(state, state.units_on[home])]
    return int(unit) if tables.origin[unit] == home else NONE


@part
def is_possible(state: State, change: Change) -> bool:
    """Return whether *change* is one, and its nodes have a place for their units."""
    unit, target, other, third, chained = change
    here, width = state.node_of[unit], state.standing.shape[1]
    if target == here or state.units_on[target] + 1 >= width:
        return False
    if other == NONE:
        return True
    there = state.node_of[other]
    if unit == other or third == there or state.units_on[third] + 1 >= width:
        return False
    return chained or not (there in (here, target) or third in (here, target))


@part
def is_open(tables: Tables, state: State, change: Change) -> bool:
    """Return whether classes and strict groups let *change* be made."""
    unit, target, other, third, chained = change
    leaves = other if chained else NONE
    for turn in range(1 if other == NONE else 2):
        # Compiled code becomes half as long where the same is asked in one place.
        if turn == 1:
            unit, target, leaves = other, third, unit if chained else NONE
        if not may_join(tables, state, unit, target, leaves):
            return False
    return True


@part
def is_affordable(tables: Tables, state: State, change: Change) -> bool:
    """Return whether the budgets let *change* be made."""
    for b in range(len(tables.budgets)):
        more = more_spent(tables, state, b, change.unit, change.target)
        if change.other != NONE:
            more += more_spent(tables, state, b, change.other, change.third)
        if more > 0 and state.spent[b] + more > tables.budgets[b]:
            return False
    return True


@part
def change_delta(tables: Tables, state: State, change: Change) -> tuple[float, float]:
    """Return how cost and overfill change with *change*."""
    unit, target, other, third, chained = change
    here, there = state.node_of[unit], state.node_of[other]
    second = other if chained else NONE  # who goes as the first comes
    closed = chained and third == here  # they change places
    delta, over = 0.0, 0.0
    for turn in range(2 if other == NONE or closed else 4 - chained):
        node, joins, leaves = target, unit, second
        if turn == 1:
            node, joins, leaves = here, other if closed else NONE, unit
        elif turn == 2:
            node, joins, leaves = third, other, NONE
        elif turn == 3:
            node, joins, leaves = there, NONE, other
        after, full = node_after(tables, state, node, joins, leaves)
        delta += after - state.node_cost[node]
        over += full - state.overfill[node]
    second = NONE if other == NONE else unit if chained else NONE
    for turn in range(2 if other == NONE else 4):
        node, who, leaves = target, unit, other if chained else NONE
        if turn == 1:
            node, leaves = here, NONE
        elif turn == 2:
            node, who, leaves = third, other, second
        elif turn == 3:
            node, who, leaves = there, other, NONE
        cost = standing_cost(tables, who, node)
        if tables.has_apart:
            cost += sharing_cost(tables, state, who, node, leaves)
        delta += cost if turn % 2 == 0 else -cost
    return delta, over


@part
def travel(tables: Tables, state: State, who: Travellers, change: Change) -> None:
    """Make *change*, and keep account of who is away."""
    unit, node = change.unit, change.target
    for turn in range(1 if change.other == NONE else 2):
        if turn == 1:
            unit, node = change.other, change.third
        relocate(tables, state, unit, node)
        at = who.slot[unit]
        if node != tables.origin[unit]:
            if at == NONE:
                who.away[who.number[0]] = unit
                who.slot[unit] = who.number[0]
                who.number[0] += 1
        elif at != NONE:
            who.number[0] -= 1
            last = who.away[who.number[0]]
            who.away[at] = last
            who.slot[last] = at
            who.slot[unit] = NONE


@compiled
def exchange(tables: Tables, state: State, who: Travellers, leg: Leg) -> int:
    """Try changes while the temperature falls; return how many were made."""
    made = 0
    temperature = leg.hot
    cooling = (leg.cold / leg.hot) ** (STEP / max(leg.iterations, STEP))
    for i in range(leg.iterations):
        if i % STEP == STEP - 1:
            temperature *= cooling
        change = drawn_change(tables, state, who)
        if change.unit == NONE or not is_possible(state, change):
            continue
        if not is_affordable(tables, state, change):
            continue
        if not is_open(tables, state, change):
            continue
        bound = -temperature * np.log(1.0 - draw(state))
        delta, over = change_delta(tables, state, change)
        if over > 0.0 or delta > bound:
            continue
        travel(tables, state, who, change)
        made += 1
        if state.sums[COST] < state.best_cost[0]:
            keep_best(state)
    return made
