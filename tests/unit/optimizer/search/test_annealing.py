from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendrs.optimizer import AnnealingSearch, GroupSets, Problem, infeasibilities
from opendrs.optimizer.compiled import moves
from opendrs.optimizer.compiled.annealing import initialize
from opendrs.optimizer.evaluation import cost
from opendrs.optimizer.problem_arrays import (
    COST,
    NONE,
    OVERFULL,
    empty_state,
    problem_arrays,
)
from support.compiled_functions import callable_from_python
from support.oracles.assignment_cost import is_feasible, reference_cost
from support.oracles.random_problems import random_problem

SEEDS = st.integers(0, 10_000)


def level_problem(groups: int = 12, nodes: int = 3, **changes: object) -> Problem:
    """Return units of one size, all on the first node, that should be even."""
    given: dict[str, object] = {
        "capacity": np.full((nodes, 1), 100.0),
        "demand": np.full((groups, 1), 5.0),
        "origin": np.zeros(groups, dtype=np.int64),
        "class_of": np.zeros(groups, dtype=np.int64),
        "allowed": np.ones((1, nodes), dtype=np.bool_),
        "target_load": np.full(1, 0.05 * groups / nodes),
        "imbalance_weight": np.ones(1),
    }
    return Problem(**(given | changes))  # type: ignore[arg-type]


@given(SEEDS, st.data())
def test_an_assignment_costs_and_breaks_what_the_definition_says(
    seed: int, data: st.DataObject
) -> None:
    problem = random_problem(seed)
    places = problem.origin.tolist()
    for group in data.draw(
        st.lists(st.integers(0, problem.group_count - 1), max_size=6)
    ):
        places[group] = data.draw(st.integers(0, problem.node_count - 1))

    assert cost(problem, np.array(places)) == pytest.approx(
        reference_cost(problem, places)
    )
    assert (not infeasibilities(problem, np.array(places))) == is_feasible(
        problem, places
    )


@given(SEEDS)
@settings(max_examples=40)
def test_the_sums_kept_over_thousands_of_moves_are_those_of_the_definition(
    seed: int,
) -> None:
    problem = random_problem(seed)
    search = AnnealingSearch(problem, seed=seed)

    for progress in (0.2, 0.5, 1.0):
        best = search.run(2000, progress)
        state = search._state  # noqa: SLF001 - the sums are what this is about
        places = state.node_of.tolist()
        assert state.totals[COST] == pytest.approx(reference_cost(problem, places))
        assert (state.counters[OVERFULL] == 0) == is_feasible(problem, places)
        assert best.cost == pytest.approx(
            reference_cost(problem, best.assignment.tolist())
        )
        assert is_feasible(problem, best.assignment.tolist())
        assert best.cost <= cost(problem, problem.origin)


@given(SEEDS, st.data())
def test_a_move_costs_beforehand_what_it_costs_afterwards(
    seed: int, data: st.DataObject
) -> None:
    problem = random_problem(seed)
    tables = problem_arrays(problem)
    state = empty_state(tables, 1, 2 * problem.group_count)
    initialize(tables, state)
    for _ in range(5):
        group = data.draw(st.integers(0, problem.group_count - 1))
        target = data.draw(st.integers(0, problem.node_count - 1))
        before = state.node_of.tolist()
        if before[group] == target:
            continue
        delta, over = callable_from_python(moves.shift_delta)(
            tables, state, group, target, np.inf
        )
        may = callable_from_python(moves.can_place)(
            tables, state, group, target, NONE
        ) and callable_from_python(moves.can_move)(
            tables, state, group, target, NONE, NONE
        )
        after = [*before[:group], target, *before[group + 1 :]]

        assert delta == pytest.approx(
            reference_cost(problem, after) - reference_cost(problem, before)
        )
        if may and over <= 0:
            assert is_feasible(problem, after)
            callable_from_python(moves.apply_move)(tables, state, group, target)
        elif is_feasible(problem, before):
            assert not is_feasible(problem, after)


def test_the_same_seed_finds_the_same() -> None:
    problem = random_problem(3, nodes=10, groups=60)
    one, other = (AnnealingSearch(problem, seed=5) for _ in range(2))

    for progress in (0.5, 1.0):
        found, again = one.run(3000, progress), other.run(3000, progress)

        assert found.cost == again.cost
        assert found.assignment.tolist() == again.assignment.tolist()


def test_a_short_search_comes_back_with_something_where_nodes_are_nearly_full() -> None:
    # Two units of 48 to a node of 100: the nodes differ in cost, and are all in use.
    problem = level_problem(
        groups=18,
        nodes=10,
        demand=np.full((18, 1), 48.0),
        origin=np.arange(18) // 2 + 1,
        imbalance_weight=np.zeros(1),
        placement_cost=np.arange(10.0)[None, :],
        transient=np.ones(1, dtype=np.bool_),
    )

    best = AnnealingSearch(problem).run(2000, 1.0)

    assert best.cost < cost(problem, problem.origin)


