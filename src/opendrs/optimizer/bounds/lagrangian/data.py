"""Data of the relaxation: departure sets, arrival hulls, multipliers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opendrs.optimizer.problem import Floats, Indices, Mask, Problem


def convex_hull(points: Floats) -> Floats:
    """Return the vertices of the hull of *points*, counterclockwise; shape (K, 2)."""
    ordered = sorted({(x, y) for x, y in _extreme_points(points).tolist()})
    if len(ordered) < 2:
        return np.array(ordered, float).reshape(-1, 2)
    below, above = _left_chain(ordered), _left_chain(ordered[::-1])
    return np.array([*below[:-1], *above[:-1]], float)


def _extreme_points(points: Floats) -> Floats:
    """Return the points that may be vertices of the hull; shape (K, 2).

    From the left and from the right, vertices are the lowest or the highest points so
    far.
    """
    ordered = points[np.lexsort((points[:, 1], points[:, 0]))]
    extreme = np.zeros(len(ordered), np.bool_)
    for side in (slice(None), slice(None, None, -1)):
        height = ordered[side, 1]
        extreme[side] |= height <= np.minimum.accumulate(height)
        extreme[side] |= height >= np.maximum.accumulate(height)
    chosen: Floats = ordered[extreme]
    return chosen


def _left_chain(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the vertices of *points* at which the path turns left."""
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
    """A hull in the distance norm of each node.

    Args:
        corners: Vertices of the hull, counterclockwise; shape (K, 2).
        scale: Scale of each dimension at each node; shape (N, 2).
    """

    def __init__(self, corners: Floats, scale: Floats) -> None:
        self._scale = scale
        self._from = corners * scale[:, None, :]
        self._along = np.roll(self._from, -1, axis=1) - self._from
        length = np.square(self._along).sum(axis=2)
        self._length = np.where(length > 0, length, 1.0)

    def nearest(self, nodes: Indices, points: Floats, times: Indices) -> Floats:
        """Return the points of a multiple of the hull that are nearest to *points*.

        Args:
            nodes: Node whose norm is used for each point; shape (P,).
            points: Points, not scaled; shape (P, 2).
            times: Multiple of the hull for each point; shape (P,).
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


MAX_LARGE = 14  # most groups of a node of which all subsets are enumerated


@dataclass(frozen=True, slots=True)
class DepartureSets:
    """Subsets of large groups that may leave, in blocks of nodes.

    Attributes:
        node: Node of each set; shape (C,).
        load_after: Load of the node without the set; shape (C, 2).
        count: Number of groups of the set; shape (C,).
        budget_use: Use of each budget by the set; shape (B, C).
        empty_set: Empty set of each node; shape (N,).
        small: Groups that are in no set, by node; shape (S,).
        small_count: Number of small groups of each node; shape (N,).
        small_demand: Upper bound of the demand of s small groups, for each resource
            separately; shape (N, 1 + most, 2).
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
    """Move groups as far as the bound depends on them.

    Attributes:
        origin: Node of each group; shape (G,).
        demand: Demand of each group; shape (G, 2).
        budget_weights: Use of each budget by each group; shape (B, G).
        is_movable: Groups that may leave; shape (G,).
    """

    origin: Indices
    demand: Floats
    budget_weights: Floats
    is_movable: Mask


