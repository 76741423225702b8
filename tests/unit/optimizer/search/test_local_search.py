"""Iterated local search: exact cost changes, feasible and improving moves."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendrs.optimizer import GroupSets, IndexLists, Indices, Problem
from opendrs.optimizer.evaluation import cost
from opendrs.optimizer.feasibility import infeasibilities
from opendrs.optimizer.operators.replace import best_replacements
from opendrs.optimizer.operators.shift import ShiftTable
from opendrs.optimizer.operators.swap import best_swap, swap_deltas
from opendrs.optimizer.search.local_search import LocalSearch, is_small
from support.oracles.random_problems import random_problem

SEEDS = st.integers(0, 10_000)


def drawn(seed: int) -> Problem:
    """Return a random problem with only the terms that snapshots have."""
    problem = random_problem(seed)
    count = len(problem.group_sets)
    group_sets = replace(
        problem.group_sets,
        spread=np.zeros(count, np.int64),
        needs=IndexLists.of([[]] * count),
    )
    return replace(
        problem,
        group_sets=group_sets,
        transient=np.zeros(3, np.bool_),
        ratio_terms=(),
        use_cost=np.zeros(problem.node_count),
        pair_cost=None,
        set_move_weight=0.0,
        budgets=problem.budgets / 4,
    )


def table_after_random_shifts(problem: Problem, steps: int = 6) -> ShiftTable:
    """Return the table after some random shifts, so that sums have been updated."""
    draw = np.random.default_rng(steps)
    table = ShiftTable(problem, problem.origin.copy())
    for _ in range(steps):
        possible = np.argwhere(table.can_shift & table.within_budgets())
        target, group = draw.choice(possible).tolist()
        table.move((group, target))
    return table


def changed(here: Indices, **targets: int) -> Indices:
    """Return *here* with other nodes for some groups, named u0 and on."""
    then = here.copy()
    for name, target in targets.items():
        then[int(name[1:])] = target
    return then


@given(SEEDS)
@settings(max_examples=50)
def test_shift_deltas_equal_cost_differences(seed: int) -> None:
    problem = drawn(seed)
    table = table_after_random_shifts(problem)
    here, price = table.node_of.copy(), cost(problem, table.node_of)

    more, may = table.shift_deltas(), table.can_shift & table.within_budgets()

    for group in range(problem.group_count):
        for target in range(problem.node_count):
            if target == here[group]:
                continue
            then = changed(here, **{f"u{group}": target})
            feasible = not infeasibilities(problem, then)
            assert more[target, group] == pytest.approx(
                cost(problem, then) - price, abs=1e-9
            )
            # A return is always within budgets that were kept.
            assert feasible == may[target, group]


@given(SEEDS)
@settings(max_examples=50)
def test_shift_table_total_cost_is_exact_after_several_shifts(seed: int) -> None:
    problem = drawn(seed)
    table = table_after_random_shifts(problem)
    twin = table.copy()

    twin.move(
        *((group, int(problem.origin[group])) for group in range(problem.group_count))
    )

    assert table.total_cost == pytest.approx(cost(problem, table.node_of))
    assert twin.total_cost == pytest.approx(cost(problem, problem.origin))
    assert (twin.node_of == problem.origin).all()


@given(SEEDS)
@settings(max_examples=50)
def test_best_replacements_are_feasible(seed: int) -> None:
    problem = drawn(seed)
    table = table_after_random_shifts(problem)

    for found in best_replacements(table, -1e9, 5):
        there = {
            f"u{found.returning}": problem.origin[found.returning],
            f"u{found.group}": found.target,
        }
        assert infeasibilities(problem, changed(table.node_of, **there)) == []


@given(SEEDS)
@settings(max_examples=50)
def test_best_swap_equals_enumeration(seed: int) -> None:
    problem = drawn(seed)
    table = table_after_random_shifts(problem)
    here, price = table.node_of.copy(), cost(problem, table.node_of)
    gains = [0.0]
    for group, other in combinations(range(problem.group_count), 2):
        then = changed(here, **{f"u{group}": here[other], f"u{other}": here[group]})
        may = np.isfinite(swap_deltas(table, *np.array([[group], [other]]))[0])
        if may and here[group] != here[other] and not infeasibilities(problem, then):
            gains.append(price - cost(problem, then))

    found = best_swap(table, 1e-9)

    assert found.gain == pytest.approx(max(gains), abs=1e-6)
    if found.group >= 0:
        there = {
            f"u{found.group}": here[found.other],
            f"u{found.other}": here[found.group],
        }
        then = changed(here, **there)
        assert infeasibilities(problem, then) == []
        assert price - cost(problem, then) == pytest.approx(found.gain)


def test_best_replacement_gain_is_exact_for_imbalance_alone() -> None:
    problem = replace(
        drawn(5),
        group_sets=GroupSets.anti_affine([]),
        overload_weight=np.zeros(3),
        excess_weight=np.zeros((6, 3)),
        budget_weights=np.ones((1, 24)),
        budgets=np.array([4.0]),
        capacity=np.full((6, 3), 200.0),
        target_load=np.full(3, 0.1),
        imbalance_weight=np.ones(3),
    )
    table = table_after_random_shifts(problem, 4)
    here, price = table.node_of.copy(), cost(problem, table.node_of)
    gains = []
    for home in np.flatnonzero(table.is_displaced):
        for group in np.flatnonzero(~table.is_displaced):
            for target in range(problem.node_count):
                there = {f"u{home}": problem.origin[home], f"u{group}": target}
                then = changed(here, **there)
                if target != here[group] and not infeasibilities(problem, then):
                    gains.append(price - cost(problem, then))

    found = best_replacements(table, 1e-9, 1)[0]

    back = {f"u{found.returning}": problem.origin[found.returning]}
    then = changed(here, **back, **{f"u{found.group}": found.target})
    assert infeasibilities(problem, then) == []
    # Only the best target of a group is considered, even if a return blocks it.
    assert price - cost(problem, then) >= 0.9 * max(gains)


@given(SEEDS)
@settings(max_examples=50)
def test_local_search_is_feasible_and_never_worse(seed: int) -> None:
    problem = drawn(seed)

    found = LocalSearch(problem, problem.origin).run(20_000, 1.0)

    assert infeasibilities(problem, found.assignment) == []
    assert found.cost == pytest.approx(cost(problem, found.assignment))
    assert found.cost <= cost(problem, problem.origin) + 1e-9


def test_is_small_rejects_unsupported_terms() -> None:
    problem = drawn(1)

    assert is_small(problem)
    assert not is_small(replace(problem, use_cost=np.ones(problem.node_count)))
    assert not is_small(replace(problem, transient=np.ones(3, np.bool_)))
    assert not is_small(random_problem(1))


def test_local_search_escapes_local_optimum() -> None:
    problem = drawn(11)
    settled = LocalSearch(problem, problem.origin).descend()

    again = LocalSearch(problem, problem.origin).run(200_000, 1.0)

    assert again.cost < settled.cost


def test_local_search_stops_after_iterations() -> None:
    problem = drawn(3)

    short = LocalSearch(problem, problem.origin)
    short.run(1, 1.0)

    moved = short.best.assignment != problem.origin
    assert moved.sum() <= 1


@given(SEEDS)
@settings(max_examples=50)
def test_local_search_is_exhausted_only_without_feasible_moves(seed: int) -> None:
    problem = drawn(seed)
    nowhere = replace(problem, allowed=np.zeros_like(problem.allowed))
    searches = [LocalSearch(each, each.origin) for each in (problem, nowhere)]

    for search in searches:
        search.run(20_000, 1.0)

    assert [each.exhausted for each in searches] == [False, True]


@given(SEEDS)
@settings(max_examples=20)
def test_local_search_is_deterministic(seed: int) -> None:
    problem = drawn(seed)

    once, again = (LocalSearch(problem, problem.origin, seed) for _ in range(2))

    # Long enough to continue from worse solutions and to restart at the best.
    found = [each.run(200_000, 1.0).assignment.tolist() for each in (once, again)]
    assert found[0] == found[1]
