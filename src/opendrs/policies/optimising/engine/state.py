"""An assignment with the sums that tell at once what a move would cost."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from opendrs.policies.optimising.engine.tables import Tables
from opendrs.policies.optimising.groups import Floats, Indices

Counts = npt.NDArray[np.int32]

COST = 0
MOST_MOVED, LOGGED, OVERFULL = range(3)


class State(NamedTuple):
    """What a search changes.

    node_of: the node of each unit; load and left: what each node bears, and what it
    holds of units that have left it; node_cost and overfill: what that comes to;
    units_on and received: units on each node, and those that came from elsewhere;
    standing and slot: the units on each node, and where among them each unit is;
    moved and histogram: moved units of each group, and how many groups have so many;
    at_location, locations and near: where the counted groups stand; spent: of each
    budget; sums: COST; price: of what is over the limit of each node;
    numbers: MOST_MOVED, LOGGED and
    OVERFULL nodes; best and best_cost: the best assignment; log: units moved since
    then; dice: the state of the random numbers.
    """

    node_of: Indices
    load: Floats
    left: Floats
    node_cost: Floats
    overfill: Floats
    units_on: Indices
    received: Indices
    standing: Indices
    slot: Indices
    moved: Indices
    histogram: Indices
    at_location: Counts
    locations: Counts
    near: Counts
    spent: Floats
    sums: Floats
    price: Floats
    numbers: Indices
    best: Indices
    best_cost: Floats
    log: Indices
    dice: npt.NDArray[np.uint64]


def empty_state(tables: Tables, seed: int, width: int) -> State:
    """Return a state with room for *width* units on each node, yet to be filled."""
    nodes, resources = tables.capacity.shape
    units, groups = len(tables.move_cost), len(tables.strict)
    rows = int(tables.row_of.max(initial=-1)) + 1
    largest = int(np.diff(tables.member_start).max(initial=0))
    return State(
        node_of=tables.origin[:units].copy(),
        load=np.zeros((nodes, resources)),
        left=np.zeros((nodes, resources)),
        node_cost=np.zeros(nodes),
        overfill=np.zeros(nodes),
        units_on=np.zeros(nodes, dtype=np.int64),
        received=np.zeros(nodes, dtype=np.int64),
        standing=np.zeros((nodes, width), dtype=np.int64),
        slot=np.zeros(units, dtype=np.int64),
        moved=np.zeros(groups, dtype=np.int64),
        histogram=np.zeros(largest + 2, dtype=np.int64),
        at_location=_counts(rows, tables.location),
        locations=np.zeros(rows, dtype=np.int32),
        near=_counts(rows, tables.neighbourhood),
        spent=np.zeros(len(tables.budgets)),
        sums=np.zeros(1),
        price=np.tile(tables.overfill_scale, (nodes, 1)),
        numbers=np.zeros(3, dtype=np.int64),
        best=tables.origin[:units].copy(),
        best_cost=np.array([np.inf]),
        log=np.zeros(units + 1, dtype=np.int64),
        dice=np.random.SeedSequence(seed).generate_state(1, np.uint64) | np.uint64(1),
    )


def _counts(rows: int, of: Indices) -> Counts:
    return np.zeros((rows, int(of.max(initial=0)) + 1), dtype=np.int32)
