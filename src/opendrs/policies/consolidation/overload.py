"""Overload detectors that use only the history of a host.

They behave as in OpenStack Neat, except that a single sample has no quartiles and is
therefore not overloaded, and that a history on a straight line is extrapolated along
that line. `NeverOverloaded` disables relief.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from opendrs.policies.base import require_ratio
from opendrs.policies.consolidation.detector import (
    MAX_SAFETY,
    MemorylessDetector,
    require_samples,
)
from opendrs.policies.consolidation.history import (
    Floats,
    LoadHistories,
    Mask,
    mean_of_last,
    means_of_last,
)
from opendrs.policies.consolidation.robust_statistics import (
    MIN_SAMPLES,
    interquartile_range,
    interquartile_ranges,
    loess,
    loess_lines,
    median_absolute_deviation,
    median_absolute_deviations,
    robust_loess,
    robust_loess_lines,
)

MAX_PREDICTED_LOAD = 2.0  # fraction of the capacity; Neat allows thresholds above 1


@dataclass(frozen=True, kw_only=True)
class NeverOverloaded(MemorylessDetector):
    """No host is overloaded."""

    name: ClassVar[str] = "never"

    def overloaded(self, history: Sequence[float], migration: float = 0.0) -> bool:
        """Return False."""
        del history, migration
        return False

    def all_overloaded(self, histories: LoadHistories, migration: Floats) -> Mask:
        """Return False for each host."""
        del migration
        return np.zeros(len(histories.lengths), np.bool_)


@dataclass(frozen=True, kw_only=True)
class ThresholdDetector(MemorylessDetector):
    """THR: overloaded if the newest sample is above *threshold*."""

    name: ClassVar[str] = "threshold"
    threshold: float = 0.8

    def __post_init__(self) -> None:
        require_ratio("threshold", self.threshold, 1.0)

    def overloaded(self, history: Sequence[float], migration: float = 0.0) -> bool:
        """Return True if the newest sample is above the threshold."""
        del migration
        return bool(history) and history[-1] > self.threshold

    def all_overloaded(self, histories: LoadHistories, migration: Floats) -> Mask:
        """Return `overloaded` of each host."""
        del migration
        return (histories.lengths > 0) & (histories.last() > self.threshold)


@dataclass(frozen=True, kw_only=True)
class LastNAverageDetector(MemorylessDetector):
    """Overloaded if the mean of the last *n* samples is above *threshold*."""

    name: ClassVar[str] = "last-n-average"
    threshold: float = 0.8
    n: int = 2

    def __post_init__(self) -> None:
        require_ratio("threshold", self.threshold, 1.0)
        require_samples("n", self.n)

    def overloaded(self, history: Sequence[float], migration: float = 0.0) -> bool:
        """Return True if the mean of the last *n* samples is above the threshold."""
        del migration
        return bool(history) and mean_of_last(history, self.n) > self.threshold

    def all_overloaded(self, histories: LoadHistories, migration: Floats) -> Mask:
        """Return `overloaded` of each host."""
        del migration
        means = means_of_last(histories, self.n)
        return (histories.lengths > 0) & (means > self.threshold)


@dataclass(frozen=True, kw_only=True)
class _DispersionDetector(MemorylessDetector):
    """Overloaded if less CPU is free than a multiple of the dispersion of the load.

    Attributes:
        safety: Factor on the dispersion.
        limit: Fewest samples; with fewer, the host is not overloaded.
    """

    safety: float
    limit: int = 12
    _min_samples: ClassVar[int] = 1

    def __post_init__(self) -> None:
        require_ratio("safety", self.safety, MAX_SAFETY)
        require_samples("limit", self.limit)

    def threshold(self, history: Sequence[float]) -> float:
        """Return the load from which a host with *history* is overloaded."""
        return 1 - self.safety * self.spread(history)

    @staticmethod
    @abstractmethod
    def spread(samples: Sequence[float]) -> float:
        """Return the dispersion of the samples."""

    @staticmethod
    @abstractmethod
    def spreads(samples: Floats) -> Floats:
        """Return `spread` of each row; shape (hosts, samples)."""

    def overloaded(self, history: Sequence[float], migration: float = 0.0) -> bool:
        """Return True if the newest sample reaches the threshold."""
        del migration
        if len(history) < max(self.limit, self._min_samples):
            return False
        return self.threshold(history) <= history[-1]

    def all_overloaded(self, histories: LoadHistories, migration: Floats) -> Mask:
        """Return `overloaded` of each host."""
        del migration
        overloaded = np.zeros(len(histories.lengths), np.bool_)
        for rows, samples in histories.groups():
            if samples.shape[1] >= max(self.limit, self._min_samples):
                thresholds = 1 - self.safety * self.spreads(samples)
                overloaded[rows] = thresholds <= samples[:, -1]
        return overloaded


@dataclass(frozen=True, kw_only=True)
class MadDetector(_DispersionDetector):
    """MAD: overloaded if less than *safety* median absolute deviations are free."""

    name: ClassVar[str] = "mad"
    safety: float = 2.5
    spread = staticmethod(median_absolute_deviation)
    spreads = staticmethod(median_absolute_deviations)


@dataclass(frozen=True, kw_only=True)
class IqrDetector(_DispersionDetector):
    """IQR: overloaded if less than *safety* interquartile ranges are free."""

    name: ClassVar[str] = "iqr"
    safety: float = 1.5
    _min_samples: ClassVar[int] = 2
    spread = staticmethod(interquartile_range)
    spreads = staticmethod(interquartile_ranges)


@dataclass(frozen=True, kw_only=True)
class LoessDetector(MemorylessDetector):
    """LR: overloaded if the trend reaches *threshold* before a migration would end.

    Attributes:
        threshold: Load that the prediction times `safety` must not reach; may
            exceed the capacity.
        safety: Factor on the prediction.
        length: Number of samples used for the regression.
    """

    name: ClassVar[str] = "lr"
    threshold: float = 1.0
    safety: float = 1.2
    length: int = 30
    line = staticmethod(loess)
    lines = staticmethod(loess_lines)

    def __post_init__(self) -> None:
        require_ratio("threshold", self.threshold, MAX_PREDICTED_LOAD)
        require_ratio("safety", self.safety, MAX_SAFETY)
        require_samples("length", self.length, MIN_SAMPLES)

    def prediction(self, history: Sequence[float], migration: float) -> float:
        """Return the load predicted for the end of a migration."""
        return self.line(history[-self.length :]).at(self.length + migration)

    def overloaded(self, history: Sequence[float], migration: float = 0.0) -> bool:
        """Return True if the prediction times the safety reaches the threshold."""
        if len(history) < self.length:
            return False
        return self.safety * self.prediction(history, migration) >= self.threshold

    def all_overloaded(self, histories: LoadHistories, migration: Floats) -> Mask:
        """Return `overloaded` of each host."""
        known = histories.lengths >= self.length
        lines = self.lines(histories.newest(self.length))
        reached = self.safety * lines.at(self.length + migration) >= self.threshold
        return known & reached


@dataclass(frozen=True, kw_only=True)
class RobustLoessDetector(LoessDetector):
    """LRR: like LR, with a second regression that reduces the weight of outliers."""

    name: ClassVar[str] = "lrr"
    line = staticmethod(robust_loess)
    lines = staticmethod(robust_loess_lines)
