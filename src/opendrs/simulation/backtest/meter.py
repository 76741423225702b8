"""Metrics of a placement over the time of a record."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import isnan

import numpy as np

from opendrs.model import GIB
from opendrs.simulation.backtest.load import Placement, PlacementLoad, placement_load
from opendrs.simulation.backtest.record import Floats, LoadRecord

MINUTE, HOUR = 60.0, 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BacktestMetrics:
    """Metrics of one row of a backtest. None if nothing was measured.

    Attributes:
        measured_hours: Time in which the load of every node is known. The metrics of
            load are those of this time.
        contention_minutes: Guest minutes on nodes whose demand for cores or memory
            exceeds their capacity.
        contention_cpu_minutes: Those on nodes that lack cores.
        contention_memory_minutes: Those on nodes that lack memory.
        highest_load_mean: Mean over time of the highest CPU or memory load of a node.
        highest_load_peak: Maximum of the same.
        imbalance_mean: Mean over time of the coefficient of variation of node loads.
        rule_minutes: Violations of strict rules times their minutes, over the recorded
            time.
        rules_broken_at_end: Violations of strict rules at the end.
        nodes_mean: Mean number of nodes that are on, over the recorded time.
    """

    measured_hours: float
    contention_minutes: float | None
    contention_cpu_minutes: float | None
    contention_memory_minutes: float | None
    highest_load_mean: float | None
    highest_load_peak: float | None
    imbalance_mean: float | None
    rule_minutes: float
    rules_broken_at_end: int
    nodes_mean: float


@dataclass(frozen=True, slots=True)
class SeriesPoint:
    """Means of one row during one snapshot; None if the load is unknown.

    Attributes:
        highest_load: Highest CPU or memory load of a node.
        imbalance: Coefficient of variation of node loads.
        contended_guests: Guests on nodes whose demand exceeds their capacity.
    """

    highest_load: float | None
    imbalance: float | None
    contended_guests: float | None


_COLUMNS = ("contended", "contended_cpu", "contended_memory", "highest", "imbalance")


class PlacementMeter:
    """Sums of the metrics of placements, by snapshot of the record.

    Args:
        record: The record.

    Attributes:
        measured: Seconds during each snapshot in which the load is known; shape (T,).
    """

    def __init__(self, record: LoadRecord) -> None:
        self._record = record
        self.measured: Floats = np.zeros(len(record))
        self._sums: Floats = np.zeros((len(record), len(_COLUMNS)))
        self._peak = 0.0
        self._recorded = self._node_seconds = self._violation_seconds = 0.0
        self._last: Placement | None = None
        self._load: PlacementLoad | None = None

    def add(self, placement: Placement, start: float, seconds: float) -> None:
        """Add *seconds* of *placement*, from *start* seconds after the first snapshot.

        Time in which its snapshot does not hold is ignored.
        """
        if placement is not self._last:
            self._last = placement
            self._load = placement_load(self._record, placement)
        index = placement.index
        seconds = self._record.measured_seconds(index, start, seconds)
        self._recorded += seconds
        self._node_seconds += seconds * int(placement.reachable.sum())
        self._violation_seconds += seconds * placement.strict_violations
        if self._load is None or not seconds:
            return
        self.measured[index] += seconds
        values = [getattr(self._load, column) for column in _COLUMNS]
        self._sums[index] += seconds * np.array(values, np.float64)
        self._peak = max(self._peak, self._load.highest)

    def means(self, column: str) -> Floats:
        """Return the mean during each snapshot; NaN if unknown; shape (T,)."""
        sums = self._sums[:, _COLUMNS.index(column)]
        means: Floats = np.full(len(sums), np.nan)
        np.divide(sums, self.measured, out=means, where=self.measured > 0)
        return means

    def series(self) -> tuple[SeriesPoint, ...]:
        """Return the means during each snapshot."""
        columns = [self.means(each) for each in ("highest", "imbalance", "contended")]
        return tuple(
            SeriesPoint(*(None if isnan(value) else value for value in row))
            for row in np.stack(columns, axis=1).tolist()
        )

    def metrics(self) -> BacktestMetrics:
        """Return the metrics of all placements so far."""
        seconds = float(self.measured.sum())
        totals = dict(zip(_COLUMNS, self._sums.sum(axis=0).tolist(), strict=True))

        def per(name: str, divisor: float) -> float | None:
            return totals[name] / divisor if seconds else None

        assert self._last is not None  # noqa: S101 - a record has two snapshots
        return BacktestMetrics(
            measured_hours=seconds / HOUR,
            contention_minutes=per("contended", MINUTE),
            contention_cpu_minutes=per("contended_cpu", MINUTE),
            contention_memory_minutes=per("contended_memory", MINUTE),
            highest_load_mean=per("highest", seconds),
            highest_load_peak=self._peak if seconds else None,
            imbalance_mean=per("imbalance", seconds),
            rule_minutes=self._violation_seconds / MINUTE,
            rules_broken_at_end=self._last.strict_violations,
            nodes_mean=self._node_seconds / self._recorded,
        )


def mean_difference(one: PlacementMeter, other: PlacementMeter) -> float | None:
    """Return the mean over time of the imbalance of *one* minus that of *other*.

    Snapshots during which one of them is unknown are ignored; None if all are.
    """
    weights = np.minimum(one.measured, other.measured)
    known = weights > 0
    if not known.any():
        return None
    difference = one.means("imbalance")[known] - other.means("imbalance")[known]
    return float(np.average(difference, weights=weights[known]))


def total_gib(sizes: Iterable[int | None]) -> float | None:
    """Return the sum of *sizes* in GiB; None if one is unknown."""
    total = 0.0
    for size in sizes:
        if size is None:
            return None
        total += size / GIB
    return total
