"""The best single move of a cluster, by imbalance or by TOPSIS.

A move changes two rows, so each future is scored by the change of the sum and the sum
of squares of the loads: a few operations for any of the G x N moves. That loses the
last digits, so the moves that may be the best are evaluated again, exactly and in the
order of operations of Proxmox VE.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from opendrs.arrays.cluster import ClusterArrays, Floats, Indices, Mask
from opendrs.metrics import WEIGHTS, ImbalanceMetric, imbalances, sum_of_rows

TOLERANCE = 1e-9  # relative; rounding of the short form stays below 1e-11
NOISE = 1e-13  # rounding of the short form, relative to the squares it adds
CHUNK_CELLS = 1 << 16  # moves scored at once: 512 KiB a temporary stays in cache


@dataclass(frozen=True, slots=True)
class BestMove:
    """The best move, and the measure it leads to.

    Attributes:
        group: Index of the unit that moves.
        target: Index of the node it goes to.
        imbalance: The imbalance afterwards, in the form asked for.
    """

    group: int
    target: int
    imbalance: float


def best_by_imbalance(
    arrays: ClusterArrays, metric: ImbalanceMetric
) -> BestMove | None:
    """Return the move that leaves the least imbalance; None if none is allowed.

    Imbalances are cut to 15 decimals; between equals the unit and then the
    target that come first are taken.

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


def best_by_topsis(arrays: ClusterArrays, metric: ImbalanceMetric) -> BestMove | None:
    """Return the move that TOPSIS ranks first; None if none is allowed.

    The criteria are those of `opendrs.metrics.load`. Between equals the unit
    and then the target that come first are taken.

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
    arrays: ClusterArrays, groups: Indices, targets: Indices, metric: ImbalanceMetric
) -> Floats:
    """Return the imbalance after each move, to the last digit.

    Args:
        arrays: The cluster before the move.
        groups: The unit that each move takes; shape (k,).
        targets: The node to which it takes it; shape (k,).
        metric: The form of the imbalance.

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
    """Scores of all moves of some units, from sums that each move changes."""

    def __init__(self, arrays: ClusterArrays) -> None:
        self._arrays = arrays
        self._n = len(arrays.capacity)
        self._loads = arrays.usage / arrays.capacity
        self._mean = self._loads.mean(axis=1)
        # Deviations, so that squares do not swallow small differences.
        self._center = float(self._mean.sum()) / max(1, self._n)
        self._deviation = self._mean - self._center
        self._squares = np.square(self._loads).sum(axis=0)
        self._noise = NOISE * float(np.square(self._mean).sum()) / max(1, self._n)

    def permitted(self, groups: Indices) -> Mask:
        """Return which node each unit may go to; shape (k, N)."""
        c = self._arrays
        mask = c.allowed[c.class_of[groups]]
        mask &= c.required[groups, 0, None] <= c.available[:, 0]
        mask &= c.required[groups, 1, None] <= c.available[:, 1]
        mask[np.arange(len(groups)), c.node_of[groups]] = False
        return mask

    def lowest_variations(self, groups: Indices) -> Floats:
        """Return the least squared coefficient of variation after each move.

        That is a lower bound of what it is, near to it but for rounding: where
        hardly any imbalance is left, rounding is all there is. The shape is
        (k, N); infinite where a move is not permitted.
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
        """Return the loads of the sources once the units are gone; shape (k, 2)."""
        c = self._arrays
        source = c.node_of[groups]
        remaining = np.maximum(c.usage[source] - c.demand[groups], 0.0)
        loads: Floats = remaining / c.capacity[source]
        return loads


@dataclass(frozen=True, slots=True)
class _IdealPoint:
    """What TOPSIS measures from; one number per criterion, all to be minimised.

    Attributes:
        weight: Share of each criterion over the norm of its column.
        best: The least value.
        worst: The largest value.
    """

    weight: Floats
    best: Floats
    worst: Floats

    @classmethod
    def of(cls, parts: Iterable[Sequence[Floats]]) -> _IdealPoint | None:
        """Return the ideal of all *parts*, or None if there is nothing in them."""
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
    """Return the highest load but for that of the source; shape (k,).

    The target is not left out: its load can only grow.
    """
    first = int(loads.argmax())
    second = np.delete(loads, first).max(initial=0.0)
    highest: Floats = np.where(source == first, second, loads[first])
    return highest


def _exact_loads(arrays: ClusterArrays, groups: Indices, targets: Indices) -> Floats:
    """Return the loads of all nodes after each move; shape (N, k, 2)."""
    c, k = arrays, len(groups)
    usage = np.repeat(c.usage[:, None, :], k, axis=1)
    move = np.arange(k)
    source = c.node_of[groups]
    usage[source, move] = np.maximum(c.usage[source] - c.demand[groups], 0.0)
    usage[targets, move] = c.usage[targets] + c.demand[groups]
    loads: Floats = usage / c.capacity[:, None, :]
    return loads


def _exact_criteria(arrays: ClusterArrays, groups: Indices, targets: Indices) -> Floats:
    """Return the TOPSIS criteria after each move, to the last digit; shape (4, k)."""
    parts = []
    for chunk in _slices(len(groups), len(arrays.capacity)):
        loads = _exact_loads(arrays, groups[chunk], targets[chunk])
        average = 1.0 + np.sqrt(sum_of_rows(np.square(loads)) / len(loads))
        highest = 1.0 + np.maximum(loads.max(axis=0), 0.0)
        parts.append(np.stack((average, highest), axis=2).reshape(-1, len(WEIGHTS)).T)
    return np.concatenate(parts, axis=1)


def _lowest_of_each_group(
    arrays: ClusterArrays, score: Callable[[Indices], Floats]
) -> Floats:
    if not arrays.capacity.size:
        return np.full(len(arrays.demand), np.inf)
    parts = [score(groups).min(axis=1) for groups in _chunks(arrays)]
    return np.concatenate(parts) if parts else np.zeros(0)


def _variation_of_best(
    arrays: ClusterArrays, score: Callable[[Indices], Floats], lowest_scores: Floats
) -> float:
    """Return the exact squared variation after the move that scores best."""
    group = np.array([lowest_scores.argmin()])
    target = score(group).argmin(axis=1)
    coefficient = exact_imbalances(arrays, group, target, ImbalanceMetric.CV)
    return float(coefficient[0] ** 2)


def _moves_within(
    arrays: ClusterArrays,
    score: Callable[[Indices], Floats],
    lowest_scores: Floats,
    limit: float,
) -> tuple[Indices, Indices]:
    """Return the moves that score at most *limit*, as units and targets."""
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


def _chunks(arrays: ClusterArrays) -> Iterator[Indices]:
    all_groups = np.arange(len(arrays.demand))
    for chunk in _slices(len(all_groups), len(arrays.capacity)):
        yield all_groups[chunk]


def _slices(count: int, width: int) -> Iterator[slice]:
    """Yield slices of *count* rows that hold about `CELLS` cells each."""
    size = max(1, CHUNK_CELLS // max(1, width))
    for start in range(0, count, size):
        yield slice(start, start + size)


def _truncate(values: Floats) -> Floats:
    """Return *values* cut to 15 decimals, as Proxmox stores them."""
    truncated: Floats = np.trunc(values * 1e15) / 1e15
    return truncated
