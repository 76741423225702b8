"""Protocols of overload and underload detectors, and what they remember."""

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
    """What a detector remembers of a host; JSON-able.

    Attributes:
        samples: How many times it was asked.
        overloaded: At how many of them the host was overloaded.
    """

    samples: int = 0
    overloaded: int = 0


class OverloadCounters(NamedTuple):
    """The tallies of many hosts, as columns; each of shape (hosts,)."""

    samples: Integers
    overloaded: Integers

    @staticmethod
    def zeros(hosts: int) -> OverloadCounters:
        """Return the tallies of *hosts* hosts of which nothing is known."""
        return OverloadCounters(np.zeros(hosts, np.int64), np.zeros(hosts, np.int64))


class DetectorResult(NamedTuple):
    """Whether guests should leave, and what to remember."""

    overloaded: bool
    counter: OverloadCounter


class DetectorResults(NamedTuple):
    """One verdict per host, as columns."""

    overloaded: Mask
    counters: OverloadCounters


class OverloadDetector(Protocol):
    """Tells from the history of a host whether guests should leave it.

    Histories are parts of the host's CPU in use, the oldest first; a host of
    which nothing is known is not overloaded. *migration* is how long it takes to
    move a guest away, in sampling intervals.

    Attributes:
        name: What operators call it; never renamed.
    """

    name: ClassVar[str]

    def judge(
        self, history: Sequence[float], counter: OverloadCounter, migration: float
    ) -> DetectorResult:
        """Return the verdict on one host."""

    def judge_all(
        self, histories: LoadHistories, counters: OverloadCounters, migration: Floats
    ) -> DetectorResults:
        """Return the verdicts on all hosts; *migration* has shape (hosts,)."""


class MemorylessDetector(ABC):
    """A detector that judges by the history alone and leaves the tally be."""

    @abstractmethod
    def overloaded(self, history: Sequence[float], migration: float = 0.0) -> bool:
        """Return whether guests should leave the host of *history*."""

    @abstractmethod
    def all_overloaded(self, histories: LoadHistories, migration: Floats) -> Mask:
        """Return `overloaded` of each host."""

    def judge(
        self, history: Sequence[float], counter: OverloadCounter, migration: float
    ) -> DetectorResult:
        """Return the verdict on one host."""
        return DetectorResult(self.overloaded(history, migration), counter)

    def judge_all(
        self, histories: LoadHistories, counters: OverloadCounters, migration: Floats
    ) -> DetectorResults:
        """Return the verdicts on all hosts."""
        return DetectorResults(self.all_overloaded(histories, migration), counters)


MAX_SAFETY = 10.0  # times the spread of a load, or the slope of a trend


def require_samples(name: str, value: int, minimum: int = 1) -> None:
    """Check a setting that is a number of samples.

    Raises:
        ValueError: It is less than *minimum*.
    """
    if value < minimum:
        raise ValueError(f"{name} must be at least {minimum} samples, not {value}")


class UnderloadDetector(Protocol):
    """Tells from the history of a host whether it should be emptied.

    A host of which nothing is known is not underloaded.

    Attributes:
        name: What operators call it; never renamed.
    """

    name: ClassVar[str]

    def underloaded(self, history: Sequence[float]) -> bool:
        """Return whether the host of *history*, the oldest first, has little to do."""

    def all_underloaded(self, histories: LoadHistories) -> Mask:
        """Return `underloaded` of each host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderloadLastNAverage:
    """The mean of the last *n* samples is not above *threshold*."""

    name: ClassVar[str] = "last-n-average"
    threshold: float = 0.5
    n: int = 2

    def __post_init__(self) -> None:
        require_ratio("threshold", self.threshold, 1.0)
        require_samples("n", self.n)

    def underloaded(self, history: Sequence[float]) -> bool:
        """Return whether the newest samples are at most the threshold on average."""
        return bool(history) and mean_of_last(history, self.n) <= self.threshold

    def all_underloaded(self, histories: LoadHistories) -> Mask:
        """Return `underloaded` of each host."""
        known: Mask = histories.lengths > 0
        return known & (np.asarray(means_of_last(histories, self.n)) <= self.threshold)
