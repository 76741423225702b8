"""The best single move of a whole cluster, over columns.

A move changes two rows, so each future is scored by what it changes: with the
sum and the sum of squares of the loads, any of the U x N moves costs the same
few operations, whatever the size of the cluster. That loses the last digits,
so the moves that may be the best for all we know are scored once more, to the
last digit and in Proxmox's order of operations; `candidates.py` has the plain
form, with which this one agrees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from opendrs.scoring.imbalance import ImbalanceForm, imbalances
from opendrs.scoring.load import WEIGHTS
from opendrs.scoring.sums import sum_of_rows

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]

NEAR = 1e-9  # relative; rounding of the short form stays below 1e-11
NOISE = 1e-13  # rounding of the short form, relative to the squares it adds
CELLS = 1 << 16  # moves scored at once: 512 KiB a temporary stays in cache


@dataclass(frozen=True, slots=True)
class Columns:
    """A cluster and the moves that are allowed in it, as arrays.

    A unit is what moves as one: a guest, or guests that stay together. N nodes,
    U units, C classes of units that may go to the same nodes; resources are
    cpu (cores) and memory (bytes), in this order. Nodes and units are in the
    order in which names decide between equals. Scoring reads the arrays and
    never writes them; a search that makes moves writes them in its own.

    Attributes:
        capacity: What each node has; shape (N, 2).
        taken: What of it counts as taken; shape (N, 2).
        demand: What each unit takes along; shape (U, 2).
        node_of: The node each unit is on; shape (U,).
        class_of: The class of each unit; shape (U,).
        allowed: The nodes each class may go to; shape (C, N).
        room: What each node can still take in, in measured memory and in
            promised memory (bytes); shape (N, 2).
        need: What each unit asks of both; shape (U, 2).
    """

    capacity: Floats
    taken: Floats
    demand: Floats
    node_of: Indices
    class_of: Indices
    allowed: Mask
    room: Floats
    need: Floats


@dataclass(frozen=True, slots=True)
class Best:
    """The best move, and the measure it leads to.

    Attributes:
        unit: Index of the unit that moves.
        target: Index of the node it goes to.
        imbalance: The imbalance afterwards, in the form asked for.
    """

    unit: int
    target: int
    imbalance: float


def best_by_imbalance(columns: Columns, form: ImbalanceForm) -> Best | None:
    """Return the move that leaves the least imbalance; None if none is allowed.

    Imbalances are cut to 15 decimals; between equals the unit and then the
    target that come first are taken.

    Source:
        Proxmox VE 9, ha-auto-rebalance-method bruteforce.
    """
    score = _Futures(columns).least_variations
    nearest = _least_of_each_unit(columns, score)
    if not np.isfinite(nearest).any():
        return None
    limit = _variation_of_best(columns, score, nearest) * (1 + NEAR)
    units, targets = _within(columns, score, nearest, limit)
    exact = _cut(exact_imbalances(columns, units, targets, form))
    first = np.lexsort((targets, units, exact))[0]
    return Best(int(units[first]), int(targets[first]), float(exact[first]))


def best_by_topsis(columns: Columns, form: ImbalanceForm) -> Best | None:
    """Return the move that TOPSIS ranks first; None if none is allowed.

    The criteria are those of `opendrs.scoring.load`. Between equals the unit
    and then the target that come first are taken.

    Source:
        Proxmox VE 9, ha-auto-rebalance-method topsis.
    """
    futures = _Futures(columns)
    ideal = _Ideal.of(
        [values[permitted] for values in futures.criteria(units)]
        for units in _chunks(columns)
        for permitted in [futures.permitted(units)]
    )
    if ideal is None:
        return None

    def score(units: Indices) -> Floats:
        remoteness = 1.0 - ideal.closeness(futures.criteria(units))
        return np.where(futures.permitted(units), remoteness, np.inf)

    nearest = _least_of_each_unit(columns, score)
    units, targets = _within(columns, score, nearest, nearest.min() + NEAR)
    exact = ideal.closeness(_exact_criteria(columns, units, targets))
    first = np.lexsort((targets, units, -exact))[:1]
    unit, target = units[first], targets[first]
    left = _cut(exact_imbalances(columns, unit, target, form))
    return Best(int(unit[0]), int(target[0]), float(left[0]))


def exact_imbalances(
    columns: Columns, units: Indices, targets: Indices, form: ImbalanceForm
) -> Floats:
    """Return the imbalance after each move, to the last digit.

    Args:
        columns: The cluster before the move.
        units: The unit that each move takes; shape (k,).
        targets: The node to which it takes it; shape (k,).
        form: The form of the imbalance.

    Returns:
        One imbalance per move; shape (k,).
    """
    parts = [
        imbalances(_exact_loads(columns, units[few], targets[few]).mean(axis=2), form)
        for few in _pieces(len(units), len(columns.capacity))
    ]
    return np.concatenate(parts) if parts else np.zeros(0)


class _Futures:
    """Scores of all moves of some units, from sums that each move changes."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._n = len(columns.capacity)
        self._loads = columns.taken / columns.capacity
        self._mean = self._loads.mean(axis=1)
        # Deviations, so that squares do not swallow small differences.
        self._centre = float(self._mean.sum()) / max(1, self._n)
        self._deviation = self._mean - self._centre
        self._squares = np.square(self._loads).sum(axis=0)
        self._noise = NOISE * float(np.square(self._mean).sum()) / max(1, self._n)

    def permitted(self, units: Indices) -> Mask:
        """Return which node each unit may go to; shape (k, N)."""
        c = self._columns
        mask = c.allowed[c.class_of[units]]
        mask &= c.need[units, 0, None] <= c.room[:, 0]
        mask &= c.need[units, 1, None] <= c.room[:, 1]
        mask[np.arange(len(units)), c.node_of[units]] = False
        return mask

    def least_variations(self, units: Indices) -> Floats:
        """Return the least squared coefficient of variation after each move.

        That is a lower bound of what it is, near to it but for rounding: where
        hardly any imbalance is left, rounding is all there is. The shape is
        (k, N); infinite where a move is not permitted.
        """
        c, n = self._columns, self._n
        source = c.node_of[units]
        shrink = self._left(units).mean(axis=1) - self._mean[source]
        total = self._deviation.sum() + shrink
        square = np.square(self._deviation).sum() + shrink * (
            2 * self._deviation[source] + shrink
        )
        grow = c.demand[units] @ (0.5 / c.capacity).T
        sums = grow + total[:, None]
        squares = grow * (grow + 2 * self._deviation)
        squares += square[:, None]
        variance: Floats = squares / n
        sums /= n
        variance -= np.square(sums)
        variance -= self._noise
        sums += self._centre
        np.square(sums, out=sums)
        np.divide(variance, sums, out=variance, where=sums > 0)
        variance -= NOISE
        variance[~self.permitted(units)] = np.inf
        return variance

    def criteria(self, units: Indices) -> Sequence[Floats]:
        """Return the TOPSIS criteria after each move; four, of shape (k, N)."""
        cpu, memory = (self._average_and_highest(units, each) for each in (0, 1))
        return *cpu, *memory

    def _average_and_highest(
        self, units: Indices, resource: int
    ) -> tuple[Floats, Floats]:
        c = self._columns
        loads, source = self._loads[:, resource], c.node_of[units]
        left = self._left(units)[:, resource]
        grown = c.demand[units, resource, None] / c.capacity[:, resource] + loads
        kept = self._squares[resource] - np.square(loads[source]) + np.square(left)
        squares = np.square(grown)
        squares += kept[:, None] - np.square(loads)
        average = 1.0 + np.sqrt(np.maximum(squares, 0.0) / self._n)
        others = np.maximum(left, _highest_elsewhere(loads, source))
        highest = np.maximum(grown, others[:, None])
        return average, 1.0 + np.maximum(highest, 0.0)

    def _left(self, units: Indices) -> Floats:
        """Return the loads of the sources once the units are gone; shape (k, 2)."""
        c = self._columns
        source = c.node_of[units]
        remaining = np.maximum(c.taken[source] - c.demand[units], 0.0)
        left: Floats = remaining / c.capacity[source]
        return left


