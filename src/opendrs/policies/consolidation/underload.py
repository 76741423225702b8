"""Underload: when a host has so little to do that it should be emptied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from opendrs.policies.base import require_ratio
from opendrs.policies.consolidation.detection import require_samples
from opendrs.policies.consolidation.histories import (
    Histories,
    Truths,
    mean_of_last,
    means_of_last,
)


class UnderloadDetector(Protocol):
    """Tells from the history of a host whether it should be emptied.

    A host of which nothing is known is not underloaded.

    Attributes:
        name: What operators call it; never renamed.
    """

    name: ClassVar[str]

    def underloaded(self, history: Sequence[float]) -> bool:
        """Return whether the host of *history*, the oldest first, has little to do."""

    def all_underloaded(self, histories: Histories) -> Truths:
        """Return `underloaded` of each host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlwaysUnderloaded:
    """Every host of which anything is known should be emptied if it can be."""

    name: ClassVar[str] = "always"

    def underloaded(self, history: Sequence[float]) -> bool:
        """Return whether anything is known."""
        return bool(history)

    def all_underloaded(self, histories: Histories) -> Truths:
        """Return `underloaded` of each host."""
        return histories.lengths > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderloadThreshold:
    """The newest sample is not above *threshold*."""

    name: ClassVar[str] = "threshold"
    threshold: float = 0.5

    def __post_init__(self) -> None:
        require_ratio("threshold", self.threshold, 1.0)

    def underloaded(self, history: Sequence[float]) -> bool:
        """Return whether the newest sample is at most the threshold."""
        return bool(history) and history[-1] <= self.threshold

    def all_underloaded(self, histories: Histories) -> Truths:
        """Return `underloaded` of each host."""
        return (histories.lengths > 0) & (histories.last() <= self.threshold)


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

    def all_underloaded(self, histories: Histories) -> Truths:
        """Return `underloaded` of each host."""
        known: Truths = histories.lengths > 0
        return known & (np.asarray(means_of_last(histories, self.n)) <= self.threshold)