def departure_sets(groups: BoundGroups, load: Floats, set_limit: int) -> DepartureSets:
    """Return the sets that may leave.

    Args:
        groups: Groups with their nodes and demands.
        load: Load of each node; shape (N, 2).
        set_limit: Approximate number of sets.
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
    """Return movable groups by node, the largest first, and their number per node."""
    moving = np.flatnonzero(groups.is_movable)
    wanted = (groups.budget_weights < 0).any(axis=0)
    size = np.where(wanted, np.inf, groups.demand.max(axis=1))[moving]
    where = groups.origin[moving]
    return moving[np.lexsort((-size, where))], np.bincount(where, minlength=nodes)


def _max_large(count: Indices, set_limit: int) -> int:
    """Return the number of groups per node of which subsets are enumerated."""
    most = MAX_LARGE
    while most > 0 and np.exp2(np.minimum(count, most)).sum() > set_limit:
        most -= 1
    return most


@dataclass(frozen=True, slots=True)
class _SubsetBlock:
    """All subsets for nodes with equally many large groups.

    Attributes:
        node: Node of each set.
        demand: Demand of each set.
        count: Number of groups of each set.
        budget_use: Use of each budget by each set.
    """

    node: Indices
    demand: Floats
    count: Floats
    budget_use: Floats


def _subset_block(groups: BoundGroups, nodes: Indices, rows: Indices) -> _SubsetBlock:
    """Return the sets of *nodes*, with their large groups in *rows*."""
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
    """Return cumulative demands of the largest groups of each node."""
    demands = np.zeros((len(count), 1 + int(count.max(initial=0)), 2))
    begin = np.cumsum(count) - count
    for resource in range(2):
        order = np.lexsort((-demand[:, resource], node))
        rank = 1 + np.arange(len(order)) - begin[node]
        demands[node, rank, resource] = demand[order, resource]
    total: Floats = demands.cumsum(axis=1)
    return total


DIMENSIONS = 2  # most resources that count for balance


@dataclass(frozen=True, slots=True)
class BoundData:
    """Nodes and groups in the units of the relaxation: mean node loads.

    Attributes:
        weight: Cost of the squared deviation of the used fraction from the target;
            shape (2,).
        target: Target fraction; shape (2,).
        share: Fraction of the capacity of each node that is a load of 1; shape (N, 2).
        load: Load of each node; shape (N, 2).
        can_receive: Nodes to which groups may move; shape (N,).
        corners: Vertices of the hull of zero and all demands; shape (K, 2).
        max_arrivals: Number of movable groups.
        departures: Sets of groups that may leave.
        budget_weights: Use of each budget by each group; shape (B, G). It may be
            negative, for a lower limit of what leaves.
        budgets: Limit of each budget; shape (B,).
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
        """Return the data of *problem* with about *set_limit* departure sets.

        With less than two balanced resources, one without demand is added.

        Raises:
            ValueError: More than two resources count for balance, or a node has no
                capacity of one of them.
        """
        balanced = np.flatnonzero(problem.imbalance_weight)
        if len(balanced) > DIMENSIONS:
            raise ValueError(
                f"imbalance_weight: expected at most {DIMENSIONS} resources, "
                f"got {len(balanced)}"
            )
        capacity = _pad_columns(problem.capacity, balanced, 1.0)
        if not (capacity > 0).all():
            raise ValueError(
                "capacity: expected more than 0 of each balanced resource, "
                f"got {float(capacity.min()):g}"
            )
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
    """Return the columns of the balanced resources, padded to two."""
    missing = np.full((len(rows), DIMENSIONS - len(balanced)), fill)
    return np.hstack([rows[:, balanced], missing])


@dataclass(frozen=True, slots=True)
class Multipliers:
    """Lagrange multipliers of the coupling constraints.

    Attributes:
        budgets: Price of the use of each budget; shape (B,), not negative.
        arrival: Price that a node pays per arrival and receives per departure; not
            negative.
        load: Price of the final load of a node; shape (2,).
        mean: Price of the mean used fraction of capacity; shape (2,).
    """

    budgets: Floats
    arrival: float
    load: Floats
    mean: Floats

    @classmethod
    def of(cls, flat: Floats) -> Multipliers:
        """Return the multipliers in the vector *flat*."""
        budgets = flat[: -1 - 2 * DIMENSIONS]
        load, mean = flat[-2 * DIMENSIONS : -DIMENSIONS], flat[-DIMENSIONS:]
        return cls(budgets, float(flat[len(budgets)]), load, mean)
