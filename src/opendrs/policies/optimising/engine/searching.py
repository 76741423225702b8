"""A search that can be stopped at any moment and has its best assignment ready."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opendrs.policies.optimising.engine.evaluation import cost, faults
from opendrs.policies.optimising.groups import Indices
from opendrs.policies.optimising.problem import Problem


@dataclass(frozen=True, slots=True)
class Solution:
    """An assignment and its cost.

    Attributes:
        assignment: The node of each unit; shape (G,).
        cost: What it costs.
    """

    assignment: Indices
    cost: float


class Search:
    """Look for assignments that cost less, some iterations at a time.

    The same problem, seed and calls give the same solutions. A caller who has a
    clock runs small portions and says how much of the time is gone; one who has
    none runs a number of iterations. `best` is always feasible and never costs
    more than the start.

    Args:
        problem: What is to be solved.
        seed: Where the random numbers begin.
        start: A feasible assignment to begin with; the origin where it is left out.

    Raises:
        ValueError: The start is not feasible.
    """

    def __init__(
        self, problem: Problem, *, seed: int = 0, start: Indices | None = None
    ) -> None:
        self.problem = problem
        first = problem.origin if start is None else start
        _require_feasible(problem, first)
        self.iterations = 0
        self._random = np.random.default_rng(seed)
        self._best = Solution(first.copy(), cost(problem, first))

    @property
    def best(self) -> Solution:
        """The least costly assignment so far."""
        return self._best

    def run(self, iterations: int, progress: float) -> Solution:
        """Look at *iterations* moves, and return the best solution so far.

        Args:
            iterations: How many moves are tried.
            progress: The part of the time, in [0, 1], that will be gone when this
                call returns; the search becomes pickier towards 1.
        """
        del progress
        for _ in range(iterations):
            candidate = self._best.assignment.copy()
            unit = self._random.integers(self.problem.units)
            candidate[unit] = self._random.integers(self.problem.nodes)
            if not faults(self.problem, candidate):
                self.adopt(candidate)
        self.iterations += iterations
        return self._best

    def adopt(self, assignment: Indices) -> None:
        """Go on from *assignment*, a feasible one, if it costs less than the best."""
        price = cost(self.problem, assignment)
        if price < self._best.cost:
            _require_feasible(self.problem, assignment)
            self._best = Solution(assignment.copy(), price)


def _require_feasible(problem: Problem, assignment: Indices) -> None:
    wrong = faults(problem, assignment)
    if wrong:
        raise ValueError("the assignment is not feasible: " + "; ".join(wrong[:3]))