@dataclass(frozen=True, slots=True)
class _Ideal:
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
    def of(cls, parts: Iterable[Sequence[Floats]]) -> _Ideal | None:
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


def _exact_loads(columns: Columns, units: Indices, targets: Indices) -> Floats:
    """Return the loads of all nodes after each move; shape (N, k, 2)."""
    c, k = columns, len(units)
    taken = np.repeat(c.taken[:, None, :], k, axis=1)
    move = np.arange(k)
    source = c.node_of[units]
    taken[source, move] = np.maximum(c.taken[source] - c.demand[units], 0.0)
    taken[targets, move] = c.taken[targets] + c.demand[units]
    loads: Floats = taken / c.capacity[:, None, :]
    return loads


def _exact_criteria(columns: Columns, units: Indices, targets: Indices) -> Floats:
    """Return the TOPSIS criteria after each move, to the last digit; shape (4, k)."""
    parts = []
    for few in _pieces(len(units), len(columns.capacity)):
        loads = _exact_loads(columns, units[few], targets[few])
        average = 1.0 + np.sqrt(sum_of_rows(np.square(loads)) / len(loads))
        highest = 1.0 + np.maximum(loads.max(axis=0), 0.0)
        parts.append(np.stack((average, highest), axis=2).reshape(-1, len(WEIGHTS)).T)
    return np.concatenate(parts, axis=1)


def _least_of_each_unit(columns: Columns, score: Callable[[Indices], Floats]) -> Floats:
    if not columns.capacity.size:
        return np.full(len(columns.demand), np.inf)
    parts = [score(units).min(axis=1) for units in _chunks(columns)]
    return np.concatenate(parts) if parts else np.zeros(0)


def _variation_of_best(
    columns: Columns, score: Callable[[Indices], Floats], nearest: Floats
) -> float:
    """Return the exact squared variation after the move that scores best."""
    unit = np.array([nearest.argmin()])
    target = score(unit).argmin(axis=1)
    raw = exact_imbalances(columns, unit, target, ImbalanceForm.RAW)
    return float(raw[0] ** 2)


def _within(
    columns: Columns,
    score: Callable[[Indices], Floats],
    nearest: Floats,
    limit: float,
) -> tuple[Indices, Indices]:
    """Return the moves that score at most *limit*, as units and targets."""
    near = np.flatnonzero(nearest <= limit)
    found = [
        (near[few][rows], targets)
        for few in _pieces(len(near), len(columns.capacity))
        for rows, targets in [np.nonzero(score(near[few]) <= limit)]
    ]
    return (
        np.concatenate([units for units, _ in found]),
        np.concatenate([targets for _, targets in found]),
    )


def _chunks(columns: Columns) -> Iterator[Indices]:
    every = np.arange(len(columns.demand))
    for piece in _pieces(len(every), len(columns.capacity)):
        yield every[piece]


def _pieces(count: int, width: int) -> Iterator[slice]:
    """Yield slices of *count* rows that hold about `CELLS` cells each."""
    size = max(1, CELLS // max(1, width))
    for start in range(0, count, size):
        yield slice(start, start + size)


def _cut(values: Floats) -> Floats:
    """Return *values* cut to 15 decimals, as Proxmox stores them."""
    cut: Floats = np.trunc(values * 1e15) / 1e15
    return cut
