"""Interface of all search methods, and stopping criteria."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from opendrs.optimizer.evaluation import Solution


class SearchMethod(Protocol):
    """Anytime search for a solution of one problem.

    The same problem, start, seed and calls give the same solutions. `best` is always
    feasible and never costs more than the start.
    """

    @property
    def best(self) -> Solution:
        """Best solution so far."""

    @property
    def exhausted(self) -> bool:
        """True if further calls of `run` find nothing better."""

    def run(self, iterations: int, progress: float) -> Solution:
        """Evaluate about *iterations* moves and return the best solution so far.

        Args:
            iterations: Number of moves to evaluate.
            progress: Fraction of the search, in [0, 1], that is done after this call.
        """


class Portion(NamedTuple):
    """Part of a search between two checks of the stopping criterion.

    Attributes:
        iterations: Number of moves to evaluate.
        progress: Fraction of the search, in [0, 1], that is done after it.
    """

    iterations: int
    progress: float


class StoppingCriterion(Protocol):
    """Decision when a search ends; the only place that may read a clock."""

    def portions(self) -> Iterator[Portion]:
        """Yield portions until the search is to end."""


@dataclass(frozen=True, slots=True)
class IterationLimit:
    """Stopping criterion: a number of iterations in equal portions.

    Attributes:
        iterations: Total number of moves to evaluate.
        count: Number of portions.
    """

    iterations: int
    count: int

    def portions(self) -> Iterator[Portion]:
        """Yield the portions; the remainder of the division is omitted."""
        for index in range(self.count):
            yield Portion(self.iterations // self.count, (index + 1) / self.count)
