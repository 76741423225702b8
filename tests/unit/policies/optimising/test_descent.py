"""The search that needs no compiled code makes moves that gain, and only such."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendrs.policies.optimising.descent import Descent, _Board, is_small
from opendrs.policies.optimising.engine import cost, faults
from opendrs.policies.optimising.groups import Lists
from opendrs.policies.optimising.problem import Problem
from oracles.drawn_problems import drawn_problem

SEEDS = st.integers(0, 10_000)


def drawn(seed: int) -> Problem:
    """Return a drawn problem without what snapshots do not have."""
    problem = drawn_problem(seed)
    count = len(problem.groups)
    groups = replace(
        problem.groups,
        spread=np.zeros(count, np.int64),
        needs=Lists.of([[]] * count),
    )
    return replace(
        problem,
        groups=groups,
        transient=np.zeros(3, np.bool_),
        balances=(),
        use_cost=np.zeros(problem.nodes),
        pair_cost=None,
        group_move_weight=0.0,
        budgets=problem.budgets / 4,
    )


@given(SEEDS)
@settings(max_examples=50)
def test_the_best_shift_is_the_best_of_all(seed: int) -> None:
    problem = drawn(seed)
    here = problem.origin
    gains = []
    for unit in range(problem.units):
        for target in range(problem.nodes):
            then = here.copy()
            then[unit] = target
            if target != here[unit] and not faults(problem, then):
                gains.append(cost(problem, here) - cost(problem, then))

    gain, unit, target = _Board(problem, here.copy()).best_shift()

    if gains and max(gains) > 0:
        assert gain == pytest.approx(max(gains))
        then = here.copy()
        then[unit] = target
        assert cost(problem, here) - cost(problem, then) == pytest.approx(gain)


@given(SEEDS)
@settings(max_examples=50)
def test_the_best_swap_is_the_best_of_all_that_it_may_make(seed: int) -> None:
    problem = drawn(seed)
    here = Descent(problem, problem.origin).settle().assignment
    gains = []
    for unit, other in combinations(range(problem.units), 2):
        then = here.copy()
        then[[unit, other]] = here[[other, unit]]
        if here[unit] != here[other] and not faults(problem, then):
            gains.append(cost(problem, here) - cost(problem, then))

    gain, unit, other = _Board(problem, here.copy()).best_swap()

    if gain > -np.inf:
        then = here.copy()
        then[[unit, other]] = here[[other, unit]]
        assert faults(problem, then) == []
        assert cost(problem, here) - cost(problem, then) == pytest.approx(gain)
        assert gain <= max(gains) + 1e-9


@given(SEEDS)
@settings(max_examples=50)
def test_what_it_finds_is_feasible_and_costs_no_more(seed: int) -> None:
    problem = drawn(seed)

    found = Descent(problem, problem.origin).run(20_000, 1.0)

    assert faults(problem, found.assignment) == []
    assert found.cost == pytest.approx(cost(problem, found.assignment))
    assert found.cost <= cost(problem, problem.origin) + 1e-9


def test_what_it_does_not_know_is_not_small() -> None:
    problem = drawn(1)

    assert is_small(problem)
    assert not is_small(replace(problem, use_cost=np.ones(problem.nodes)))
    assert not is_small(replace(problem, transient=np.ones(3, np.bool_)))
    assert not is_small(drawn_problem(1))


def test_it_gets_away_from_where_no_single_move_gains() -> None:
    problem = drawn(11)
    settled = Descent(problem, problem.origin).settle()

    again = Descent(problem, problem.origin).run(200_000, 1.0)

    assert again.cost < settled.cost


def test_it_stops_when_it_has_looked_at_so_many() -> None:
    problem = drawn(3)

    short = Descent(problem, problem.origin)
    short.run(1, 1.0)

    moved = short.best.assignment != problem.origin
    assert moved.sum() <= 1
