from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendrs.policies.optimising.engine import Search, cost, faults, moves
from opendrs.policies.optimising.engine.annealing import start
from opendrs.policies.optimising.engine.state import COST, OVERFULL, empty_state
from opendrs.policies.optimising.engine.tables import NONE, tables_of
from opendrs.policies.optimising.groups import Groups
from opendrs.policies.optimising.problem import Problem
from oracles.drawn_problems import drawn_problem
from oracles.reassignment import is_feasible, plain_cost
from parts import called

SEEDS = st.integers(0, 10_000)


def level_problem(units: int = 12, nodes: int = 3, **changes: object) -> Problem:
    """Return units of one size, all on the first node, that should be even."""
    given: dict[str, object] = {
        "capacity": np.full((nodes, 1), 100.0),
        "demand": np.full((units, 1), 5.0),
        "origin": np.zeros(units, dtype=np.int64),
        "class_of": np.zeros(units, dtype=np.int64),
        "allowed": np.ones((1, nodes), dtype=np.bool_),
        "even_target": np.full(1, 0.05 * units / nodes),
        "even_weight": np.ones(1),
    }
    return Problem(**(given | changes))  # type: ignore[arg-type]


@given(SEEDS, st.data())
def test_an_assignment_costs_and_breaks_what_the_definition_says(
    seed: int, data: st.DataObject
) -> None:
    problem = drawn_problem(seed)
    places = problem.origin.tolist()
    for unit in data.draw(st.lists(st.integers(0, problem.units - 1), max_size=6)):
        places[unit] = data.draw(st.integers(0, problem.nodes - 1))

    assert cost(problem, np.array(places)) == pytest.approx(plain_cost(problem, places))
    assert (not faults(problem, np.array(places))) == is_feasible(problem, places)


@given(SEEDS)
@settings(max_examples=40)
def test_the_sums_kept_over_thousands_of_moves_are_those_of_the_definition(
    seed: int,
) -> None:
    problem = drawn_problem(seed)
    search = Search(problem, seed=seed)

    for progress in (0.2, 0.5, 1.0):
        best = search.run(2000, progress)
        state = search._state  # noqa: SLF001 - the sums are what this is about
        places = state.node_of.tolist()
        assert state.sums[COST] == pytest.approx(plain_cost(problem, places))
        assert (state.numbers[OVERFULL] == 0) == is_feasible(problem, places)
        assert best.cost == pytest.approx(plain_cost(problem, best.assignment.tolist()))
        assert is_feasible(problem, best.assignment.tolist())
        assert best.cost <= cost(problem, problem.origin)


@given(SEEDS, st.data())
def test_a_move_costs_beforehand_what_it_costs_afterwards(
    seed: int, data: st.DataObject
) -> None:
    problem = drawn_problem(seed)
    tables = tables_of(problem)
    state = empty_state(tables, 1, 2 * problem.units)
    start(tables, state)
    for _ in range(5):
        unit = data.draw(st.integers(0, problem.units - 1))
        target = data.draw(st.integers(0, problem.nodes - 1))
        before = state.node_of.tolist()
        if before[unit] == target:
            continue
        delta, over = called(moves.shift_delta)(tables, state, unit, target, np.inf)
        may = called(moves.may_join)(tables, state, unit, target, NONE) and called(
            moves.may_be
        )(tables, state, unit, target, NONE, NONE)
        after = [*before[:unit], target, *before[unit + 1 :]]

        assert delta == pytest.approx(
            plain_cost(problem, after) - plain_cost(problem, before)
        )
        if may and over <= 0:
            assert is_feasible(problem, after)
            called(moves.relocate)(tables, state, unit, target)
        elif is_feasible(problem, before):
            assert not is_feasible(problem, after)


def test_the_same_seed_finds_the_same() -> None:
    problem = drawn_problem(3, nodes=10, units=60)
    one, other = (Search(problem, seed=5) for _ in range(2))

    for progress in (0.5, 1.0):
        found, again = one.run(3000, progress), other.run(3000, progress)

        assert found.cost == again.cost
        assert found.assignment.tolist() == again.assignment.tolist()


def test_a_short_search_comes_back_with_something_where_nodes_are_nearly_full() -> None:
    # Two units of 48 to a node of 100: the nodes differ in cost, and are all in use.
    problem = level_problem(
        units=18,
        nodes=10,
        demand=np.full((18, 1), 48.0),
        origin=np.arange(18) // 2 + 1,
        even_weight=np.zeros(1),
        place_cost=np.arange(10.0)[None, :],
        transient=np.ones(1, dtype=np.bool_),
    )

    best = Search(problem).run(2000, 1.0)

    assert best.cost < cost(problem, problem.origin)


