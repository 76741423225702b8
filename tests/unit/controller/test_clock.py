"""The time of this machine."""

from __future__ import annotations

from datetime import UTC

from hypothesis import given
from hypothesis import strategies as st

from opendrs.controller import SystemClock
from opendrs.controller.clock import MAX_DELAY, ExponentialBackoff, IntervalTimer


def test_system_clock_returns_utc() -> None:
    assert SystemClock().now().tzinfo is UTC


def test_system_clock_sleep_advances_monotonic() -> None:
    clock = SystemClock()
    before = clock.now(), clock.monotonic()

    clock.sleep(0.001)

    assert clock.now() > before[0]
    assert clock.monotonic() >= before[1] + 0.001


START = 5000.0  # seconds of the monotonic clock


def at(seconds: float) -> float:
    return START + seconds


def test_timer_first_cycle_is_due_at_once() -> None:
    assert IntervalTimer(300, START).remaining(START) == 0


def test_timer_next_cycle_is_due_after_interval() -> None:
    timer = IntervalTimer(300, START)
    timer.start_cycle(START)

    assert timer.remaining(at(10)) == 290
    assert timer.remaining(at(300)) == 0


def test_timer_does_not_drift() -> None:
    timer = IntervalTimer(300, START)
    for number in range(10):
        timer.start_cycle(at(300 * number + 7))

    assert timer.remaining(at(2707)) == 293


def test_timer_long_cycle_skips_missed_cycles() -> None:
    timer = IntervalTimer(300, START)
    timer.start_cycle(START)
    assert timer.remaining(at(1000)) == 0

    timer.start_cycle(at(1000))

    assert timer.remaining(at(1000)) == 200


def test_timer_expedite_makes_cycle_due_earlier() -> None:
    timer = IntervalTimer(300, START)
    timer.start_cycle(START)

    timer.expedite(at(100), 10)
    timer.expedite(at(105), 10)  # who asks again does not put it off

    assert timer.remaining(at(105)) == 5


def test_timer_early_cycle_keeps_schedule() -> None:
    timer = IntervalTimer(300, START)
    timer.start_cycle(START)
    timer.expedite(at(100), 10)
    timer.start_cycle(at(110))

    assert timer.remaining(at(110)) == 190


def test_timer_expedite_does_not_delay() -> None:
    timer = IntervalTimer(300, START)
    timer.start_cycle(START)

    timer.expedite(at(299), 10)

    assert timer.remaining(at(299)) == 1


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["wait", "begin", "hasten"]),
            st.floats(-1e6, 1e6),
        ),
        max_size=20,
    )
)
def test_timer_never_waits_longer_than_interval(
    events: list[tuple[str, float]],
) -> None:
    timer, now = IntervalTimer(300, START), START
    timer.start_cycle(now)
    for event, number in events:
        if event == "wait":
            now += abs(number) % timer.remaining(now)
        elif event == "begin":
            timer.start_cycle(now)
        else:
            timer.expedite(now, abs(number))
        if timer.remaining(now) == 0:
            timer.start_cycle(now)

        assert 0 < timer.remaining(now) <= 300


def test_backoff_doubles_up_to_maximum() -> None:
    backoff, now, waits = ExponentialBackoff(initial=1, timeout=1e6), START, []
    for _ in range(8):
        backoff.record_failure(now)
        wait = next(s for s in range(100) if not backoff.is_waiting(now + s))
        waits.append(wait)
        now += wait

    assert waits == [1, 2, 4, 8, 16, 32, MAX_DELAY, MAX_DELAY]


def test_backoff_is_exhausted_only_by_failures() -> None:
    backoff = ExponentialBackoff(initial=1, timeout=10)
    backoff.record_failure(START)

    assert not backoff.is_exhausted(START + 9)
    assert backoff.is_exhausted(START + 10)

    backoff.reset()

    assert not backoff.is_exhausted(START + 10)
