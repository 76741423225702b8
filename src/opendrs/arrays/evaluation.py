"""Best single move of a cluster, by imbalance or by TOPSIS.

A move changes two rows. Each move is scored by the change of the sum and the sum of
squares of the loads: a few operations for each of the G x N moves. This loses the last
digits. Moves within `TOLERANCE` of the best are therefore evaluated again, exactly and
in the order of operations of Proxmox VE.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from opendrs.arrays.cluster import Floats, Indices
from opendrs.arrays.placement_classes import Mask
from opendrs.metrics import WEIGHTS, ImbalanceMetric, imbalances, sum_of_rows

TOLERANCE = 1e-9  # relative; incremental scores are accurate to 1e-11
NOISE = 1e-13  # rounding of incremental scores, relative to the sum of squares
CHUNK_CELLS = 1 << 16  # moves per chunk: temporaries of 512 KiB fit into the cache


@dataclass(frozen=True, slots=True)
class MoveArrays:
    """Nodes, move groups and their feasible moves, as scoring reads them.

    The columns are those of `ClusterArrays`. C classes of groups have the same nodes.

    Attributes:
        capacity: Capacity of each node; shape (N, 2).
        usage: Used resources of each node; shape (N, 2).
        demand: Resources that move with each group; shape (G, 2).
        node_of: Node of each group; shape (G,).
        class_of: Class of each group; shape (G,).
        allowed: Allowed nodes of each class; shape (C, N).
        available: Available memory of each node; shape (N, 2).
        required: Memory that each group requires; shape (G, 2).
    """

    capacity: Floats
    usage: Floats
    demand: Floats
    node_of: Indices
    class_of: Indices
    allowed: Mask
    available: Floats
    required: Floats


@dataclass(frozen=True, slots=True)
class BestMove:
    """Best single move and the resulting imbalance.

    Attributes:
        group: Index of the move group.
        target: Index of the target node.
        imbalance: Imbalance after the move, in the requested metric.
    """

    group: int
    target: int
    imbalance: float


def best_by_imbalance(arrays: MoveArrays, metric: ImbalanceMetric) -> BestMove | None:
    """Return the move with the smallest resulting imbalance; None if none is allowed.

    Imbalances are truncated to 15 decimals. Ties are resolved by the index of the
    group, then of the target.

    Source:
        Proxmox VE 9, ha-auto-rebalance-method bruteforce.
    """
    score = _MoveScores(arrays).lowest_variations
    lowest_scores = _lowest_of_each_group(arrays, score)
    if not np.isfinite(lowest_scores).any():
        return None
    limit = _variation_of_best(arrays, score, lowest_scores) * (1 + TOLERANCE)
    groups, targets = _moves_within(arrays, score, lowest_scores, limit)
    exact = _truncate(exact_imbalances(arrays, groups, targets, metric))
    first = np.lexsort((targets, groups, exact))[0]
    return BestMove(int(groups[first]), int(targets[first]), float(exact[first]))


def best_by_topsis(arrays: MoveArrays, metric: ImbalanceMetric) -> BestMove | None:
    """Return the move that TOPSIS ranks first, or None if none is allowed.

    The criteria are those of `opendrs.metrics.load`. Ties are resolved by the index of
    the group, then of the target.

    Source:
        Proxmox VE 9, ha-auto-rebalance-method topsis.
    """
    scores = _MoveScores(arrays)
    ideal = _IdealPoint.of(
        [values[permitted] for values in scores.criteria(groups)]
        for groups in _chunks(arrays)
        for permitted in [scores.permitted(groups)]
    )
    if ideal is None:
        return None

    def score(groups: Indices) -> Floats:
        distance = 1.0 - ideal.closeness(scores.criteria(groups))
        return np.where(scores.permitted(groups), distance, np.inf)

    lowest_scores = _lowest_of_each_group(arrays, score)
    groups, targets = _moves_within(
        arrays, score, lowest_scores, lowest_scores.min() + TOLERANCE
    )
    exact = ideal.closeness(_exact_criteria(arrays, groups, targets))
    first = np.lexsort((targets, groups, -exact))[:1]
    group, target = groups[first], targets[first]
    imbalance = _truncate(exact_imbalances(arrays, group, target, metric))
    return BestMove(int(group[0]), int(target[0]), float(imbalance[0]))


def exact_imbalances(
    arrays: MoveArrays, groups: Indices, targets: Indices, metric: ImbalanceMetric
) -> Floats:
    """Return the imbalance after each move, to the last digit.

    Args:
        arrays: The cluster before the moves.
        groups: Group of each move; shape (k,).
        targets: Target node of each move; shape (k,).
        metric: Imbalance metric.

    Returns:
        One imbalance per move; shape (k,).
    """
    parts = [
        imbalances(
            _exact_loads(arrays, groups[chunk], targets[chunk]).mean(axis=2), metric
        )
        for chunk in _slices(len(groups), len(arrays.capacity))
    ]
    return np.concatenate(parts) if parts else np.zeros(0)


class _MoveScores:
    """Incremental scores of all moves of some groups."""

    def __init__(self, arrays: MoveArrays) -> None:
        self._arrays = arrays
        self._n = len(arrays.capacity)
        self._loads = arrays.usage / arrays.capacity
        self._mean = self._loads.mean(axis=1)
        # Squares of deviations keep the digits that squares of loads would lose.
        self._center = float(self._mean.sum()) / max(1, self._n)
        self._deviation = self._mean - self._center
        self._squares = np.square(self._loads).sum(axis=0)
        self._noise = NOISE * float(np.square(self._mean).sum()) / max(1, self._n)

    def permitted(self, groups: Indices) -> Mask:
        """Return the feasible nodes of each group; shape (k, N)."""
        c = self._arrays
        mask = c.allowed[c.class_of[groups]]
        mask &= c.required[groups, 0, None] <= c.available[:, 0]
        mask &= c.required[groups, 1, None] <= c.available[:, 1]
        mask[np.arange(len(groups)), c.node_of[groups]] = False
        return mask

    def lowest_variations(self, groups: Indices) -> Floats:
        """Return a lower bound of the squared coefficient of variation after each move.

        The bound differs from the exact value only by rounding, which dominates if
        hardly any imbalance remains. The shape is (k, N); infinity where a move is not
        permitted.
        """
        c, n = self._arrays, self._n
        source = c.node_of[groups]
        shrink = self._loads_without(groups).mean(axis=1) - self._mean[source]
        total = self._deviation.sum() + shrink
        square = np.square(self._deviation).sum() + shrink * (
            2 * self._deviation[source] + shrink
        )
        grow = c.demand[groups] @ (0.5 / c.capacity).T
        sums = grow + total[:, None]
        squares = grow * (grow + 2 * self._deviation)
        squares += square[:, None]
        variance: Floats = squares / n
        sums /= n
        variance -= np.square(sums)
        variance -= self._noise
        sums += self._center
        np.square(sums, out=sums)
        np.divide(variance, sums, out=variance, where=sums > 0)
        variance -= NOISE
        variance[~self.permitted(groups)] = np.inf
        return variance

    def criteria(self, groups: Indices) -> Sequence[Floats]:
        """Return the TOPSIS criteria after each move; four, of shape (k, N)."""
        cpu, memory = (self._average_and_highest(groups, each) for each in (0, 1))
        return *cpu, *memory

    def _average_and_highest(
        self, groups: Indices, resource: int
    ) -> tuple[Floats, Floats]:
        c = self._arrays
        loads, source = self._loads[:, resource], c.node_of[groups]
        source_load = self._loads_without(groups)[:, resource]
        target_load = c.demand[groups, resource, None] / c.capacity[:, resource] + loads
        other_squares = (
            self._squares[resource] - np.square(loads[source]) + np.square(source_load)
        )
        squares = np.square(target_load)
        squares += other_squares[:, None] - np.square(loads)
        average = 1.0 + np.sqrt(np.maximum(squares, 0.0) / self._n)
        others = np.maximum(source_load, _highest_elsewhere(loads, source))
        highest = np.maximum(target_load, others[:, None])
        return average, 1.0 + np.maximum(highest, 0.0)

    def _loads_without(self, groups: Indices) -> Floats:
        """Return the loads of the sources after the groups have left; shape (k, 2)."""
        c = self._arrays
        source = c.node_of[groups]
        remaining = np.maximum(c.usage[source] - c.demand[groups], 0.0)
        loads: Floats = remaining / c.capacity[source]
        return loads


@dataclass(frozen=True, slots=True)
class _IdealPoint:
    """Reference points of TOPSIS; one value per criterion, all to be minimized.

    Attributes:
        weight: Weight of each criterion divided by the norm of its column.
        best: Smallest value of each criterion.
        worst: Largest value of each criterion.
    """

    weight: Floats
    best: Floats
    worst: Floats

    @classmethod
    def of(cls, parts: Iterable[Sequence[Floats]]) -> _IdealPoint | None:
        """Return the reference points of all *parts*, or None if they are empty."""
        squares = np.zeros(len(WEIGHTS))
        low, high = np.full(len(WEIGHTS), np.inf), np.full(len(WEIGHTS), -np.inf)
        for part in parts:
            for k, values in enumerate(part):
                squares[k] += np.dot(values, values)
                low[k] = values.min(initial=low[k])
                high[k] = values.max(initial=high[k])
        if not np.isfinite(low).all():
            return None
        share = np.abs(WEIGHTS) / np.abs(WEIGHTS).sum()
        return cls(share / np.sqrt(squares), low, high)

    def closeness(self, criteria: Sequence[Floats] | Floats) -> Floats:
        """Return the closeness in [0, 1] of *criteria*: four, of one shape."""
        to_best, to_worst = np.zeros(criteria[0].shape), np.zeros(criteria[0].shape)
        for k, values in enumerate(criteria):
            scaled = values * self.weight[k]
            to_best += np.square(scaled - self.best[k] * self.weight[k])
            to_worst += np.square(scaled - self.worst[k] * self.weight[k])
        np.sqrt(to_best, out=to_best)
        np.sqrt(to_worst, out=to_worst)
        to_best += to_worst
        ratio: Floats = np.zeros_like(to_best)
        np.divide(to_worst, to_best, out=ratio, where=to_best != 0)
        return ratio


def _highest_elsewhere(loads: Floats, source: Indices) -> Floats:
    """Return the highest load except that of the source; shape (k,).

    The target is included: its load can only grow.
    """
    first = int(loads.argmax())
    second = np.delete(loads, first).max(initial=0.0)
    highest: Floats = np.where(source == first, second, loads[first])
    return highest


def _exact_loads(arrays: MoveArrays, groups: Indices, targets: Indices) -> Floats:
    """Return the loads of all nodes after each move; shape (N, k, 2)."""
    c, k = arrays, len(groups)
    usage = np.repeat(c.usage[:, None, :], k, axis=1)
    move = np.arange(k)
    source = c.node_of[groups]
    usage[source, move] = np.maximum(c.usage[source] - c.demand[groups], 0.0)
    usage[targets, move] = c.usage[targets] + c.demand[groups]
    loads: Floats = usage / c.capacity[:, None, :]
    return loads


def _exact_criteria(arrays: MoveArrays, groups: Indices, targets: Indices) -> Floats:
    """Return the TOPSIS criteria after each move, to the last digit; shape (4, k)."""
    parts = []
    for chunk in _slices(len(groups), len(arrays.capacity)):
        loads = _exact_loads(arrays, groups[chunk], targets[chunk])
        average = 1.0 + np.sqrt(sum_of_rows(np.square(loads)) / len(loads))
        highest = 1.0 + np.maximum(loads.max(axis=0), 0.0)
        parts.append(np.stack((average, highest), axis=2).reshape(-1, len(WEIGHTS)).T)
    return np.concatenate(parts, axis=1)


def _lowest_of_each_group(
    arrays: MoveArrays, score: Callable[[Indices], Floats]
) -> Floats:
    if not arrays.capacity.size:
        return np.full(len(arrays.demand), np.inf)
    parts = [score(groups).min(axis=1) for groups in _chunks(arrays)]
    return np.concatenate(parts) if parts else np.zeros(0)


def _variation_of_best(
    arrays: MoveArrays, score: Callable[[Indices], Floats], lowest_scores: Floats
) -> float:
    """Return the exact squared variation after the move with the best score."""
    group = np.array([lowest_scores.argmin()])
    target = score(group).argmin(axis=1)
    coefficient = exact_imbalances(arrays, group, target, ImbalanceMetric.CV)
    return float(coefficient[0] ** 2)


def _moves_within(
    arrays: MoveArrays,
    score: Callable[[Indices], Floats],
    lowest_scores: Floats,
    limit: float,
) -> tuple[Indices, Indices]:
    """Return the moves that score at most *limit*, as groups and targets."""
    candidates = np.flatnonzero(lowest_scores <= limit)
    moves = [
        (candidates[chunk][rows], targets)
        for chunk in _slices(len(candidates), len(arrays.capacity))
        for rows, targets in [np.nonzero(score(candidates[chunk]) <= limit)]
    ]
    return (
        np.concatenate([groups for groups, _ in moves]),
        np.concatenate([targets for _, targets in moves]),
    )


def _chunks(arrays: MoveArrays) -> Iterator[Indices]:
    all_groups = np.arange(len(arrays.demand))
    for chunk in _slices(len(all_groups), len(arrays.capacity)):
        yield all_groups[chunk]


def _slices(count: int, width: int) -> Iterator[slice]:
    """Yield slices of *count* rows with about `CHUNK_CELLS` cells each."""
    size = max(1, CHUNK_CELLS // max(1, width))
    for start in range(0, count, size):
        yield slice(start, start + size)


def _truncate(values: Floats) -> Floats:
    """Return *values* truncated to 15 decimals, as Proxmox VE stores them."""
    truncated: Floats = np.trunc(values * 1e15) / 1e15
    return truncated
