"""Front door of the library: choose a search method for a problem, and run it.

The method depends on the size of the problem, on the budget that binds, and on compiled
code. A budget binds if the initial solution uses more than `BINDING_USE` of it.

Source:
    Lourenço, Martin and Stützle, Iterated local search (2003): small problems.
    Kirkpatrick, Gelatt and Vecchi, Optimization by simulated annealing (1983).
    Geoffrion, Lagrangean relaxation for integer programming (1974): budgets of amounts.
    Narayanan et al., POP (SOSP 2021): large problems without compiled code.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opendrs.optimizer.evaluation import Solution, infeasibilities
from opendrs.optimizer.problem import Indices, Problem
from opendrs.optimizer.search.block_search import needs_blocks
from opendrs.optimizer.search.budgeted_annealing import BudgetedAnnealing
from opendrs.optimizer.search.initial_solution import initial_solution
from opendrs.optimizer.search.lagrangian import BINDING_USE, LagrangianSearch
from opendrs.optimizer.search.local_search import is_small
from opendrs.optimizer.search.method import SearchMethod, StoppingCriterion
from opendrs.optimizer.search.selection import SearchKind, select_search, start_search


def solve(
    problem: Problem,
    stop: StoppingCriterion,
    *,
    seed: int,
    search: SearchKind = SearchKind.AUTO,
    count_budgets: Sequence[int] = (),
) -> Solution:
    """Return the best solution found until *stop* ends the search.

    Args:
        problem: Problem to solve.
        stop: Stopping criterion.
        seed: Seed of the random numbers.
        search: Search for large problems.
        count_budgets: Budgets that count moves, as indices; others count amounts.

    Returns:
        A feasible solution that costs at most as much as the origin.
    """
    plain = not is_small(problem) and select_search(search) is SearchKind.PLAIN
    method = choose_method(problem, seed, plain=plain, count_budgets=count_budgets)
    for portion in stop.portions():
        if method.exhausted:
            break
        method.run(portion.iterations, portion.progress)
    return method.best


def choose_method(
    problem: Problem,
    seed: int,
    *,
    plain: bool,
    start: Indices | None = None,
    count_budgets: Sequence[int] = (),
) -> SearchMethod:
    """Return the search method that suits the size and the budget that binds.

    Args:
        problem: Problem to solve.
        seed: Seed of the random numbers.
        plain: True to solve large problems without compiled code.
        start: Good assignment to continue from. None, or an infeasible one, starts from
            an initial solution.
        count_budgets: Budgets that count moves, as indices; others count amounts.
    """
    if start is None or infeasibilities(problem, start):
        start = initial_solution(problem, plain=plain)
        displaced = start != problem.origin
        used = problem.budget_weights[:, displaced].sum(axis=1)
        binding = np.flatnonzero(used > BINDING_USE * problem.budgets)
        moves_bind = bool(np.isin(binding, count_budgets).any())
        if moves_bind and not (plain or is_small(problem)):
            return BudgetedAnnealing(problem, start, seed)
        if len(binding) and not moves_bind and not (plain and needs_blocks(problem)):
            return LagrangianSearch(problem, start, seed, plain=plain)
    return start_search(problem, start, seed, plain=plain)
