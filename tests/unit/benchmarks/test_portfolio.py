"""Many searches of a reassignment problem begin, and the better ones go on."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from opendrs.policies.optimising.engine import faults
from oracles.drawn_problems import drawn_problem
from oracles.reassignment import plain_cost
from reassignment.portfolio import choices, solve, work


@pytest.mark.parametrize("count", [1, 2, 3, 5, 6, 16])
def test_halves_are_left_behind_until_one_search_is_left(count: int) -> None:
    ends = choices(count)

    assert count >> (len(ends) - 1) == 1
    assert all(before < after for before, after in pairwise([0.0, *ends]))
    assert ends[-1] == 1.0


def test_the_work_is_what_all_searches_do_between_two_choices() -> None:
    # By hand: four go to 0.44, two on to 0.5, and one to the end.
    assert work(4) == pytest.approx([4 * 0.44, 2 * 0.06, 0.5])
    assert work(1) == [1.0]


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_what_is_found_in_time_is_feasible_and_better(threads: int) -> None:
    problem = drawn_problem(11)

    found = solve(problem, seconds=0.5, seed=0, threads=threads)

    assert not faults(problem, found)
    origin = problem.origin.tolist()
    assert plain_cost(problem, found.tolist()) < plain_cost(problem, origin)


def test_without_time_all_stay_at_home() -> None:
    problem = drawn_problem(11)

    found = solve(problem, seconds=0.0, seed=0, threads=2)

    assert np.array_equal(found, problem.origin)
