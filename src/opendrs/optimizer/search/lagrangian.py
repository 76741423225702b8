"""Lagrangian relaxation of budgets.

A search within a binding budget gets stuck, because each further move requires that
another one is undone. Here a price per unit of budget, a Lagrange multiplier, replaces
the budget. The price is adjusted until the moves that are worth it use up the budget.
Exchange moves within the budget follow, and finally a search of all moves within the
budget.

Source:
    Geoffrion, Lagrangean relaxation for integer programming (1974).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from opendrs.optimizer.evaluation import Incumbent, cost, cost_breakdown
from opendrs.optimizer.feasibility import BINDING_USE, budget_use
from opendrs.optimizer.problem import Indices, Problem, select_budgets
from opendrs.optimizer.search.budgeted_annealing import BudgetedAnnealing
from opendrs.optimizer.search.initial_solution import initial_solution
from opendrs.optimizer.search.local_search import is_small
from opendrs.optimizer.search.method import SearchMethod
from opendrs.optimizer.search.selection import start_search

PRICING_END = 0.5  # progress up to which multipliers are adjusted
EXCHANGE_END = 0.8  # progress up to which exchange moves are searched
EXCHANGE_TEMPERATURE = 0.05  # of that phase, relative to the imbalance cost per node
PRICE_EXPONENT = 0.5  # exponent of the price in the greedy initial solution
BUDGET_TARGET = 0.995  # use of a budget to aim at; the last phase finds the rest

PRICE_STEP_EXPONENT = 2.0  # exponent of the relative use in the multiplier update


class LagrangianSearch:
    """Search within budgets by Lagrangian relaxation.

    The same problem, start, seed and calls give the same solution. `best` is always
    feasible.

    Args:
        problem: Problem to solve.
        start: Feasible initial assignment.
        seed: Seed of the random numbers.
        plain: True to solve large problems without compiled code.
    """

    def __init__(
        self, problem: Problem, start: Indices, seed: int = 0, *, plain: bool = False
    ) -> None:
        self.problem = problem
        self._seed = seed
        self._plain = plain
        self._unbudgeted = select_budgets(problem, np.zeros(0, np.int64))
        self._best = Incumbent(start.copy(), cost(problem, start))
        unbudgeted_solution = initial_solution(
            self._unbudgeted, PRICE_EXPONENT, plain=plain
        )
        before, after = (
            cost_breakdown(problem, each).imbalance
            for each in (problem.origin, unbudgeted_solution)
        )
        moved = budget_use(problem, unbudgeted_solution)
        moved = np.maximum(moved, np.finfo(float).tiny)
        # The marginal gain is taken to fall linearly with the budget that is used.
        left = np.maximum(1 - BUDGET_TARGET * problem.budgets / moved, 0.1)
        bounded = moved > BINDING_USE * problem.budgets
        self._multipliers = bounded * max(before - after, 1e-9) / moved * left
        self._phase_begin, self._phase_end = 0.0, PRICING_END
        priced = self._relaxed_problem()
        start = initial_solution(priced, PRICE_EXPONENT, plain=plain)
        self._search: SearchMethod = start_search(priced, start, seed, plain=plain)

    @property
    def best(self) -> Incumbent:
        """Best solution so far."""
        return self._best

    @property
    def size(self) -> int:
        """Search size of the relaxed problem, which has no budgets."""
        return self._search.size

    @property
    def exhausted(self) -> bool:
        """False: the phases of the search depend on progress alone."""
        return False

    def run(self, iterations: int, progress: float) -> Incumbent:
        """Evaluate *iterations* moves and return the best solution so far.

        Args:
            iterations: Number of moves to evaluate.
            progress: Fraction of the whole search, in [0, 1], that is done after this
                call.
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

    def _budgeted_search(self, end: float) -> SearchMethod:
        """Return the search within budgets for the phase that ends at *end*."""
        start = self._best.assignment
        if end < 1.0 and not (self._plain or is_small(self.problem)):
            return BudgetedAnnealing(
                self.problem, start, self._seed, heat=EXCHANGE_TEMPERATURE
            )
        return start_search(self.problem, start, self._seed, plain=self._plain)

    def _update_multipliers(self) -> None:
        """Store the solution if it is better, and adjust the multipliers."""
        assignment = self._search.best.assignment
        moved = budget_use(self.problem, assignment)
        if (moved <= self.problem.budgets).all():
            self._store_best(assignment)
        budgets = np.maximum(self.problem.budgets, 1e-9)
        over = np.maximum(moved, 1e-3 * budgets) / (BUDGET_TARGET * budgets)
        self._multipliers *= np.clip(over, 0.3, 3.0) ** PRICE_STEP_EXPONENT
        self._search = start_search(
            self._relaxed_problem(), assignment, self._seed, plain=self._plain
        )

    def _store_best(self, assignment: Indices) -> None:
        """Store *assignment* if it is the best."""
        total = cost(self.problem, assignment)
        if total < self._best.cost:
            self._best = Incumbent(assignment.copy(), total)

    def _relaxed_problem(self) -> Problem:
        """Return the problem with prices instead of budgets."""
        prices = self._multipliers @ self.problem.budget_weights
        return replace(self._unbudgeted, move_cost=self._unbudgeted.move_cost + prices)
