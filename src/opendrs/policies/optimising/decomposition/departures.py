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
    origin, demand, measures = all_units.origin, all_units.demand, all_units.measures
    nodes = len(load)
    moving = np.flatnonzero(all_units.free)
    wanted = (measures < 0).any(axis=0)
    size = np.where(wanted, np.inf, demand.max(axis=1))
    order = moving[np.lexsort((-size[moving], origin[moving]))]
    count = np.bincount(origin[order], minlength=nodes)
    begin = np.cumsum(count) - count
    rank = np.arange(len(order)) - begin[origin[order]]
    most = _most_large(count, sets)
    small = order[rank >= most]
    small_count = np.maximum(count - most, 0)
    blocks = [
        _block(order, begin, np.flatnonzero(np.minimum(count, most) == large), large)
        for large in range(most + 1)
    ]
    node = np.concatenate([where for where, _, _ in blocks])
    left, measured = load[node], np.zeros((len(measures), len(node)))
    sizes = np.zeros(len(node))
    at = 0
    for where, units, bits in blocks:
        here = slice(at, at + len(where))
        at += len(where)
        left[here] -= (bits @ demand[units]).reshape(-1, 2)
        measured[:, here] = (measures[:, units] @ bits.T).reshape(len(measures), -1)
        sizes[here] = np.tile(bits.sum(axis=1), len(units))
    first = np.full(nodes, len(node))
    np.minimum.at(first, node, np.arange(len(node)))
    return Departures(
        node=node,
        left=left,
        count=sizes,
        measured=measured,
        first=first,
        small=small,
        small_count=small_count,
        taken=_taken(origin[small], demand[small], small_count),
    )


def _most_large(count: Indices, sets: int) -> int:
    """Return how many units of each node may be large."""
    most = MOST_LARGE
    while most > 0 and np.exp2(np.minimum(count, most)).sum() > sets:
        most -= 1
    return most


def _block(
    order: Indices, begin: Indices, nodes: Indices, large: int
) -> tuple[Indices, Indices, Floats]:
    """Return the sets of *nodes* that have so many *large* units.

    The node of each set, the large units of each node, and who of them is in a set.
    """
    units = order[begin[nodes][:, None] + np.arange(large)]
    numbers = np.arange(2**large)
    bits = (numbers[:, None] >> np.arange(large) & 1).astype(float)
    return np.repeat(nodes, len(numbers)), units, bits


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
