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

from contextlib import closing

from opendrs.optimizer.evaluation import Solution, evaluate
from opendrs.optimizer.feasibility import (
    allows_moves,
    binding_budgets,
    infeasibilities,
)
from opendrs.optimizer.problem import Indices, Problem, without_unlimited_budgets
from opendrs.optimizer.search.block_search import needs_blocks
from opendrs.optimizer.search.budgeted_annealing import BudgetedAnnealing
from opendrs.optimizer.search.initial_solution import initial_solution
from opendrs.optimizer.search.lagrangian import LagrangianSearch
from opendrs.optimizer.search.local_search import is_small
from opendrs.optimizer.search.method import SearchMethod, StoppingCriterion
from opendrs.optimizer.search.selection import SearchKind, select_search, start_search


def solve(
    problem: Problem,
    stop: StoppingCriterion,
    *,
    seed: int,
    search: SearchKind = SearchKind.AUTO,
    start: Indices | None = None,
) -> Solution:
    """Return the best solution found until *stop* ends the search.

    The same arguments give the same solution if *stop* yields the same portions.

    Args:
        problem: Problem to solve.
        stop: Stopping criterion. It is not asked if the budgets allow no move.
        seed: Seed of the random numbers.
        search: Search for large problems.
        start: Good assignment to continue from. None, or an infeasible one, starts from
            an initial solution.

    Returns:
        A feasible solution that costs at most as much as the start, or as the origin if
        there is none.
    """
    problem = without_unlimited_budgets(problem)
    plain = select_search(search, problem) is SearchKind.PLAIN
    method = choose_method(problem, seed, plain=plain, start=start)
    if allows_moves(problem):
        with closing(stop.portions(method.size)) as portions:
            for portion in portions:
                method.run(portion.iterations, portion.progress)
                if method.exhausted:
                    break
    return evaluate(problem, method.best.assignment)


def choose_method(
    problem: Problem, seed: int, *, plain: bool, start: Indices | None = None
) -> SearchMethod:
    """Return the search method that suits the size and the budget that binds.

    The arguments are those of `solve`; *plain* is True to solve large problems without
    compiled code.
    """
    if start is not None and not infeasibilities(problem, start):
        return start_search(problem, start, seed, plain=plain)
    start = initial_solution(problem, plain=plain)
    binds = binding_budgets(problem, start)
    moves_bind = bool((binds & problem.counts_moves).any())
    if moves_bind and not (plain or is_small(problem)):
        return BudgetedAnnealing(problem, start, seed)
    if binds.any() and not moves_bind and not (plain and needs_blocks(problem)):
        return LagrangianSearch(problem, start, seed, plain=plain)
    return start_search(problem, start, seed, plain=plain)
