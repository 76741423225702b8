"""Initial solution: feasible, no worse than the origin, greedy by gain."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from opendrs.optimizer import Problem
from opendrs.optimizer.search.initial_solution import greedy_solution
from support.oracles.assignment_cost import is_feasible, reference_cost
from support.oracles.random_problems import random_problem


@given(st.integers(0, 10_000))
@settings(max_examples=40)
def test_greedy_solution_is_feasible_and_costs_no_more_than_the_origin(
    seed: int,
) -> None:
    problem = random_problem(seed)

    found = greedy_solution(problem).tolist()

    assert is_feasible(problem, found)
    assert reference_cost(problem, found) <= reference_cost(
        problem, problem.origin.tolist()
    )


def piled(demand: list[float], **changes: object) -> Problem:
    """Return groups that are all on the first of two nodes."""
    amounts = np.array(demand)[:, None]
    given: dict[str, object] = {
        "capacity": np.full((2, 1), 100.0),
        "demand": amounts,
        "origin": np.zeros(len(demand), np.int64),
        "class_of": np.zeros(len(demand), np.int64),
        "allowed": np.ones((1, 2), np.bool_),
        "target_load": np.array([amounts.sum() / 200]),
        "imbalance_weight": np.ones(1),
    }
    return Problem(**(given | changes))  # type: ignore[arg-type]


def test_greedy_solution_moves_the_largest_fitting_group_first() -> None:
    # By hand: 8 of 16 are to leave; the 7 gains most, then the 1.
    assert greedy_solution(piled([7.0, 4.0, 4.0, 1.0])).tolist() == [1, 0, 0, 1]


def test_greedy_solution_with_one_migration_makes_the_best() -> None:
    problem = piled(
        [7.0, 4.0, 4.0, 1.0], budget_weights=np.ones((1, 4)), budgets=np.ones(1)
    )

    assert greedy_solution(problem).tolist() == [1, 0, 0, 0]


def test_greedy_solution_small_budget_maximizes_gain() -> None:
    # By hand: the 7 does not fit in the budget of 6; 4 and 1 gain more than 1 alone.
    problem = piled(
        [7.0, 4.0, 4.0, 1.0],
        budget_weights=np.array([[7.0, 4.0, 4.0, 1.0]]),
        budgets=np.array([6.0]),
    )

    found = greedy_solution(problem)

    assert found.tolist() in ([0, 1, 0, 1], [0, 0, 1, 1])
