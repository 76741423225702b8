"""Who does not answer is asked again, less and less often, and not for ever."""

from datetime import timedelta

from builders import NOON
from opendrs.controller.patience import LONGEST_WAIT, Patience


def after(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


def test_waits_twice_as_long_each_time_and_never_above_a_minute() -> None:
    patience, now, waits = Patience(first=1, lasting=1e6), NOON, []
    for _ in range(8):
        patience.failed(now)
        wait = next(s for s in range(100) if not patience.waits(now + after(s)))
        waits.append(wait)
        now += after(wait)

    assert waits == [1, 2, 4, 8, 16, 32, LONGEST_WAIT, LONGEST_WAIT]


def test_is_exhausted_by_failures_alone() -> None:
    patience = Patience(first=1, lasting=10)
    patience.failed(NOON)

    assert not patience.exhausted(NOON + after(9))
    assert patience.exhausted(NOON + after(10))

    patience.succeeded()

    assert not patience.exhausted(NOON + after(10))


def test_a_clock_that_is_set_back_does_not_make_it_last_for_longer() -> None:
    patience, back = Patience(first=1, lasting=10), NOON - after(3600)
    patience.failed(NOON)
    patience.failed(NOON + after(4))

    assert not patience.exhausted(back)
    patience.failed(back)
    patience.failed(back + after(5))

    # Four seconds had passed before.
    assert not patience.exhausted(back + after(5))
    assert patience.exhausted(back + after(6))


def test_a_clock_that_is_set_back_does_not_make_it_wait() -> None:
    patience = Patience(first=1, lasting=10)
    patience.failed(NOON)

    assert patience.waits(NOON)
    assert not patience.waits(NOON - after(3600))
