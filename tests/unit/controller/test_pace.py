"""Cycles come at a fixed pace, whatever they take."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from opendrs.controller.pace import Pace

START = 5000.0  # seconds of the monotonic clock


def at(seconds: float) -> float:
    return START + seconds


def test_the_first_cycle_is_due_at_once() -> None:
    assert Pace(300, START).left(START) == 0


def test_the_next_is_due_an_interval_after_the_one_before() -> None:
    pace = Pace(300, START)
    pace.begun(START)

    assert pace.left(at(10)) == 290
    assert pace.left(at(300)) == 0


def test_does_not_drift() -> None:
    pace = Pace(300, START)
    for number in range(10):
        pace.begun(at(300 * number + 7))

    assert pace.left(at(2707)) == 293


def test_a_long_cycle_leaves_out_those_it_has_missed() -> None:
    pace = Pace(300, START)
    pace.begun(START)
    assert pace.left(at(1000)) == 0

    pace.begun(at(1000))

    assert pace.left(at(1000)) == 200


def test_a_cycle_can_be_asked_for_before_it_is_due() -> None:
    pace = Pace(300, START)
    pace.begun(START)

    pace.hasten(at(100), 10)
    pace.hasten(at(105), 10)  # who asks again does not put it off

    assert pace.left(at(105)) == 5


def test_an_early_cycle_changes_nothing_for_the_others() -> None:
    pace = Pace(300, START)
    pace.begun(START)
    pace.hasten(at(100), 10)
    pace.begun(at(110))

    assert pace.left(at(110)) == 190


def test_a_cycle_that_is_due_is_not_put_off_by_asking() -> None:
    pace = Pace(300, START)
    pace.begun(START)

    pace.hasten(at(299), 10)

    assert pace.left(at(299)) == 1


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["wait", "begin", "hasten"]),
            st.floats(-1e6, 1e6),
        ),
        max_size=20,
    )
)
def test_nobody_ever_waits_longer_than_an_interval(
    deeds: list[tuple[str, float]],
) -> None:
    pace, now = Pace(300, START), START
    pace.begun(now)
    for deed, number in deeds:
        if deed == "wait":
            now += abs(number) % pace.left(now)
        elif deed == "begin":
            pace.begun(now)
        else:
            pace.hasten(now, abs(number))
        if pace.left(now) == 0:
            pace.begun(now)

        assert 0 < pace.left(now) <= 300