def test_finds_the_even_placement() -> None:
    problem = level_problem()

    best = AnnealingSearch(problem).run(20_000, 1.0)

    assert sorted(np.bincount(best.assignment)) == [4, 4, 4]
    assert best.cost == pytest.approx(0)


def test_moves_no_more_than_the_budget() -> None:
    problem = level_problem(budget_weights=np.ones((1, 12)), budgets=np.array([3.0]))

    best = AnnealingSearch(problem).run(20_000, 1.0)

    assert (best.assignment != problem.origin).sum() == 3


def test_repairs_what_is_broken_at_the_origin_if_that_is_worth_it() -> None:
    together = GroupSets.anti_affine([[0, 1]], weight=10.0)
    problem = level_problem(groups=2, imbalance_weight=np.zeros(1), group_sets=together)

    best = AnnealingSearch(problem).run(1000, 1.0)

    assert problem.origin.tolist() == [0, 0]
    assert best.assignment[0] != best.assignment[1]


def test_empties_an_overfull_node_though_it_stays_overfull_for_long() -> None:
    problem = level_problem(groups=40, nodes=4, overload_weight=np.full(1, 100.0))

    best = AnnealingSearch(problem).run(50_000, 1.0)

    assert not infeasibilities(problem, problem.origin)
    assert np.bincount(best.assignment).max() <= 20


def test_begins_with_the_start_it_is_given() -> None:
    problem = level_problem(groups=3)

    search = AnnealingSearch(problem, start=np.array([0, 1, 2]))

    assert search.best.cost == pytest.approx(0)


def test_annealing_with_infeasible_start_raises() -> None:
    problem = level_problem(budget_weights=np.ones((1, 12)), budgets=np.array([3.0]))

    with pytest.raises(ValueError, match="budget 0 is exceeded: 12 of 3"):
        AnnealingSearch(problem, start=np.ones(12, dtype=np.int64))


def test_annealing_widens_slots_of_a_crowded_node() -> None:
    nodes, groups = 30, 60
    problem = level_problem(
        groups=groups,
        nodes=nodes,
        demand=np.ones((groups, 1)),
        origin=np.arange(groups) % nodes,
        imbalance_weight=np.zeros(1),
        use_cost=np.ones(nodes),
        placement_cost=np.arange(nodes, dtype=float)[None, :],
    )
    search = AnnealingSearch(problem)

    for step in range(40):
        best = search.run(5000, (step + 1) / 40)

    assert best.assignment.tolist() == [0] * groups


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("capacity", np.full((3, 1), np.nan), "capacity has a value that is not a num"),
        ("demand", np.full((12, 1), -1.0), "demand has a value below 0"),
        ("origin", np.full(12, 3), r"origin has an index outside \[0, 3\)"),
        ("move_cost", np.zeros(5), r"move_cost has the shape \(5,\), not \(12,\)"),
    ],
)
def test_problem_with_invalid_values_raises(
    field: str, value: object, message: str
) -> None:
    changes = {field: value}

    with pytest.raises(ValueError, match=message):
        level_problem(12, 3, **changes)


@pytest.mark.parametrize("seed", range(4))
def test_two_threads_on_one_assignment_leave_its_sums_right(seed: int) -> None:
    problem = random_problem(seed)
    search = AnnealingSearch(problem, seed=seed)

    for progress in (0.5, 1.0):
        best = search.run(100_000, progress, threads=2)
        state = search._state  # noqa: SLF001 - the sums are what this is about
        places = state.node_of.tolist()
        assert state.totals[COST] == pytest.approx(reference_cost(problem, places))
        assert (state.counters[OVERFULL] == 0) == is_feasible(problem, places)
        assert is_feasible(problem, best.assignment.tolist())


def test_annealing_with_two_threads_finds_the_optimum() -> None:
    problem = level_problem()

    best = AnnealingSearch(problem).run(40_000, 1.0, threads=2)

    assert best.cost == pytest.approx(0.0)
    assert np.bincount(best.assignment).tolist() == [4, 4, 4]


@given(SEEDS, st.data())
def test_disallowed_node_is_never_feasible(seed: int, data: st.DataObject) -> None:
    problem = random_problem(seed)
    tables = problem_arrays(problem)
    places = [data.draw(st.integers(0, problem.node_count - 1)) for _ in problem.origin]

    for group, node in enumerate(places):
        if not callable_from_python(moves.is_allowed)(tables, group, node):
            assert not is_feasible(problem, places)


def test_a_unit_that_fits_nowhere_else_is_not_tried() -> None:
    problem = level_problem(
        demand=np.array([[60.0], *[[5.0]] * 11]),
        base_load=np.array([[0.0], [50.0], [50.0]]),
    )

    assert problem_arrays(problem).movable.tolist() == list(range(1, 12))


def test_nothing_is_tried_where_no_unit_fits_anywhere_else() -> None:
    problem = level_problem(base_load=np.array([[0.0], [100.0], [100.0]]))

    assert AnnealingSearch(problem).run(50_000, 1.0).assignment.tolist() == [0] * 12
