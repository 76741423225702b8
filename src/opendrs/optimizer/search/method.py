"""Interface of all search methods, and stopping criteria."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from opendrs.optimizer.evaluation import Incumbent


class SearchMethod(Protocol):
    """Anytime search for a solution of one problem.

    The same problem, start, seed and calls give the same solutions. `best` is always
    feasible and never costs more than the start.
    """

    @property
    def best(self) -> Incumbent:
        """Best solution so far."""

    @property
    def size(self) -> int:
        """Number of groups to which the number of iterations should be proportional.

        It is a property of the problem and the start; read it before `run`.
        """

    @property
    def exhausted(self) -> bool:
        """True if further calls of `run` find nothing better."""

    def run(self, iterations: int, progress: float) -> Incumbent:
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


END_OF_SEARCH = Portion(0, 1.0)
"""What follows the recorded portions of a search that a time limit has ended."""


class StoppingCriterion(Protocol):
    """Decision when a search ends; the only place that may read a clock."""

    def portions(self, size: int) -> Generator[Portion]:
        """Yield portions until the search is to end.

        The search closes the generator if nothing more can be found.

        Args:
            size: Size of the search; see `SearchMethod.size`.
        """


@dataclass(frozen=True, slots=True)
class IterationLimit:
    """Stopping criterion: a number of iterations in equal portions.

    Attributes:
        iterations: Total number of moves to evaluate.
        count: Number of portions.
    """

    iterations: int
    count: int

    def portions(self, size: int) -> Generator[Portion]:
        """Yield the portions; the remainder of the division is omitted."""
        del size
        for index in range(self.count):
            yield Portion(self.iterations // self.count, (index + 1) / self.count)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledIterationLimit:
    """Stopping criterion: iterations in proportion to the size of the search.

    Attributes:
        per_group: Moves to evaluate per group of the size.
        least: Fewest moves to evaluate.
        most: Most moves to evaluate.
        count: Number of portions.
    """

    per_group: int
    least: int
    most: int
    count: int

    def portions(self, size: int) -> Generator[Portion]:
        """Yield equal portions."""
        iterations = min(self.most, max(self.least, self.per_group * size))
        yield from IterationLimit(iterations, self.count).portions(size)
