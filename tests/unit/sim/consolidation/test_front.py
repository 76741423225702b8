"""The front holds who is not beaten."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from opendrs.sim.consolidation.front import on_front

NAN = float("nan")
values = st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.0, NAN]) | st.floats(0, 5)


def beaten(one: tuple[float, float], other: tuple[float, float]) -> bool:
    """Return whether *other* beats *one*."""
    no_worse = other[0] <= one[0] and other[1] <= one[1]
    return no_worse and other != one


def test_who_is_better_in_both_beats() -> None:
    # (1, 5) and (5, 1) are apart, (3, 3) is between them, (4, 4) behind it.
    found = on_front([1, 5, 3, 4], [5, 1, 3, 4])

    assert found.tolist() == [True, True, True, False]


def test_equals_do_not_beat_each_other() -> None:
    assert on_front([1, 1, 1], [2, 2, 3]).tolist() == [True, True, False]


def test_the_unknown_is_not_on_the_front() -> None:
    assert on_front([1, NAN, 0], [1, 0, NAN]).tolist() == [True, False, False]


def test_nobody_is_on_an_empty_front() -> None:
    assert on_front([], []).tolist() == []


@given(st.lists(st.tuples(values, values), max_size=12))
def test_the_front_is_who_nobody_beats(points: list[tuple[float, float]]) -> None:
    known = [point for point in points if not any(map(math.isnan, point))]

    found = on_front([point[0] for point in points], [point[1] for point in points])

    assert found.tolist() == [
        point in known and not any(beaten(point, other) for other in known)
        for point in points
    ]
