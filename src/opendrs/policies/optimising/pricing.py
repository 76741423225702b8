"""A search in which moving has a price, until the budget itself binds.

A search that has to keep within a budget all the time is stuck where each further move
asks for another to be taken back. With a price it goes on: moves must gain more than
they cost, and the price is sought at which they use the budget up, as Lagrange would.
Then who travels is exchanged for others, and at last all moves are tried again.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from opendrs.policies.optimising.construction import begun
from opendrs.policies.optimising.descent import Descent, is_small
from opendrs.policies.optimising.engine import Search, Solution, cost, cost_parts
from opendrs.policies.optimising.exchange import Exchange
from opendrs.policies.optimising.groups import Floats, Indices
from opendrs.policies.optimising.plain import Plain
from opendrs.policies.optimising.problem import Problem

WARMTH = 0.1  # the first temperature, in what is left to be mended of a node
SOUGHT = 0.5  # the part of the work until which the price is sought
EXCHANGED = 0.8  # and until which who travels is exchanged
HEAT = 0.05  # of that search, in what evenness costs a node then
POWER = 0.5  # how much the price of a move counts in the first plan
NEAR = 0.7  # the part of a budget that the best moves use up where it may bind
AIM = 0.995  # the part of a budget that is to be used up: the rest is found later
STEEPNESS = 2.0  # how much more a price must be where more than the budget is moved


class Pricing:
    """Look for assignments that cost less within budgets, some iterations at a time.

    Like `Search`, the same problem, start, seed and calls give the same, and `best` is
    always feasible.

    Args:
        problem: What is to be solved.
        start: A feasible assignment to begin with.
        seed: Where the random numbers begin.
        plain: Whether large problems are solved without compiled code.
    """

    def __init__(
        self, problem: Problem, start: Indices, seed: int = 0, *, plain: bool = False
    ) -> None:
        self.problem = problem
        self._seed = seed
        self._plain = plain
        none = np.zeros((0, problem.units))
        self._free = replace(problem, measures=none, budgets=np.zeros(0))
        self._best = Solution(start.copy(), cost(problem, start))
        everything = begun(self._free, POWER, plain=plain)
        before, after = (
            cost_parts(problem, each).even for each in (problem.origin, everything)
        )
        moved = np.maximum(self._moved(everything), np.finfo(float).tiny)
        # As of a spring: the nearer to the end, the less there is to gain.
        left = np.maximum(1 - AIM * problem.budgets / moved, 0.1)
        bounded = moved > NEAR * problem.budgets
        self._prices = bounded * max(before - after, 1e-9) / moved * left
        self._from, self._end = 0.0, SOUGHT
        priced = self._priced()
        self._search: Search | Descent | Plain | Exchange
        start = begun(priced, POWER, plain=plain)
        self._search = begun_search(priced, start, seed, plain=plain)

    @property
    def best(self) -> Solution:
        """The least costly assignment so far."""
        return self._best

    def run(self, iterations: int, progress: float) -> Solution:
        """Look at *iterations* moves, and return the best solution so far.

        Args:
            iterations: How many moves are tried.
            progress: The part of all the work, in [0, 1], that is done after it.
        """
        if progress <= SOUGHT:
            self._search.run(iterations, 1.0)
            self._adjust()
            return self._best
        end = EXCHANGED if progress <= EXCHANGED else 1.0
        if end > self._end:
            self._from, self._end = progress - 1e-9, end
            self._search = self._bound_search(end)
        part = (progress - self._from) / max(end - self._from, 1e-9)
        self._search.run(iterations, min(1.0, max(0.0, part)))
        self._keep(self._search.best.assignment)
        return self._best

    def _bound_search(self, end: float) -> Search | Descent | Plain | Exchange:
        """Return the search that keeps within the budgets until *end* of the work."""
        start = self._best.assignment
        if end < 1.0 and not (self._plain or is_small(self.problem)):
            return Exchange(self.problem, start, self._seed, heat=HEAT)
        return begun_search(self.problem, start, self._seed, plain=self._plain)

    def _adjust(self) -> None:
        """Keep what was found if it is better, and go on with other prices."""
        found = self._search.best.assignment
        moved = self._moved(found)
        if (moved <= self.problem.budgets).all():
            self._keep(found)
        budgets = np.maximum(self.problem.budgets, 1e-9)
        over = np.maximum(moved, 1e-3 * budgets) / (AIM * budgets)
        self._prices *= np.clip(over, 0.3, 3.0) ** STEEPNESS
        self._search = begun_search(
            self._priced(), found, self._seed, plain=self._plain
        )

    def _keep(self, found: Indices) -> None:
        """Take *found* over as the best, if it is."""
        price = cost(self.problem, found)
        if price < self._best.cost:
            self._best = Solution(found.copy(), price)

    def _moved(self, assignment: Indices) -> Floats:
        """Return what *assignment* moves of each measure."""
        away = assignment != self.problem.origin
        moved: Floats = self.problem.measures[:, away].sum(axis=1)
        return moved

    def _priced(self) -> Problem:
        """Return the problem with prices instead of budgets."""
        prices = self._prices @ self.problem.measures
        return replace(self._free, move_cost=self._free.move_cost + prices)


def begun_search(
    problem: Problem, start: Indices, seed: int, *, plain: bool
) -> Search | Descent | Plain:
    """Return the search that goes on from *start*, a good assignment."""
    if is_small(problem):
        return Descent(problem, start, seed)
    if plain:
        return Plain(problem, start, seed)
    parts = cost_parts(problem, start)
    left = WARMTH * (parts.even + parts.excess) / max(problem.nodes, 1)
    return Search(problem, seed=seed, start=start, temperature=max(left, 1e-12))
