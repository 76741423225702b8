"""Front door of the optimizer: choice of the search method, stopping criterion."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from opendrs.optimizer import (
    AnnealingSearch,
    IterationLimit,
    Problem,
    ScaledIterationLimit,
    SearchKind,
    solve,
)
from opendrs.optimizer.evaluation import COSTS, CostBreakdown, cost, evaluate
from opendrs.optimizer.feasibility import infeasibilities
from opendrs.optimizer.search.budgeted_annealing import BudgetedAnnealing
from opendrs.optimizer.search.lagrangian import LagrangianSearch
from opendrs.optimizer.search.local_search import LocalSearch
from opendrs.optimizer.solve import choose_method
from support.oracles.random_problems import random_problem


def imbalanced(
    nodes: int, groups: int, budget: float | None = None, *, counts: bool = True
) -> Problem:
    """Return groups of size 1 on the first half of the nodes, and a budget of moves.

    The budget is one of moves or, without *counts*, of an amount of 1 per move.
    """
    count = 0 if budget is None else 1
    return Problem(
        capacity=np.full((nodes, 1), 100.0),
        demand=np.ones((groups, 1)),
        origin=np.arange(groups) % (nodes // 2),
        class_of=np.zeros(groups, np.int64),
        allowed=np.ones((1, nodes), np.bool_),
        target_load=np.array([groups / nodes / 100]),
        imbalance_weight=np.ones(1),
        budget_weights=np.ones((count, groups)),
        budgets=np.full(count, budget or 0.0),
        counts_moves=np.full(count, counts),
    )


@pytest.mark.parametrize(
    ("problem", "expected", "size"),
    [
        (imbalanced(4, 40), LocalSearch, 40),
        # 0.3 times the moves times the groups.
        (imbalanced(4, 40, budget=5), LocalSearch, 60),
        (imbalanced(4, 40, budget=5, counts=False), LagrangianSearch, 40),
        (imbalanced(40, 400), AnnealingSearch, 400),
        (imbalanced(40, 400, budget=50), BudgetedAnnealing, 250),
        (imbalanced(40, 400, budget=50, counts=False), LagrangianSearch, 400),
        (imbalanced(40, 400, budget=390), AnnealingSearch, 400),
    ],
)
def test_method_and_its_size_depend_on_size_and_binding_budget(
    problem: Problem, expected: type, size: int
) -> None:
    method = choose_method(problem, 0, plain=False)

    assert type(method) is expected
    assert method.size == size


def test_size_of_plain_search_is_a_quarter_of_the_groups() -> None:
    assert choose_method(imbalanced(40, 400), 0, plain=True).size == 100


@pytest.mark.parametrize("search", [SearchKind.COMPILED, SearchKind.PLAIN])
def test_solve_balances_all_nodes(search: SearchKind) -> None:
    problem = imbalanced(40, 400)

    found = solve(problem, IterationLimit(400_000, 10), seed=0, search=search)

    assert infeasibilities(problem, found.assignment) == []
    # 400 groups on 40 nodes: 10 on each, without imbalance.
    assert np.bincount(found.assignment).tolist() == [10] * 40
    assert found.cost == found.terms.imbalance == pytest.approx(0, abs=1e-12)
    assert found.feasible


def test_solve_is_deterministic_and_keeps_the_budget() -> None:
    problem = imbalanced(40, 400, budget=50)

    one, other = (solve(problem, IterationLimit(50_000, 5), seed=3) for _ in range(2))

    assert one.assignment.tolist() == other.assignment.tolist()
    assert (one.assignment != problem.origin).sum() <= 50


def test_solve_continues_from_the_start() -> None:
    start = np.arange(40) % 4

    found = solve(imbalanced(4, 40), IterationLimit(0, 0), seed=0, start=start)

    assert found.assignment.tolist() == start.tolist()


def test_solve_from_an_infeasible_start_is_feasible() -> None:
    problem = imbalanced(4, 40, budget=5)

    found = solve(problem, IterationLimit(0, 0), seed=0, start=np.arange(40) % 4)

    assert found.feasible
    assert 0 < (found.assignment != problem.origin).sum() <= 5


def test_unlimited_budget_changes_nothing() -> None:
    one, other = (
        solve(imbalanced(40, 400, budget=budget), IterationLimit(10_000, 2), seed=1)
        for budget in (np.inf, None)
    )

    assert one.assignment.tolist() == other.assignment.tolist()


def test_evaluation_reports_an_infeasible_assignment() -> None:
    problem = imbalanced(4, 40, budget=5)

    balanced = evaluate(problem, np.arange(40) % 4)

    # 40 groups on 4 nodes: 10 on each; 20 of them have moved.
    assert not balanced.feasible
    assert balanced.cost == pytest.approx(0, abs=1e-12)


def test_iteration_limit_yields_equal_portions() -> None:
    assert [*IterationLimit(10, 4).portions(7)] == [
        (2, 0.25), (2, 0.5), (2, 0.75), (2, 1.0),
    ]  # fmt: skip


@pytest.mark.parametrize(("size", "expected"), [(1, 20), (3, 30), (9, 50)])
def test_scaled_limit_is_proportional_within_its_limits(
    size: int, expected: int
) -> None:
    stop = ScaledIterationLimit(per_group=10, least=20, most=50, count=1)

    assert [*stop.portions(size)] == [(expected, 1.0)]


def test_costs_are_the_fields_of_the_breakdown_in_order() -> None:
    problem = random_problem(1)

    assert [each.name for each in COSTS] == [x.name for x in fields(CostBreakdown)]
    assert cost(problem, problem.origin) > 0
