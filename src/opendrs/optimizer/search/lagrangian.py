"""A search in which moving has a price, until the budget itself binds.

A search that has to keep within a budget all the time is stuck where each further move
asks for another to be taken back. With a price it goes on: moves must gain more than
they cost, and the price is sought at which they use the budget up, as Lagrange would.
Then who travels is exchanged for others, and at last all moves are tried again.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from opendrs.optimizer.evaluation import Solution, cost, cost_breakdown
from opendrs.optimizer.problem import Floats, Indices, Problem
from opendrs.optimizer.search.annealing import AnnealingSearch
from opendrs.optimizer.search.block_search import BlockSearch
from opendrs.optimizer.search.budgeted_annealing import BudgetedAnnealing
from opendrs.optimizer.search.initial_solution import initial_solution
from opendrs.optimizer.search.local_search import LocalSearch, is_small
from opendrs.optimizer.search.selection import start_search

PRICING_END = 0.5  # the part of the work until which the price is sought
EXCHANGE_END = 0.8  # and until which who travels is exchanged
EXCHANGE_TEMPERATURE = 0.05  # of that search, in what evenness costs a node then
PRICE_EXPONENT = 0.5  # how much the price of a move counts in the first plan
BINDING_USE = 0.7  # the part of a budget that the best moves use up where it may bind

BUDGET_TARGET = (
    0.995  # the part of a budget that is to be used up: the rest is found later
)

PRICE_STEP_EXPONENT = (
    2.0  # how much more a price must be where more than the budget is moved
)


class LagrangianSearch:
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
        none = np.zeros((0, problem.group_count))
        self._unbudgeted = replace(problem, budget_weights=none, budgets=np.zeros(0))
        self._best = Solution(start.copy(), cost(problem, start))
        unbudgeted_solution = initial_solution(
            self._unbudgeted, PRICE_EXPONENT, plain=plain
        )
        before, after = (
            cost_breakdown(problem, each).imbalance
            for each in (problem.origin, unbudgeted_solution)
        )
        moved = np.maximum(self._budget_use(unbudgeted_solution), np.finfo(float).tiny)
        # As of a spring: the nearer to the end, the less there is to gain.
        left = np.maximum(1 - BUDGET_TARGET * problem.budgets / moved, 0.1)
        bounded = moved > BINDING_USE * problem.budgets
        self._multipliers = bounded * max(before - after, 1e-9) / moved * left
        self._phase_begin, self._phase_end = 0.0, PRICING_END
        priced = self._relaxed_problem()
        self._search: AnnealingSearch | LocalSearch | BlockSearch | BudgetedAnnealing
        start = initial_solution(priced, PRICE_EXPONENT, plain=plain)
        self._search = start_search(priced, start, seed, plain=plain)

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
        if progress <= PRICING_END:
            self._search.run(iterations, 1.0)
            self._update_multipliers()
            return self._best
        end = EXCHANGE_END if progress <= EXCHANGE_END else 1.0
        if end > self._phase_end:
            self._phase_begin, self._phase_end = progress - 1e-9, end
            self._search = self._budgeted_search(end)
        part = (progress - self._phase_begin) / max(end - self._phase_begin, 1e-9)
        self._search.run(iterations, min(1.0, max(0.0, part)))
        self._store_best(self._search.best.assignment)
        return self._best

    def _budgeted_search(
        self, end: float
    ) -> AnnealingSearch | LocalSearch | BlockSearch | BudgetedAnnealing:
        """Return the search that keeps within the budgets until *end* of the work."""
        start = self._best.assignment
        if end < 1.0 and not (self._plain or is_small(self.problem)):
            return BudgetedAnnealing(
                self.problem, start, self._seed, heat=EXCHANGE_TEMPERATURE
            )
        return start_search(self.problem, start, self._seed, plain=self._plain)

    def _update_multipliers(self) -> None:
        """Keep what was found if it is better, and go on with other prices."""
        assignment = self._search.best.assignment
        moved = self._budget_use(assignment)
        if (moved <= self.problem.budgets).all():
            self._store_best(assignment)
        budgets = np.maximum(self.problem.budgets, 1e-9)
        over = np.maximum(moved, 1e-3 * budgets) / (BUDGET_TARGET * budgets)
        self._multipliers *= np.clip(over, 0.3, 3.0) ** PRICE_STEP_EXPONENT
        self._search = start_search(
            self._relaxed_problem(), assignment, self._seed, plain=self._plain
        )

    def _store_best(self, assignment: Indices) -> None:
        """Take *assignment* over as the best, if it is."""
        total = cost(self.problem, assignment)
        if total < self._best.cost:
            self._best = Solution(assignment.copy(), total)

    def _budget_use(self, assignment: Indices) -> Floats:
        """Return what *assignment* moves of each measure."""
        away = assignment != self.problem.origin
        moved: Floats = self.problem.budget_weights[:, away].sum(axis=1)
        return moved

    def _relaxed_problem(self) -> Problem:
        """Return the problem with prices instead of budgets."""
        prices = self._multipliers @ self.problem.budget_weights
        return replace(self._unbudgeted, move_cost=self._unbudgeted.move_cost + prices)
