"""Data of the relaxation: departure sets, arrival hulls, multipliers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opendrs.optimizer.problem import Floats, Indices, Mask, Problem


def convex_hull(points: Floats) -> Floats:
    """Return the corners of the hull of *points*, anticlockwise; shape (K, 2)."""
    ordered = sorted({(x, y) for x, y in points.tolist()})
    if len(ordered) < 2:
        return np.array(ordered, float).reshape(-1, 2)
    below, above = _left_chain(ordered), _left_chain(ordered[::-1])
    return np.array([*below[:-1], *above[:-1]], float)


def _left_chain(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the corners that turn to the left, on the way along *points*."""
    chain: list[tuple[float, float]] = []
    for x, y in points:
        while len(chain) > 1:
            (a, b), (c, d) = chain[-2], chain[-1]
            if (c - a) * (y - b) - (d - b) * (x - a) > 0:
                break
            chain.pop()
        chain.append((x, y))
    return chain


class ConvexHulls:
    """The same hull as each of several nodes measures it.

    Args:
        corners: The corners of the hull, anticlockwise; shape (K, 2).
        scale: How long each node takes what is 1 in each direction; shape (N, 2).
    """

    def __init__(self, corners: Floats, scale: Floats) -> None:
        self._scale = scale
        self._from = corners * scale[:, None, :]
        self._along = np.roll(self._from, -1, axis=1) - self._from
        length = np.square(self._along).sum(axis=2)
        self._length = np.where(length > 0, length, 1.0)

    def nearest(self, nodes: Indices, points: Floats, times: Indices) -> Floats:
        """Return the points of so many times the hull that are nearest to *points*.

        Args:
            nodes: The node that measures each distance; shape (P,).
            points: The points, not scaled; shape (P, 2).
            times: How many times the hull is taken for each; shape (P,).
        """
        along, by = self._along[nodes], times[:, None, None]
        start = by * self._from[nodes]
        scale = self._scale[nodes]
        away = (points * scale)[:, None, :] - start
        cross = along[:, :, 0] * away[:, :, 1] - along[:, :, 1] * away[:, :, 0]
        inside = np.all(cross > 0, axis=1)
        part = (along * away).sum(axis=2) / (times[:, None] * self._length[nodes])
        beyond = away - by * along * np.clip(part, 0.0, 1.0)[:, :, None]
        edge = np.square(beyond).sum(axis=2).argmin(axis=1)
        rest = beyond[np.arange(len(edge)), edge] / scale
        near: Floats = points - np.where(inside[:, None], 0.0, rest)
        return near


MAX_LARGE = 14  # units of a node of which all sets are looked at


@dataclass(frozen=True, slots=True)
class DepartureSets:
    """Sets of large units that may leave, the sets of each node one after another.

    Attributes:
        node: The node of each set; shape (C,).
        load_after: The load of the node once the set has left it; shape (C, 2).
        count: How many units the set has; shape (C,).
        budget_use: What the budgets count of the set; shape (B, C).
        empty_set: The empty set of each node; shape (N,).
        small: The units that are in no set, by node; shape (S,).
        small_count: How many of them each node has; shape (N,).
        small_demand: What the s largest of them take of each resource at most, each resource
            by itself; shape (N, 1 + most, 2).
    """

    node: Indices
    load_after: Floats
    count: Floats
    budget_use: Floats
    empty_set: Indices
    small: Indices
    small_count: Indices
    small_demand: Floats


@dataclass(frozen=True, slots=True)
class BoundGroups:
    """Who is where, and what they take.

    Attributes:
        origin: The node of each unit; shape (G,).
        demand: What each takes; shape (G, 2).
        budget_weights: What budgets count of each; shape (B, G).
        is_movable: Which may leave; shape (G,).
    """

    origin: Indices
    demand: Floats
    budget_weights: Floats
    is_movable: Mask


def departure_sets(groups: BoundGroups, load: Floats, set_limit: int) -> DepartureSets:
    """Return the sets that may leave.

    Args:
        groups: Who is where.
        load: The load of each node; shape (N, 2).
        set_limit: How many sets there may be, about.
    """
    order, count = _by_size(groups, len(load))
    begin = np.cumsum(count) - count
    origin = groups.origin[order]
    most = _max_large(count, set_limit)
    rank = np.arange(len(order)) - begin[origin]
    small = order[rank >= most]
    small_count = np.maximum(count - most, 0)
    blocks = []
    for large in range(most + 1):
        nodes = np.flatnonzero(np.minimum(count, most) == large)
        rows = order[begin[nodes][:, None] + np.arange(large)]
        blocks.append(_subset_block(groups, nodes, rows))
    node = np.concatenate([each.node for each in blocks])
    first = np.full(len(load), len(node))
    np.minimum.at(first, node, np.arange(len(node)))
    return DepartureSets(
        node=node,
        load_after=load[node] - np.concatenate([each.demand for each in blocks]),
        count=np.concatenate([each.count for each in blocks]),
        budget_use=np.hstack([each.budget_use for each in blocks]),
        empty_set=first,
        small=small,
        small_count=small_count,
        small_demand=_largest_demands(
            groups.origin[small], groups.demand[small], small_count
        ),
    )


def _by_size(groups: BoundGroups, nodes: int) -> tuple[Indices, Indices]:
    """Return who may leave, the largest of each node first, and how many of each do."""
    moving = np.flatnonzero(groups.is_movable)
    wanted = (groups.budget_weights < 0).any(axis=0)
    size = np.where(wanted, np.inf, groups.demand.max(axis=1))[moving]
    where = groups.origin[moving]
    return moving[np.lexsort((-size, where))], np.bincount(where, minlength=nodes)


