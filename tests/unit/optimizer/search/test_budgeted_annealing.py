"""Annealing within budgets: exchange moves reach the optimum."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendrs.optimizer import IndexLists, Problem
from opendrs.optimizer.compiled import exchange
from opendrs.optimizer.node_cost import (
    departure_gains,
    imbalance_curvature,
    least_loaded_nodes,
)
from opendrs.optimizer.problem_arrays import COST
from opendrs.optimizer.search.budgeted_annealing import BudgetedAnnealing
from support.oracles.assignment_cost import is_feasible, reference_cost
from support.oracles.random_problems import random_problem

SEEDS = st.integers(0, 10_000)


def drawn(seed: int, moves: float, nodes: int = 6, groups: int = 24) -> Problem:
    """Return a random problem with a budget of moves."""
    problem = random_problem(seed, nodes, groups)
    count = len(problem.group_sets)
    group_sets = replace(
        problem.group_sets,
        spread=np.zeros(count, np.int64),
        needs=IndexLists.of([[]] * count),
    )
    return replace(
        problem,
        group_sets=group_sets,
        set_move_weight=0.0,
        budget_weights=np.ones((1, groups)),
        budgets=np.array([moves]),
    )


@given(SEEDS, st.integers(1, 6))
@settings(max_examples=40)
def test_budgeted_annealing_is_feasible_with_exact_cost(seed: int, moves: int) -> None:
    problem = drawn(seed, moves)

    search = BudgetedAnnealing(problem, problem.origin, seed)
    for portion in range(3):
        search.run(500, (portion + 1) / 3)
    best = search.best.assignment.tolist()

    assert is_feasible(problem, best)
    assert search.best.cost == pytest.approx(reference_cost(problem, best))
    assert search.best.cost <= reference_cost(problem, problem.origin.tolist()) + 1e-9


@pytest.mark.parametrize("seed", range(8))
def test_budgeted_annealing_finds_the_optimum(
    seed: int,
) -> None:
    problem = drawn(seed, 2, nodes=3, groups=7)
    every = [list(each) for each in product(range(3), repeat=7)]
    least = min(
        reference_cost(problem, each) for each in every if is_feasible(problem, each)
    )

    search = BudgetedAnnealing(problem, problem.origin)
    for portion in range(5):
        search.run(4_000, (portion + 1) / 5)

    assert search.best.cost == pytest.approx(least)


@pytest.mark.parametrize("seed", range(6))
def test_exchange_at_zero_temperature_never_increases_cost(seed: int) -> None:
    problem = drawn(seed, 5)
    search = BudgetedAnnealing(problem, problem.origin, seed)
    search.run(1, 0.0)
    frozen = exchange.BudgetStage(
        iterations=1, start_temperature=1e-300, end_temperature=1e-300
    )

    made, costs = 0, [float(search.state.totals[COST])]
    for _ in range(2_000):
        made += exchange.anneal_exchanges(
            search.arrays, search.state, search.displaced, frozen
        )
        costs.append(float(search.state.totals[COST]))

    assert made > 2
    assert max(np.diff(costs)) < 1e-9


def test_budgeted_annealing_tracks_displaced_groups() -> None:
    problem = drawn(3, 5)
    search = BudgetedAnnealing(problem, problem.origin)
    search.run(3_001, 0.5)

    displaced, here = search.displaced, search.state.node_of
    away = displaced.displaced[: displaced.displaced_count[0]]

    assert sorted(away.tolist()) == np.flatnonzero(here != problem.origin).tolist()
    assert (displaced.slot[away] == np.arange(len(away))).all()
    assert (np.delete(displaced.slot, away) == -1).all()


def test_budgeted_annealing_with_spread_sets_raises() -> None:
    with pytest.raises(ValueError, match="only anti-affinity"):
        BudgetedAnnealing(random_problem(1), random_problem(1).origin)


def test_departure_gains_match_node_cost_difference() -> None:
    # By hand: loads 6 and 0 of 10, target 0.3 each. If the 4 leaves, 2 and 4:
    # squares 0.09 + 0.09 become 0.01 + 0.01. If the 2 leaves, 4 and 2: the same.
    problem = Problem(
        capacity=np.full((2, 1), 10.0),
        demand=np.array([[4.0], [2.0], [1.0]]),
        origin=np.array([0, 0, 1]),
        class_of=np.array([0, 1, 0]),
        allowed=np.array([[True, True], [True, False]]),
        base_load=np.array([[0.0], [-1.0]]),
        target_load=np.array([0.3]),
        imbalance_weight=np.ones(1),
    )
    load = np.array([[6.0], [0.0]])

    gains = departure_gains(problem, problem.origin, load, np.array([1]))

    assert gains[0] == pytest.approx(0.16)
    assert gains[1] == -np.inf  # its class does not allow the target
    assert gains[2] == -np.inf  # it is on the target


def test_node_without_capacity_is_full_and_free_of_cost() -> None:
    problem = replace(
        drawn(1, 3, nodes=5), capacity=np.array([[0.0] * 3] + [[40.0] * 3] * 4)
    )
    load = np.ones((5, 3))
    load[1] = 9.0

    assert (imbalance_curvature(problem)[0] == 0).all()
    assert (imbalance_curvature(problem)[1] == problem.imbalance_weight / 1600).all()
    assert least_loaded_nodes(problem, load, 2).tolist() == [2, 3]
    assert len(least_loaded_nodes(problem, load, 3)) == 5  # all of a few nodes
