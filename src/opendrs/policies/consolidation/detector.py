"""Protocols of overload and underload detectors, and their counters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from opendrs.policies.base import require_ratio
from opendrs.policies.consolidation.history import (
    Floats,
    Integers,
    LoadHistories,
    Mask,
    mean_of_last,
    means_of_last,
)


class OverloadCounter(NamedTuple):
    """State that a detector keeps for one host; JSON-able.

    Attributes:
        samples: Number of evaluations.
        overloaded: Number of evaluations in which the host was overloaded.
    """

    samples: int = 0
    overloaded: int = 0


class OverloadCounters(NamedTuple):
    """Counters of many hosts as arrays; each of shape (hosts,)."""

    samples: Integers
    overloaded: Integers

    @staticmethod
    def zeros(hosts: int) -> OverloadCounters:
        """Return the initial counters of *hosts* hosts."""
        return OverloadCounters(np.zeros(hosts, np.int64), np.zeros(hosts, np.int64))


class DetectorResult(NamedTuple):
    """Result for one host: overloaded or not, and the updated counter."""

    overloaded: bool
    counter: OverloadCounter


class DetectorResults(NamedTuple):
    """Results for many hosts as arrays."""

    overloaded: Mask
    counters: OverloadCounters


class OverloadDetector(Protocol):
    """Detect from its history that a host is overloaded, so guests should leave.

    A history contains the used fraction of the host's CPU, oldest sample first. A
    host without samples is not overloaded. *migration* is the duration of a
    migration in sampling intervals.

    Attributes:
        name: Stable name in configuration files.
    """

    name: ClassVar[str]

    def judge(
        self, history: Sequence[float], counter: OverloadCounter, migration: float
    ) -> DetectorResult:
        """Return the result for one host."""

    def judge_all(
        self, histories: LoadHistories, counters: OverloadCounters, migration: Floats
    ) -> DetectorResults:
        """Return the results for all hosts; *migration* has shape (hosts,)."""


class MemorylessDetector(ABC):
    """Detector that uses the history alone and leaves the counter unchanged."""

    @abstractmethod
    def overloaded(self, history: Sequence[float], migration: float = 0.0) -> bool:
        """Return True if guests should leave the host with *history*."""

    @abstractmethod
    def all_overloaded(self, histories: LoadHistories, migration: Floats) -> Mask:
        """Return `overloaded` of each host."""

    def judge(
        self, history: Sequence[float], counter: OverloadCounter, migration: float
    ) -> DetectorResult:
        """Return the result for one host."""
        return DetectorResult(self.overloaded(history, migration), counter)

    def judge_all(
        self, histories: LoadHistories, counters: OverloadCounters, migration: Floats
    ) -> DetectorResults:
        """Return the results for all hosts."""
        return DetectorResults(self.all_overloaded(histories, migration), counters)


MAX_SAFETY = 10.0  # factor on the dispersion of a load, or on a prediction


def require_samples(name: str, value: int, minimum: int = 1) -> None:
    """Check a setting that is a number of samples.

    Raises:
        ValueError: The value is less than *minimum*.
    """
    if value < minimum:
        raise ValueError(f"{name}: expected at least {minimum} samples, got {value}")


class UnderloadDetector(Protocol):
    """Detect from its history that a host should be drained.

    A host without samples is not underloaded, unless each host is.

    Attributes:
        name: Stable name in configuration files.
    """

    name: ClassVar[str]

    def underloaded(self, history: Sequence[float]) -> bool:
        """Return True if the host with *history*, oldest sample first, should drain."""

    def all_underloaded(self, histories: LoadHistories) -> Mask:
        """Return `underloaded` of each host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderloadLastNAverage:
    """Underloaded if the mean of the last *n* samples is at most *threshold*."""

    name: ClassVar[str] = "last-n-average"
    threshold: float = 0.5
    n: int = 2

    def __post_init__(self) -> None:
        require_ratio("threshold", self.threshold, 1.0)
        require_samples("n", self.n)

    def underloaded(self, history: Sequence[float]) -> bool:
        """Return True if the mean of the last *n* samples is at most the threshold."""
        return bool(history) and mean_of_last(history, self.n) <= self.threshold

    def all_underloaded(self, histories: LoadHistories) -> Mask:
        """Return `underloaded` of each host."""
        known: Mask = histories.lengths > 0
        return known & (np.asarray(means_of_last(histories, self.n)) <= self.threshold)
