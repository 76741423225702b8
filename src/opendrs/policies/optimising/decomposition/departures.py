"""Which units can leave each node: sets of the large ones, and how many small ones.

Units that should leave, of which a budget counts less than nothing, count as large.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opendrs.policies.optimising.groups import Floats, Indices, Mask

MOST_LARGE = 14  # units of a node of which all sets are looked at


@dataclass(frozen=True, slots=True)
class Departures:
    """Sets of large units that may leave, the sets of each node one after another.

    Attributes:
        node: The node of each set; shape (C,).
        left: The load of the node once the set has left it; shape (C, 2).
        count: How many units the set has; shape (C,).
        measured: What the budgets count of the set; shape (B, C).
        first: The empty set of each node; shape (N,).
        small: The units that are in no set, by node; shape (S,).
        small_count: How many of them each node has; shape (N,).
        taken: What the s largest of them take of each resource at most, each resource
            by itself; shape (N, 1 + most, 2).
    """

    node: Indices
    left: Floats
    count: Floats
    measured: Floats
    first: Indices
    small: Indices
    small_count: Indices
    taken: Floats


@dataclass(frozen=True, slots=True)
class Units:
    """Who is where, and what they take.

    Attributes:
        origin: The node of each unit; shape (G,).
        demand: What each takes; shape (G, 2).
        measures: What budgets count of each; shape (B, G).
        free: Which may leave; shape (G,).
    """

    origin: Indices
    demand: Floats
    measures: Floats
    free: Mask


def departures(all_units: Units, load: Floats, sets: int) -> Departures:
    """Return the sets that may leave.

    Args:
        all_units: Who is where.
        load: The load of each node; shape (N, 2).
        sets: How many sets there may be, about.
    """
    order, count = _by_size(all_units, len(load))
    begin = np.cumsum(count) - count
    origin = all_units.origin[order]
    most = _most_large(count, sets)
    rank = np.arange(len(order)) - begin[origin]
    small = order[rank >= most]
    small_count = np.maximum(count - most, 0)
    blocks = []
    for large in range(most + 1):
        nodes = np.flatnonzero(np.minimum(count, most) == large)
        rows = order[begin[nodes][:, None] + np.arange(large)]
        blocks.append(_block(all_units, nodes, rows))
    node = np.concatenate([each.node for each in blocks])
    first = np.full(len(load), len(node))
    np.minimum.at(first, node, np.arange(len(node)))
    return Departures(
        node=node,
        left=load[node] - np.concatenate([each.demand for each in blocks]),
        count=np.concatenate([each.count for each in blocks]),
        measured=np.hstack([each.measured for each in blocks]),
        first=first,
        small=small,
        small_count=small_count,
        taken=_taken(all_units.origin[small], all_units.demand[small], small_count),
    )


def _by_size(all_units: Units, nodes: int) -> tuple[Indices, Indices]:
    """Return who may leave, the largest of each node first, and how many of each do."""
    moving = np.flatnonzero(all_units.free)
    wanted = (all_units.measures < 0).any(axis=0)
    size = np.where(wanted, np.inf, all_units.demand.max(axis=1))[moving]
    where = all_units.origin[moving]
    return moving[np.lexsort((-size, where))], np.bincount(where, minlength=nodes)


def _most_large(count: Indices, sets: int) -> int:
    """Return how many units of each node may be large."""
    most = MOST_LARGE
    while most > 0 and np.exp2(np.minimum(count, most)).sum() > sets:
        most -= 1
    return most


@dataclass(frozen=True, slots=True)
class _Block:
    """All sets of the large units of nodes that have equally many.

    The node of each set, what it takes, how many units it has, and what of it counts.
    """

    node: Indices
    demand: Floats
    count: Floats
    measured: Floats


def _block(all_units: Units, nodes: Indices, rows: Indices) -> _Block:
    """Return the sets of *nodes*, whose large units are in the *rows*."""
    large = rows.shape[1]
    numbers = np.arange(2**large)
    sets = (numbers[:, None] >> np.arange(large) & 1).astype(float)
    measured = all_units.measures[:, rows] @ sets.T
    return _Block(
        node=np.repeat(nodes, len(sets)),
        demand=(sets @ all_units.demand[rows]).reshape(-1, 2),
        count=np.tile(sets.sum(axis=1), len(nodes)),
        measured=measured.reshape(len(measured), len(nodes) * len(sets)),
    )


def _taken(node: Indices, demand: Floats, count: Indices) -> Floats:
    """Return what the largest take, added up, for each node."""
    taken = np.zeros((len(count), 1 + int(count.max(initial=0)), 2))
    begin = np.cumsum(count) - count
    for resource in range(2):
        order = np.lexsort((-demand[:, resource], node))
        rank = 1 + np.arange(len(order)) - begin[node]
        taken[node, rank, resource] = demand[order, resource]
    total: Floats = taken.cumsum(axis=1)
    return total