def _max_large(count: Indices, set_limit: int) -> int:
    """Return how many units of each node may be large."""
    most = MAX_LARGE
    while most > 0 and np.exp2(np.minimum(count, most)).sum() > set_limit:
        most -= 1
    return most


@dataclass(frozen=True, slots=True)
class _SubsetBlock:
    """All sets of the large units of nodes that have equally many.

    The node of each set, what it takes, how many units it has, and what of it counts.
    """

    node: Indices
    demand: Floats
    count: Floats
    budget_use: Floats


def _subset_block(groups: BoundGroups, nodes: Indices, rows: Indices) -> _SubsetBlock:
    """Return the sets of *nodes*, whose large units are in the *rows*."""
    large = rows.shape[1]
    numbers = np.arange(2**large)
    sets = (numbers[:, None] >> np.arange(large) & 1).astype(float)
    budget_use = groups.budget_weights[:, rows] @ sets.T
    return _SubsetBlock(
        node=np.repeat(nodes, len(sets)),
        demand=(sets @ groups.demand[rows]).reshape(-1, 2),
        count=np.tile(sets.sum(axis=1), len(nodes)),
        budget_use=budget_use.reshape(len(budget_use), len(nodes) * len(sets)),
    )


def _largest_demands(node: Indices, demand: Floats, count: Indices) -> Floats:
    """Return what the largest take, added up, for each node."""
    demands = np.zeros((len(count), 1 + int(count.max(initial=0)), 2))
    begin = np.cumsum(count) - count
    for resource in range(2):
        order = np.lexsort((-demand[:, resource], node))
        rank = 1 + np.arange(len(order)) - begin[node]
        demands[node, rank, resource] = demand[order, resource]
    total: Floats = demands.cumsum(axis=1)
    return total


DIMENSIONS = 2  # the resources whose evenness can be looked at, at most


@dataclass(frozen=True, slots=True)
class BoundData:
    """The nodes and who may move. Loads are counted in the mean load of a node.

    Attributes:
        weight: Cost of the square of the distance of a node's share of its capacity
            to the target; shape (2,).
        target: That share; shape (2,).
        share: The share of the capacity of each node that is a load of 1; (N, 2).
        load: The load of each node; shape (N, 2).
        can_receive: The nodes where units may arrive; shape (N,).
        corners: Those of the hull of nothing and what each unit takes; (K, 2).
        max_arrivals: How many units may move.
        departures: Who may leave each node.
        budget_weights: What the budgets count of each unit; shape (B, G). It may be below 0:
            what has to leave at least is a budget, too.
        budgets: The budgets; shape (B,).
    """

    weight: Floats
    target: Floats
    share: Floats
    load: Floats
    can_receive: Mask
    corners: Floats
    max_arrivals: int
    departures: DepartureSets
    budget_weights: Floats
    budgets: Floats

    @classmethod
    def of(cls, problem: Problem, set_limit: int) -> BoundData:
        """Return what is known of *problem*, with about so many sets that may leave.

        Where less than two resources are to be even, one that nobody takes is added.

        Raises:
            ValueError: More than two resources are to be even, or a node has nothing
                of one.
        """
        balanced = np.flatnonzero(problem.imbalance_weight)
        if len(balanced) > DIMENSIONS:
            raise ValueError(
                f"{len(balanced)} resources are to be even, not {DIMENSIONS}"
            )
        capacity = _pad_columns(problem.capacity, balanced, 1.0)
        if not (capacity > 0).all():
            raise ValueError("there is a node without capacity")
        demand = _pad_columns(problem.demand, balanced, 0.0)
        load = _pad_columns(problem.base_load, balanced, 0.0)
        np.add.at(load, problem.origin, demand)
        mean = np.abs(load).mean(axis=0)
        mean_load = np.where(mean > 0, mean, 1.0)
        demand, load = demand / mean_load, load / mean_load
        is_movable: Mask = np.any(problem.allowed, axis=1)[problem.class_of]
        return cls(
            weight=_pad_columns(problem.imbalance_weight[None], balanced, 1.0)[0],
            target=_pad_columns(problem.target_load[None], balanced, 0.0)[0],
            share=mean_load / capacity,
            load=load,
            can_receive=np.any(problem.allowed, axis=0),
            corners=convex_hull(
                np.vstack([np.zeros((1, DIMENSIONS)), demand[is_movable]])
            ),
            max_arrivals=int(is_movable.sum()),
            departures=departure_sets(
                BoundGroups(problem.origin, demand, problem.budget_weights, is_movable),
                load,
                set_limit,
            ),
            budget_weights=problem.budget_weights,
            budgets=problem.budgets,
        )


def _pad_columns(rows: Floats, balanced: Indices, fill: float) -> Floats:
    """Return the two columns that are looked at."""
    missing = np.full((len(rows), DIMENSIONS - len(balanced)), fill)
    return np.hstack([rows[:, balanced], missing])


@dataclass(frozen=True, slots=True)
class Multipliers:
    """What is paid for what all nodes have to agree on.

    Attributes:
        budgets: For what each budget counts; shape (B,), not negative.
        arrival: By a node for each arrival, and to it for each departure; not negative.
        load: For load that a node has in the end; shape (2,).
        mean: For the mean share of capacity; shape (2,).
    """

    budgets: Floats
    arrival: float
    load: Floats
    mean: Floats

    @classmethod
    def of(cls, flat: Floats) -> Multipliers:
        """Return the prices that are in a row."""
        budgets = flat[: -1 - 2 * DIMENSIONS]
        load, mean = flat[-2 * DIMENSIONS : -DIMENSIONS], flat[-DIMENSIONS:]
        return cls(budgets, float(flat[len(budgets)]), load, mean)
