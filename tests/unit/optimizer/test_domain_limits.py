"""Sets with a limit of members in each domain, beside plain loops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from opendrs.optimizer import IndexLists, Indices, Problem, placement_costs
from opendrs.optimizer.compiled import moves
from opendrs.optimizer.compiled.annealing import initialize
from opendrs.optimizer.evaluation import cost
from opendrs.optimizer.operators.shift import ShiftTable
from opendrs.optimizer.problem_arrays import COST, empty_state, problem_arrays
from support.compiled_functions import callable_from_python
from support.oracles.assignment_cost import reference_cost
from support.oracles.random_problems import random_problem, with_limits


def limited(seed: int) -> Problem:
    """Return a problem with limits and only the terms that snapshots have."""
    problem = random_problem(seed)
    count = len(problem.group_sets)
    sets = replace(
        problem.group_sets,
        spread=np.zeros(count, np.int64),
        needs=IndexLists.of([[]] * count),
    )
    plain = replace(
        problem,
        group_sets=sets,
        transient=np.zeros(3, np.bool_),
        ratio_terms=(),
        pair_cost=None,
        use_cost=np.zeros(problem.node_count),
        set_move_weight=0.0,
    )
    return with_limits(plain, seed)


def drawn_assignments(problem: Problem, seed: int, count: int) -> Indices:
    """Return *count* random assignments; shape (G, count)."""
    draw = np.random.default_rng(seed + 1000)
    return draw.integers(0, problem.node_count, (problem.group_count, count))


@pytest.mark.parametrize("seed", range(20))
def test_cost_of_limits_equals_reference(seed: int) -> None:
    problem = limited(seed)
    assignments = drawn_assignments(problem, seed, 5)

    found = placement_costs(problem, assignments)

    for column, assignment in enumerate(assignments.T):
        expected = reference_cost(problem, assignment.tolist())
        assert cost(problem, assignment) == pytest.approx(expected)
        assert found[column] == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(10))
def test_shift_table_is_exact_for_limits(seed: int) -> None:
    problem = limited(seed)
    (start,) = drawn_assignments(problem, seed, 1).T
    table = ShiftTable(problem, start.copy())
    for group in range(5):
        table.move((group, int((start[group] + 1) % problem.node_count)))
    here = table.node_of.copy()

    deltas = table.shift_deltas()

    assert table.total_cost == pytest.approx(cost(problem, here))
    for group in range(problem.group_count):
        for target in range(problem.node_count):
            if target != here[group]:
                after = here.copy()
                after[group] = target
                expected = cost(problem, after) - cost(problem, here)
                assert deltas[target, group] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_compiled_shift_is_exact_for_limits(seed: int) -> None:
    problem = limited(seed)
    tables = problem_arrays(problem)
    state = empty_state(tables, 1, 2 * problem.group_count)
    initialize(tables, state)
    here = problem.origin.copy()
    draw = np.random.default_rng(seed)

    for group in range(problem.group_count):
        target = int(draw.integers(problem.node_count))
        if target == here[group]:
            continue
        delta, _ = callable_from_python(moves.shift_delta)(
            tables, state, group, target, np.inf
        )
        before, here[group] = cost(problem, here), target
        assert delta == pytest.approx(cost(problem, here) - before, abs=1e-9)
        callable_from_python(moves.apply_move)(tables, state, group, target)
        assert state.totals[COST] == pytest.approx(cost(problem, here))
