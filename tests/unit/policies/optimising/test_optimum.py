from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendrs.policies.optimising.engine import Search, moves
from opendrs.policies.optimising.engine.annealing import start
from opendrs.policies.optimising.engine.state import empty_state
from opendrs.policies.optimising.engine.tables import tables_of
from opendrs.policies.optimising.problem import Problem
from oracles.drawn_problems import drawn_problem
from oracles.reassignment import is_feasible, plain_cost
from parts import called

SEEDS = st.integers(0, 10_000)


def least_cost(problem: Problem) -> float:
    """Return what the best of all assignments costs, looking at each of them."""
    every = product(range(problem.nodes), repeat=problem.units)
    return min(
        plain_cost(problem, list(places))
        for places in every
        if is_feasible(problem, list(places))
    )


@pytest.mark.parametrize("seed", range(8))
def test_finds_the_best_of_all_assignments_where_they_can_be_counted(
    seed: int,
) -> None:
    drawn = drawn_problem(seed, nodes=3, units=6)
    tight = replace(drawn, capacity=drawn.capacity / 2, safety=drawn.safety / 2)

    best = Search(tight, seed=seed).run(60_000, 1.0)

    assert best.cost == pytest.approx(least_cost(tight))


@given(SEEDS, st.data())
@settings(max_examples=60)
def test_a_chain_costs_beforehand_what_it_costs_afterwards(
    seed: int, data: st.DataObject
) -> None:
    problem = replace(drawn_problem(seed), group_move_weight=0.0)
    tables = tables_of(problem)
    state = empty_state(tables, 1, 2 * problem.units)
    start(tables, state)
    before = state.node_of.tolist()
    unit, other = data.draw(
        st.tuples(*[st.integers(0, problem.units - 1)] * 2).filter(
            lambda pair: before[pair[0]] != before[pair[1]]
        )
    )
    third = data.draw(
        st.integers(0, problem.nodes - 1).filter(lambda node: node != before[other])
    )
    after = [*before]
    after[unit], after[other] = before[other], third

    delta, over = called(moves.chain_delta)(tables, state, unit, other, third, np.inf)
    meet = called(moves.may_join)(tables, state, unit, after[unit], other)
    meet = meet and called(moves.may_join)(tables, state, other, third, unit)
    may = meet and called(moves.may_be)(tables, state, unit, after[unit], other, third)

    assert delta == pytest.approx(
        plain_cost(problem, after) - plain_cost(problem, before)
    )
    if may and over <= 0:
        assert is_feasible(problem, after)
    else:
        assert not is_feasible(problem, after)


def test_units_of_one_size_change_places_with_one_another() -> None:
    problem = drawn_problem(1)
    order = tables_of(problem).order
    size = (problem.demand / problem.capacity.mean(axis=0)).sum(axis=1)

    assert np.all(np.diff(size[order]) >= 0)
