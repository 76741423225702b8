"""Within budgets, who travels is exchanged for others until the best of them do."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendrs.policies.optimising import exchanging
from opendrs.policies.optimising.emptiest import emptiest
from opendrs.policies.optimising.engine.state import COST
from opendrs.policies.optimising.exchange import Exchange
from opendrs.policies.optimising.groups import Lists
from opendrs.policies.optimising.problem import Problem
from opendrs.policies.optimising.valuation import gains_of_leaving, steepness
from oracles.drawn_problems import drawn_problem
from oracles.reassignment import is_feasible, plain_cost

SEEDS = st.integers(0, 10_000)


def drawn(seed: int, moves: float, nodes: int = 6, units: int = 24) -> Problem:
    """Return a drawn problem in which so many units may move."""
    problem = drawn_problem(seed, nodes, units)
    count = len(problem.groups)
    groups = replace(
        problem.groups, spread=np.zeros(count, np.int64), needs=Lists.of([[]] * count)
    )
    return replace(
        problem,
        groups=groups,
        group_move_weight=0.0,
        measures=np.ones((1, units)),
        budgets=np.array([moves]),
    )


@given(SEEDS, st.integers(1, 6))
@settings(max_examples=40)
def test_what_it_finds_is_feasible_and_costs_what_it_says(
    seed: int, moves: int
) -> None:
    problem = drawn(seed, moves)

    search = Exchange(problem, problem.origin, seed)
    for portion in range(3):
        search.run(500, (portion + 1) / 3)
    best = search.best.assignment.tolist()

    assert is_feasible(problem, best)
    assert search.best.cost == pytest.approx(plain_cost(problem, best))
    assert search.best.cost <= plain_cost(problem, problem.origin.tolist()) + 1e-9


@pytest.mark.parametrize("seed", range(8))
def test_it_finds_the_best_of_all_assignments_where_they_can_be_counted(
    seed: int,
) -> None:
    problem = drawn(seed, 2, nodes=3, units=7)
    every = [list(each) for each in product(range(3), repeat=7)]
    least = min(
        plain_cost(problem, each) for each in every if is_feasible(problem, each)
    )

    search = Exchange(problem, problem.origin)
    for portion in range(5):
        search.run(4_000, (portion + 1) / 5)

    assert search.best.cost == pytest.approx(least)


@pytest.mark.parametrize("seed", range(6))
def test_where_it_is_cold_no_change_makes_anything_dearer(seed: int) -> None:
    problem = drawn(seed, 5)
    search = Exchange(problem, problem.origin, seed)
    search.run(1, 0.0)
    frozen = exchanging.Leg(iterations=1, hot=1e-300, cold=1e-300)

    made, costs = 0, [float(search.state.sums[COST])]
    for _ in range(2_000):
        made += exchanging.exchange(search.tables, search.state, search.who, frozen)
        costs.append(float(search.state.sums[COST]))

    assert made > 2
    assert max(np.diff(costs)) < 1e-9


def test_who_is_away_is_known_at_any_time() -> None:
    problem = drawn(3, 5)
    search = Exchange(problem, problem.origin)
    search.run(3_001, 0.5)

    who, here = search.who, search.state.node_of
    away = who.away[: who.number[0]]

    assert sorted(away.tolist()) == np.flatnonzero(here != problem.origin).tolist()
    assert (who.slot[away] == np.arange(len(away))).all()
    assert (np.delete(who.slot, away) == -1).all()


def test_groups_that_need_more_than_to_stand_apart_are_refused() -> None:
    with pytest.raises(ValueError, match="apart"):
        Exchange(drawn_problem(1), drawn_problem(1).origin)


def test_what_leaving_gains_is_what_the_nodes_cost_less() -> None:
    # By hand: loads 6 and 0 of 10, even 0.3 each. Without the 4 they are 2 and 4:
    # squares 0.09 + 0.09 become 0.01 + 0.01. Without the 2, 4 and 2: the same.
    problem = Problem(
        capacity=np.full((2, 1), 10.0),
        demand=np.array([[4.0], [2.0], [1.0]]),
        origin=np.array([0, 0, 1]),
        class_of=np.array([0, 1, 0]),
        allowed=np.array([[True, True], [True, False]]),
        base=np.array([[0.0], [-1.0]]),
        even_target=np.array([0.3]),
        even_weight=np.ones(1),
    )
    load = np.array([[6.0], [0.0]])

    gains = gains_of_leaving(problem, problem.origin, load, np.array([1]))

    assert gains[0] == pytest.approx(0.16)
    assert gains[1] == -np.inf  # its class may not go there
    assert gains[2] == -np.inf  # it is there


def test_a_node_that_has_nothing_counts_as_full_and_costs_nothing() -> None:
    problem = replace(
        drawn(1, 3, nodes=5), capacity=np.array([[0.0] * 3] + [[40.0] * 3] * 4)
    )
    load = np.ones((5, 3))
    load[1] = 9.0

    assert (steepness(problem)[0] == 0).all()
    assert (steepness(problem)[1] == problem.even_weight / 1600).all()
    assert emptiest(problem, load, 2).tolist() == [2, 3]
    assert len(emptiest(problem, load, 3)) == 5  # all, where there are not many more
