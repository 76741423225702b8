"""Who does not answer is asked again, less and less often, and not for ever."""

from opendrs.controller.patience import LONGEST_WAIT, Patience

START = 5000.0  # seconds of the monotonic clock


def test_waits_twice_as_long_each_time_and_never_above_a_minute() -> None:
    patience, now, waits = Patience(first=1, lasting=1e6), START, []
    for _ in range(8):
        patience.failed(now)
        wait = next(s for s in range(100) if not patience.waits(now + s))
        waits.append(wait)
        now += wait

    assert waits == [1, 2, 4, 8, 16, 32, LONGEST_WAIT, LONGEST_WAIT]


def test_is_exhausted_by_failures_alone() -> None:
    patience = Patience(first=1, lasting=10)
    patience.failed(START)

    assert not patience.exhausted(START + 9)
    assert patience.exhausted(START + 10)

    patience.succeeded()

    assert not patience.exhausted(START + 10)
