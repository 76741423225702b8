from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendrs.optimizer import AnnealingSearch, Problem
from opendrs.optimizer.compiled import moves, proposals
from opendrs.optimizer.compiled.annealing import initialize
from opendrs.optimizer.problem_arrays import empty_state, problem_arrays
from support.compiled_functions import callable_from_python
from support.oracles.assignment_cost import is_feasible, reference_cost
from support.oracles.random_problems import random_problem

SEEDS = st.integers(0, 10_000)


def least_cost(problem: Problem) -> float:
    """Return the cost of the best assignment, by enumeration."""
    every = product(range(problem.node_count), repeat=problem.group_count)
    return min(
        reference_cost(problem, list(places))
        for places in every
        if is_feasible(problem, list(places))
    )


@pytest.mark.parametrize("seed", range(8))
def test_annealing_finds_the_optimum_of_small_problems(
    seed: int,
) -> None:
    drawn = random_problem(seed, nodes=3, groups=6)
    tight = replace(
        drawn, capacity=drawn.capacity / 2, safety_capacity=drawn.safety_capacity / 2
    )

    best = AnnealingSearch(tight, seed=seed).run(60_000, 1.0)

    assert best.cost == pytest.approx(least_cost(tight))


@given(SEEDS, st.data())
@settings(max_examples=60)
def test_chain_delta_equals_cost_difference(seed: int, data: st.DataObject) -> None:
    problem = replace(random_problem(seed), set_move_weight=0.0)
    tables = problem_arrays(problem)
    state = empty_state(tables, 1, 2 * problem.group_count)
    initialize(tables, state)
    before = state.node_of.tolist()
    group, other = data.draw(
        st.tuples(*[st.integers(0, problem.group_count - 1)] * 2).filter(
            lambda pair: before[pair[0]] != before[pair[1]]
        )
    )
    third = data.draw(
        st.integers(0, problem.node_count - 1).filter(
            lambda node: node != before[other]
        )
    )
    after = [*before]
    after[group], after[other] = before[other], third

    delta, over = callable_from_python(moves.chain_delta)(
        tables, state, group, other, third, np.inf
    )
    meet = callable_from_python(moves.can_place)(
        tables, state, group, after[group], other
    )
    meet = meet and callable_from_python(moves.can_place)(
        tables, state, other, third, group
    )
    may = meet and callable_from_python(moves.can_move)(
        tables, state, group, after[group], other, third
    )

    assert delta == pytest.approx(
        reference_cost(problem, after) - reference_cost(problem, before)
    )
    if may and over <= 0:
        assert is_feasible(problem, after)
    else:
        assert not is_feasible(problem, after)


def test_similar_groups_of_one_size_are_swapped() -> None:
    problem = random_problem(1)
    order = problem_arrays(problem).size_order
    size = (problem.demand / problem.capacity.mean(axis=0)).sum(axis=1)

    assert np.all(np.diff(size[order]) >= 0)


def test_random_similar_group_prefers_swap_partners() -> None:
    problem = random_problem(3, nodes=10, groups=60)
    partners = np.full((60, 1), 59)
    tables = problem_arrays(problem, partners)
    state = empty_state(tables, 1, 20)
    draw = callable_from_python(proposals.random_similar_group)

    drawn = [draw(tables, state, 0) for _ in range(2000)]

    # Group 59 is rarely drawn otherwise. Of 2,000 draws, three standard deviations
    # are 61.
    expected = 2000 * proposals.PARTNER_RATIO
    assert expected - 61 < drawn.count(59) < expected + 200


@given(SEEDS)
@settings(max_examples=20)
def test_annealing_with_swap_partners_is_feasible(seed: int) -> None:
    problem = random_problem(seed)
    groups = problem.group_count
    partners = np.array([np.delete(np.arange(groups), k) for k in range(groups)])

    search = AnnealingSearch(problem, seed=seed, swap_partners=partners)
    best = search.run(5000, 1.0)

    found = best.assignment.tolist()
    assert is_feasible(problem, found)
    assert best.cost == pytest.approx(reference_cost(problem, found))
