"""Best single move of a cluster, by imbalance or by TOPSIS.

The scores of moves lack the last digits. Moves within `TOLERANCE` of the best are
therefore evaluated again, exactly and in the order of operations of Proxmox VE.

By imbalance, only groups whose lower bound is below the best score are scored: the ones
that could be best if they fitted on the least loaded node of each capacity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from opendrs.arrays.cluster import Floats, Indices
from opendrs.arrays.move_scores import NOISE, MoveArrays, MoveScores
from opendrs.metrics import WEIGHTS, ImbalanceMetric, imbalances, sum_of_rows

EQUAL = 1e-12  # rounding of exact scores, which are at most about 1
TOLERANCE = 1e-9  # relative; incremental scores are accurate to 1e-11
BOUND_NOISE = 8 * NOISE  # rounding of two scores, where TOLERANCE is less
CHUNK_CELLS = 1 << 16  # moves per chunk: temporaries of 512 KiB fit into the cache


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


def best_by_imbalance(
    arrays: MoveArrays, metric: ImbalanceMetric, cost: Floats | None = None
) -> BestMove | None:
    """Return the move with the smallest resulting imbalance; None if none is allowed.

    Imbalances are truncated to 15 decimals. Ties are resolved by the index of the
    group, then of the target.

    Args:
        arrays: The cluster.
        metric: Imbalance metric.
        cost: Cost of moving each group; shape (G,). The cheapest of the moves that
            differ by less than `EQUAL` is the best. None for the order of Proxmox VE.

    Source:
        Proxmox VE 9, ha-auto-rebalance-method bruteforce.
    """
    if not arrays.capacity.size:
        return None
    scores = MoveScores(arrays)
    score = scores.lowest_variations
    lowest_scores = _lowest_of_best_groups(arrays, score, scores.least_variations())
    if not np.isfinite(lowest_scores).any():
        return None
    limit = _variation_of_best(arrays, score, lowest_scores) * (1 + TOLERANCE)
    groups, targets = _moves_within(arrays, score, lowest_scores, limit)
    exact = _truncate(exact_imbalances(arrays, groups, targets, metric))
    first = _first_move(groups, targets, exact, cost)
    return BestMove(int(groups[first]), int(targets[first]), float(exact[first]))


def _first_move(
    groups: Indices, targets: Indices, scores: Floats, cost: Floats | None
) -> int:
    """Return the index of the move with the least score.

    Ties are resolved by the cost, if given, then by the index of the group, then of the
    target.
    """
    if cost is None:
        return int(np.lexsort((targets, groups, scores))[0])
    equal = np.flatnonzero(scores <= scores.min() + EQUAL)
    order = np.lexsort((targets[equal], groups[equal], cost[groups[equal]]))
    return int(equal[order[0]])


def best_by_topsis(
    arrays: MoveArrays, metric: ImbalanceMetric, cost: Floats | None = None
) -> BestMove | None:
    """Return the move that TOPSIS ranks first, or None if none is allowed.

    The criteria are those of `opendrs.metrics.load`. Ties are resolved by the index of
    the group, then of the target, or before by *cost* as in `best_by_imbalance`.

    Source:
        Proxmox VE 9, ha-auto-rebalance-method topsis.
    """
    scores = MoveScores(arrays)
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
    first = [_first_move(groups, targets, -exact, cost)]
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
            _mean_loads(arrays, _exact_loads(arrays, groups[chunk], targets[chunk])),
            metric,
        )
        for chunk in _slices(len(groups), len(arrays.capacity))
    ]
    return np.concatenate(parts) if parts else np.zeros(0)


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


def _mean_loads(arrays: MoveArrays, loads: Floats) -> Floats:
    """Return the mean of *loads*, of shape (N, k, R), of each node; shape (N, k)."""
    if arrays.share is None:
        mean: Floats = loads.mean(axis=2)
        return mean
    weighted: Floats = (loads * arrays.share[:, None, :]).sum(axis=2)
    return weighted


def _exact_loads(arrays: MoveArrays, groups: Indices, targets: Indices) -> Floats:
    """Return the loads of all nodes after each move; shape (N, k, R)."""
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
        loads = _exact_loads(arrays, groups[chunk], targets[chunk])[:, :, :2]
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


def _lowest_of_best_groups(
    arrays: MoveArrays, score: Callable[[Indices], Floats], bounds: Floats
) -> Floats:
    """Return the lowest score of each group; infinity where it is not the best.

    Args:
        arrays: The cluster.
        score: Function that returns the scores of groups.
        bounds: Lower bound of the scores of each group, in the order of which they are
            scored; shape (G,).
    """
    lowest = np.full(len(bounds), np.inf)
    order = np.argsort(bounds, kind="stable")
    best = np.inf
    for chunk in _slices(len(order), len(arrays.capacity)):
        groups = order[chunk]
        if bounds[groups[0]] > best * (1 + TOLERANCE) + BOUND_NOISE:
            break
        lowest[groups] = score(groups).min(axis=1)
        best = min(best, lowest[groups].min())
    return lowest


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
