"""Overload: when guests should leave a host, judged by its history alone.

As in OpenStack Neat, but for two things: one sample has no quartiles and is
therefore not overloaded, and a history that lies on a straight line is judged
by that line. `NeverOverloaded` is for those who want no guest to leave.
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

MAX_PREDICTED_LOAD = 2.0  # times the capacity; Neat's thresholds of trends go above 1


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
    """THR: the newest sample is above *threshold*."""

    name: ClassVar[str] = "threshold"
    threshold: float = 0.8

    def __post_init__(self) -> None:
        require_ratio("threshold", self.threshold, 1.0)

    def overloaded(self, history: Sequence[float], migration: float = 0.0) -> bool:
        """Return whether the newest sample is above the threshold."""
        del migration
        return bool(history) and history[-1] > self.threshold

    def all_overloaded(self, histories: LoadHistories, migration: Floats) -> Mask:
        """Return `overloaded` of each host."""
        del migration
        return (histories.lengths > 0) & (histories.last() > self.threshold)


@dataclass(frozen=True, kw_only=True)
class LastNAverageDetector(MemorylessDetector):
    """The mean of the last *n* samples is above *threshold*."""

    name: ClassVar[str] = "last-n-average"
    threshold: float = 0.8
    n: int = 2

    def __post_init__(self) -> None:
        require_ratio("threshold", self.threshold, 1.0)
        require_samples("n", self.n)

    def overloaded(self, history: Sequence[float], migration: float = 0.0) -> bool:
        """Return whether the newest samples are above the threshold on average."""
        del migration
        return bool(history) and mean_of_last(history, self.n) > self.threshold

    def all_overloaded(self, histories: LoadHistories, migration: Floats) -> Mask:
        """Return `overloaded` of each host."""
        del migration
        means = means_of_last(histories, self.n)
        return (histories.lengths > 0) & (means > self.threshold)


@dataclass(frozen=True, kw_only=True)
class _DispersionDetector(MemorylessDetector):
    """The newest sample leaves less room than the samples are spread.

    Attributes:
        safety: How many times the spread is to be left free.
        limit: Fewest samples to judge by.
    """

    safety: float
    limit: int = 12
    _min_samples: ClassVar[int] = 1

    def __post_init__(self) -> None:
        require_ratio("safety", self.safety, MAX_SAFETY)
        require_samples("limit", self.limit)

    def threshold(self, history: Sequence[float]) -> float:
        """Return the load from which a host of that history is overloaded."""
        return 1 - self.safety * self.spread(history)

    @staticmethod
    @abstractmethod
    def spread(samples: Sequence[float]) -> float:
        """Return how widely the samples are spread."""

    @staticmethod
    @abstractmethod
    def spreads(samples: Floats) -> Floats:
        """Return `spread` of each row; shape (hosts, samples)."""

    def overloaded(self, history: Sequence[float], migration: float = 0.0) -> bool:
        """Return whether the newest sample reaches the threshold."""
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
    """MAD: less is free than *safety* median absolute deviations."""

    name: ClassVar[str] = "mad"
    safety: float = 2.5
    spread = staticmethod(median_absolute_deviation)
    spreads = staticmethod(median_absolute_deviations)


@dataclass(frozen=True, kw_only=True)
class IqrDetector(_DispersionDetector):
    """IQR: less is free than *safety* interquartile ranges."""

    name: ClassVar[str] = "iqr"
    safety: float = 1.5
    _min_samples: ClassVar[int] = 2
    spread = staticmethod(interquartile_range)
    spreads = staticmethod(interquartile_ranges)


@dataclass(frozen=True, kw_only=True)
class LoessDetector(MemorylessDetector):
    """LR: the trend reaches *threshold* before a guest could have left.

    Attributes:
        threshold: The load that the prediction, multiplied by `safety`, must not
            reach; it may exceed the capacity.
        safety: By how much the prediction is multiplied.
        length: How many samples the trend is found in.
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
        """Return the load expected once a guest would have left."""
        return self.line(history[-self.length :]).at(self.length + migration)

    def overloaded(self, history: Sequence[float], migration: float = 0.0) -> bool:
        """Return whether the prediction reaches the threshold."""
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
    """LRR: as LR, the trend found once more with outliers counting less."""

    name: ClassVar[str] = "lrr"
    line = staticmethod(robust_loess)
    lines = staticmethod(robust_loess_lines)
