from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendrs.optimizer import AnnealingSearch, GroupSets, Problem
from opendrs.optimizer.compiled import moves
from opendrs.optimizer.compiled.annealing import initialize
from opendrs.optimizer.evaluation import cost
from opendrs.optimizer.feasibility import infeasibilities
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
    """Return groups of one size, all on the first node, with an imbalance cost."""
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
def test_evaluation_equals_reference(seed: int, data: st.DataObject) -> None:
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
def test_annealing_sums_equal_reference_after_many_moves(
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
def test_move_delta_equals_cost_difference(seed: int, data: st.DataObject) -> None:
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


def test_annealing_is_deterministic() -> None:
    problem = random_problem(3, nodes=10, groups=60)
    one, other = (AnnealingSearch(problem, seed=5) for _ in range(2))

    for progress in (0.5, 1.0):
        found, again = one.run(3000, progress), other.run(3000, progress)

        assert found.cost == again.cost
        assert found.assignment.tolist() == again.assignment.tolist()


def test_annealing_short_run_on_full_nodes_improves() -> None:
    # Two groups of 48 per node of 100: nodes differ in cost, and all are used.
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


def test_annealing_finds_the_balanced_placement() -> None:
    problem = level_problem()

    best = AnnealingSearch(problem).run(20_000, 1.0)

    assert sorted(np.bincount(best.assignment)) == [4, 4, 4]
    assert best.cost == pytest.approx(0)


def test_annealing_keeps_the_budget() -> None:
    problem = level_problem(budget_weights=np.ones((1, 12)), budgets=np.array([3.0]))

    best = AnnealingSearch(problem).run(20_000, 1.0)

    assert (best.assignment != problem.origin).sum() == 3


def test_annealing_repairs_the_origin() -> None:
    together = GroupSets.anti_affine([[0, 1]], weight=10.0)
    problem = level_problem(groups=2, imbalance_weight=np.zeros(1), group_sets=together)

    best = AnnealingSearch(problem).run(1000, 1.0)

    assert problem.origin.tolist() == [0, 0]
    assert best.assignment[0] != best.assignment[1]


def test_annealing_relieves_a_very_overfull_node() -> None:
    problem = level_problem(groups=40, nodes=4, overload_weight=np.full(1, 100.0))

    best = AnnealingSearch(problem).run(50_000, 1.0)

    assert not infeasibilities(problem, problem.origin)
    assert np.bincount(best.assignment).max() <= 20


def test_annealing_starts_at_the_given_assignment() -> None:
    problem = level_problem(groups=3)

    search = AnnealingSearch(problem, start=np.array([0, 1, 2]))

    assert search.best.cost == pytest.approx(0)


def test_annealing_temperature_falls_from_the_given_one() -> None:
    search = AnnealingSearch(level_problem(), temperature=10.0)

    assert search.temperature == 10.0
    search.run(1000, 0.5)
    middle = search.temperature
    search.run(1000, 1.0)

    # From 10 to a thousandth, in equal ratios.
    assert middle == pytest.approx(10.0 * 0.001**0.5)
    assert search.temperature == pytest.approx(0.01)


def test_annealing_with_infeasible_start_raises() -> None:
    problem = level_problem(budget_weights=np.ones((1, 12)), budgets=np.array([3.0]))

    with pytest.raises(ValueError, match="budget 0: exceeded: 12 of 3"):
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
        ("capacity", np.full((3, 1), np.nan), "capacity: expected numbers, got NaN"),
        ("demand", np.full((12, 1), -1.0), "demand: expected at least 0, got -1"),
        ("origin", np.full(12, 3), r"origin: expected indices in \[0, 3\)"),
        ("move_cost", np.zeros(5), r"move_cost: expected shape \(12,\), got \(5,\)"),
    ],
)
def test_problem_with_invalid_values_raises(
    field: str, value: object, message: str
) -> None:
    changes = {field: value}

    with pytest.raises(ValueError, match=message):
        level_problem(12, 3, **changes)


@pytest.mark.parametrize("seed", range(4))
def test_annealing_with_two_threads_keeps_sums(seed: int) -> None:
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


def test_movable_excludes_group_that_fits_nowhere_else() -> None:
    problem = level_problem(
        demand=np.array([[60.0], *[[5.0]] * 11]),
        base_load=np.array([[0.0], [50.0], [50.0]]),
    )

    assert problem_arrays(problem).movable.tolist() == list(range(1, 12))


def test_annealing_without_movable_groups_does_nothing() -> None:
    problem = level_problem(base_load=np.array([[0.0], [100.0], [100.0]]))

    assert AnnealingSearch(problem).run(50_000, 1.0).assignment.tolist() == [0] * 12
