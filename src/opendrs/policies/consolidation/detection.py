"""What it means to tell from a history that a host has too much to do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from opendrs.policies.consolidation.histories import (
    Floats,
    Histories,
    Integers,
    Truths,
)


class Tally(NamedTuple):
    """What a detector remembers of a host; JSON-able.

    Attributes:
        seen: How many times it was asked.
        overloaded: At how many of them the host was overloaded.
    """

    seen: int = 0
    overloaded: int = 0


class Tallies(NamedTuple):
    """The tallies of many hosts, as columns; each of shape (hosts,)."""

    seen: Integers
    overloaded: Integers

    @staticmethod
    def none(hosts: int) -> Tallies:
        """Return the tallies of *hosts* hosts of which nothing is known."""
        return Tallies(np.zeros(hosts, np.int64), np.zeros(hosts, np.int64))


class Verdict(NamedTuple):
    """Whether guests should leave, and what to remember."""

    overloaded: bool
    tally: Tally


class Verdicts(NamedTuple):
    """One verdict per host, as columns."""

    overloaded: Truths
    tallies: Tallies


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
        self, history: Sequence[float], tally: Tally, migration: float
    ) -> Verdict:
        """Return the verdict on one host."""

    def judge_all(
        self, histories: Histories, tallies: Tallies, migration: Floats
    ) -> Verdicts:
        """Return the verdicts on all hosts; *migration* has shape (hosts,)."""


class Memoryless(ABC):
    """A detector that judges by the history alone and leaves the tally be."""

    @abstractmethod
    def overloaded(self, history: Sequence[float], migration: float = 0.0) -> bool:
        """Return whether guests should leave the host of *history*."""

    @abstractmethod
    def all_overloaded(self, histories: Histories, migration: Floats) -> Truths:
        """Return `overloaded` of each host."""

    def judge(
        self, history: Sequence[float], tally: Tally, migration: float
    ) -> Verdict:
        """Return the verdict on one host."""
        return Verdict(self.overloaded(history, migration), tally)

    def judge_all(
        self, histories: Histories, tallies: Tallies, migration: Floats
    ) -> Verdicts:
        """Return the verdicts on all hosts."""
        return Verdicts(self.all_overloaded(histories, migration), tallies)


MOST_SAFETY = 10.0  # times the spread of a load, or the slope of a trend


def require_samples(name: str, value: int, least: int = 1) -> None:
    """Check a setting that is a number of samples.

    Raises:
        ValueError: It is less than *least*.
    """
    if value < least:
        raise ValueError(f"{name} must be at least {least} samples, not {value}")