def test_finds_the_even_placement() -> None:
    problem = level_problem()

    best = Search(problem).run(20_000, 1.0)

    assert sorted(np.bincount(best.assignment)) == [4, 4, 4]
    assert best.cost == pytest.approx(0)


def test_moves_no_more_than_the_budget() -> None:
    problem = level_problem(measures=np.ones((1, 12)), budgets=np.array([3.0]))

    best = Search(problem).run(20_000, 1.0)

    assert (best.assignment != problem.origin).sum() == 3


def test_repairs_what_is_broken_at_the_origin_if_that_is_worth_it() -> None:
    together = Groups.apart([[0, 1]], weight=10.0)
    problem = level_problem(units=2, even_weight=np.zeros(1), groups=together)

    best = Search(problem).run(1000, 1.0)

    assert problem.origin.tolist() == [0, 0]
    assert best.assignment[0] != best.assignment[1]


def test_empties_an_overfull_node_though_it_stays_overfull_for_long() -> None:
    problem = level_problem(units=40, nodes=4, overload_weight=np.full(1, 100.0))

    best = Search(problem).run(50_000, 1.0)

    assert not faults(problem, problem.origin)
    assert np.bincount(best.assignment).max() <= 20


def test_begins_with_the_start_it_is_given() -> None:
    problem = level_problem(units=3)

    search = Search(problem, start=np.array([0, 1, 2]))

    assert search.best.cost == pytest.approx(0)


def test_refuses_a_start_that_is_not_feasible() -> None:
    problem = level_problem(measures=np.ones((1, 12)), budgets=np.array([3.0]))

    with pytest.raises(ValueError, match="budget 0 is exceeded: 12 of 3"):
        Search(problem, start=np.ones(12, dtype=np.int64))


def test_makes_room_when_many_units_gather_on_one_node() -> None:
    nodes, units = 30, 60
    problem = level_problem(
        units=units,
        nodes=nodes,
        demand=np.ones((units, 1)),
        origin=np.arange(units) % nodes,
        even_weight=np.zeros(1),
        use_cost=np.ones(nodes),
        place_cost=np.arange(nodes, dtype=float)[None, :],
    )
    search = Search(problem)

    for step in range(40):
        best = search.run(5000, (step + 1) / 40)

    assert best.assignment.tolist() == [0] * units


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("capacity", np.full((3, 1), np.nan), "capacity has a value that is not a num"),
        ("demand", np.full((12, 1), -1.0), "demand has a value below 0"),
        ("origin", np.full(12, 3), r"origin has an index outside \[0, 3\)"),
        ("move_cost", np.zeros(5), r"move_cost has the shape \(5,\), not \(12,\)"),
    ],
)
def test_refuses_a_problem_that_makes_no_sense(
    field: str, value: object, message: str
) -> None:
    changes = {field: value}

    with pytest.raises(ValueError, match=message):
        level_problem(12, 3, **changes)


@pytest.mark.parametrize("seed", range(4))
def test_two_threads_on_one_assignment_leave_its_sums_right(seed: int) -> None:
    problem = drawn_problem(seed)
    search = Search(problem, seed=seed)

    for progress in (0.5, 1.0):
        best = search.run(100_000, progress, threads=2)
        state = search._state  # noqa: SLF001 - the sums are what this is about
        places = state.node_of.tolist()
        assert state.sums[COST] == pytest.approx(plain_cost(problem, places))
        assert (state.numbers[OVERFULL] == 0) == is_feasible(problem, places)
        assert is_feasible(problem, best.assignment.tolist())


def test_threads_search_together_no_worse_than_nobody() -> None:
    problem = level_problem()

    best = Search(problem).run(40_000, 1.0, threads=2)

    assert best.cost == pytest.approx(0.0)
    assert np.bincount(best.assignment).tolist() == [4, 4, 4]


@given(SEEDS, st.data())
def test_nobody_is_where_it_is_said_not_to_fit(seed: int, data: st.DataObject) -> None:
    problem = drawn_problem(seed)
    tables = tables_of(problem)
    places = [data.draw(st.integers(0, problem.nodes - 1)) for _ in problem.origin]

    for unit, node in enumerate(places):
        if not called(moves.may_go)(tables, unit, node):
            assert not is_feasible(problem, places)


def test_a_unit_that_fits_nowhere_else_is_not_tried() -> None:
    problem = level_problem(
        demand=np.array([[60.0], *[[5.0]] * 11]),
        base=np.array([[0.0], [50.0], [50.0]]),
    )

    assert tables_of(problem).movable.tolist() == list(range(1, 12))


def test_nothing_is_tried_where_no_unit_fits_anywhere_else() -> None:
    problem = level_problem(base=np.array([[0.0], [100.0], [100.0]]))

    assert Search(problem).run(50_000, 1.0).assignment.tolist() == [0] * 12
