"""Front door of the optimizer: choice of the search method, stopping criterion."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from opendrs.optimizer import (
    AnnealingSearch,
    BudgetedAnnealing,
    IterationLimit,
    LagrangianSearch,
    LocalSearch,
    Problem,
    SearchKind,
    choose_method,
    infeasibilities,
    solve,
)
from opendrs.optimizer.evaluation import TERMS, CostBreakdown, cost
from support.oracles.random_problems import random_problem


def imbalanced(nodes: int, groups: int, budget: float | None = None) -> Problem:
    """Return groups of size 1 on the first half of the nodes, and a budget of moves."""
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
    )


@pytest.mark.parametrize(
    ("problem", "count_budgets", "expected"),
    [
        (imbalanced(4, 40), (), LocalSearch),
        (imbalanced(4, 40, budget=5), (0,), LocalSearch),
        (imbalanced(4, 40, budget=5), (), LagrangianSearch),
        (imbalanced(40, 400), (), AnnealingSearch),
        (imbalanced(40, 400, budget=50), (0,), BudgetedAnnealing),
        (imbalanced(40, 400, budget=50), (), LagrangianSearch),
        (imbalanced(40, 400, budget=390), (0,), AnnealingSearch),
    ],
)
def test_choose_method_depends_on_size_and_binding_budget(
    problem: Problem, count_budgets: tuple[int, ...], expected: type
) -> None:
    method = choose_method(problem, 0, plain=False, count_budgets=count_budgets)

    assert type(method) is expected


@pytest.mark.parametrize("search", [SearchKind.COMPILED, SearchKind.PLAIN])
def test_solve_balances_all_nodes(search: SearchKind) -> None:
    problem = imbalanced(40, 400)

    found = solve(problem, IterationLimit(400_000, 10), seed=0, search=search)

    assert infeasibilities(problem, found.assignment) == []
    # 400 groups on 40 nodes: 10 on each, without imbalance.
    assert np.bincount(found.assignment).tolist() == [10] * 40
    assert found.cost == pytest.approx(0, abs=1e-12)


def test_solve_is_deterministic_and_keeps_the_budget() -> None:
    problem = imbalanced(40, 400, budget=50)

    one, other = (
        solve(problem, IterationLimit(50_000, 5), seed=3, count_budgets=(0,))
        for _ in range(2)
    )

    assert one.assignment.tolist() == other.assignment.tolist()
    assert (one.assignment != problem.origin).sum() <= 50


def test_iteration_limit_yields_equal_portions() -> None:
    assert [*IterationLimit(10, 4).portions()] == [
        (2, 0.25), (2, 0.5), (2, 0.75), (2, 1.0),
    ]  # fmt: skip


def test_terms_are_the_fields_of_the_breakdown_in_order() -> None:
    problem = random_problem(1)

    assert [each.name for each in TERMS] == [x.name for x in fields(CostBreakdown)]
    assert cost(problem, problem.origin) > 0
