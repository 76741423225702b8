"""The search that needs no compiled code makes moves that gain, and only such."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendrs.policies.optimising.descent import Descent, is_small
from opendrs.policies.optimising.engine import cost, faults
from opendrs.policies.optimising.grid import Grid
from opendrs.policies.optimising.groups import Groups, Indices, Lists
from opendrs.policies.optimising.pairs import best_swap, swapped
from opendrs.policies.optimising.problem import Problem
from opendrs.policies.optimising.replacing import replacements
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


def wandered(problem: Problem, steps: int = 6) -> Grid:
    """Return the grid after some drawn shifts, so that sums have been kept up."""
    draw = np.random.default_rng(steps)
    grid = Grid(problem, problem.origin.copy())
    for _ in range(steps):
        possible = np.argwhere(grid.may & grid.affordable())
        target, unit = draw.choice(possible).tolist()
        grid.move((unit, target))
    return grid


def changed(here: Indices, **targets: int) -> Indices:
    """Return *here* with units, named u0 and on, elsewhere."""
    then = here.copy()
    for name, target in targets.items():
        then[int(name[1:])] = target
    return then


@given(SEEDS)
@settings(max_examples=50)
def test_every_shift_costs_beforehand_what_it_costs_afterwards(seed: int) -> None:
    problem = drawn(seed)
    grid = wandered(problem)
    here, price = grid.node_of.copy(), cost(problem, grid.node_of)

    more, may = grid.shifts(), grid.may & grid.affordable()

    for unit in range(problem.units):
        for target in range(problem.nodes):
            if target == here[unit]:
                continue
            then = changed(here, **{f"u{unit}": target})
            feasible = not faults(problem, then)
            assert more[target, unit] == pytest.approx(
                cost(problem, then) - price, abs=1e-9
            )
            # Going home is always within budgets that were kept.
            assert feasible == may[target, unit]


@given(SEEDS)
@settings(max_examples=50)
def test_the_price_is_kept_up_with_several_moves_at_once(seed: int) -> None:
    problem = drawn(seed)
    grid = wandered(problem)
    twin = grid.copied()

    twin.move(*((unit, int(problem.origin[unit])) for unit in range(problem.units)))

    assert grid.price == pytest.approx(cost(problem, grid.node_of))
    assert twin.price == pytest.approx(cost(problem, problem.origin))
    assert (twin.node_of == problem.origin).all()


@given(SEEDS)
@settings(max_examples=50)
def test_each_replacement_that_is_found_may_be_made(seed: int) -> None:
    problem = drawn(seed)
    grid = wandered(problem)

    for found in replacements(grid, -1e9, 5):
        there = {
            f"u{found.home}": problem.origin[found.home],
            f"u{found.unit}": found.target,
        }
        assert faults(problem, changed(grid.node_of, **there)) == []


@given(SEEDS)
@settings(max_examples=50)
def test_the_best_swap_is_the_best_of_all_that_it_may_make(seed: int) -> None:
    problem = drawn(seed)
    grid = wandered(problem)
    here, price = grid.node_of.copy(), cost(problem, grid.node_of)
    gains = [0.0]
    for unit, other in combinations(range(problem.units), 2):
        then = changed(here, **{f"u{unit}": here[other], f"u{other}": here[unit]})
        may = np.isfinite(swapped(grid, *np.array([[unit], [other]]))[0])
        if may and here[unit] != here[other] and not faults(problem, then):
            gains.append(price - cost(problem, then))

    found = best_swap(grid, 1e-9)

    assert found.gain == pytest.approx(max(gains), abs=1e-6)
    if found.unit >= 0:
        there = {
            f"u{found.unit}": here[found.other],
            f"u{found.other}": here[found.unit],
        }
        then = changed(here, **there)
        assert faults(problem, then) == []
        assert price - cost(problem, then) == pytest.approx(found.gain)


def test_a_replacement_gains_what_it_seems_to_where_only_evenness_counts() -> None:
    problem = replace(
        drawn(5),
        groups=Groups.apart([]),
        overload_weight=np.zeros(3),
        excess_weight=np.zeros((6, 3)),
        measures=np.ones((1, 24)),
        budgets=np.array([4.0]),
        capacity=np.full((6, 3), 200.0),
        even_target=np.full(3, 0.1),
        even_weight=np.ones(3),
    )
    grid = wandered(problem, 4)
    here, price = grid.node_of.copy(), cost(problem, grid.node_of)
    gains = []
    for home in np.flatnonzero(grid.away):
        for unit in np.flatnonzero(~grid.away):
            for target in range(problem.nodes):
                there = {f"u{home}": problem.origin[home], f"u{unit}": target}
                then = changed(here, **there)
                if target != here[unit] and not faults(problem, then):
                    gains.append(price - cost(problem, then))

    found = replacements(grid, 1e-9, 1)[0]

    back = {f"u{found.home}": problem.origin[found.home]}
    then = changed(here, **back, **{f"u{found.unit}": found.target})
    assert faults(problem, then) == []
    # The second best place of a unit is passed over where the best is taken up.
    assert price - cost(problem, then) >= 0.9 * max(gains)


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
    problem = drawn(20)
    settled = Descent(problem, problem.origin).settle()

    again = Descent(problem, problem.origin).run(200_000, 1.0)

    assert again.cost < settled.cost


def test_it_stops_when_it_has_looked_at_so_many() -> None:
    problem = drawn(3)

    short = Descent(problem, problem.origin)
    short.run(1, 1.0)

    moved = short.best.assignment != problem.origin
    assert moved.sum() <= 1


@given(SEEDS)
@settings(max_examples=50)
def test_it_is_exhausted_only_where_nobody_may_be_moved(seed: int) -> None:
    problem = drawn(seed)
    nowhere = replace(problem, allowed=np.zeros_like(problem.allowed))
    searches = [Descent(each, each.origin) for each in (problem, nowhere)]

    for search in searches:
        search.run(20_000, 1.0)

    assert [each.exhausted for each in searches] == [False, True]


@given(SEEDS)
@settings(max_examples=20)
def test_the_same_seed_and_calls_give_the_same(seed: int) -> None:
    problem = drawn(seed)

    once, again = (Descent(problem, problem.origin, seed) for _ in range(2))

    # Long enough to go on from what is worse, and to begin at the best again.
    found = [each.run(200_000, 1.0).assignment.tolist() for each in (once, again)]
    assert found[0] == found[1]
