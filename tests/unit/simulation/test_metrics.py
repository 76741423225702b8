"""Pareto front contains the points that no other point dominates."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from opendrs.simulation.metrics import pareto_front

NAN = float("nan")
values = st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.0, NAN]) | st.floats(0, 5)


def is_dominated(one: tuple[float, float], other: tuple[float, float]) -> bool:
    """Return True if *other* dominates *one*."""
    no_worse = other[0] <= one[0] and other[1] <= one[1]
    return no_worse and other != one


def test_point_better_in_both_metrics_dominates() -> None:
    # (1, 5) and (5, 1) are apart, (3, 3) is between them, (4, 4) behind it.
    found = pareto_front([1, 5, 3, 4], [5, 1, 3, 4])

    assert found.tolist() == [True, True, True, False]


def test_equal_points_do_not_dominate_each_other() -> None:
    assert pareto_front([1, 1, 1], [2, 2, 3]).tolist() == [True, True, False]


def test_unknown_point_is_not_on_front() -> None:
    assert pareto_front([1, NAN, 0], [1, 0, NAN]).tolist() == [True, False, False]


def test_front_of_no_points_is_empty() -> None:
    assert pareto_front([], []).tolist() == []


@given(st.lists(st.tuples(values, values), max_size=12))
def test_front_contains_nondominated_points(points: list[tuple[float, float]]) -> None:
    known = [point for point in points if not any(map(math.isnan, point))]

    found = pareto_front([point[0] for point in points], [point[1] for point in points])

    assert found.tolist() == [
        point in known and not any(is_dominated(point, other) for other in known)
        for point in points
    ]
