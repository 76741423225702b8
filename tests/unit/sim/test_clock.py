"""Simulated time passes only when somebody waits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from builders import NOON
from opendrs.sim import SimulatedClock


class CountingClock:
    """A clock that notes for how long it was waited with."""

    def __init__(self) -> None:
        self.waited: list[float] = []

    def now(self) -> datetime:
        return datetime(2000, 1, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        return sum(self.waited)

    def sleep(self, seconds: float) -> None:
        self.waited.append(seconds)


def test_waiting_moves_the_time_on_by_as_much() -> None:
    clock = SimulatedClock(NOON)

    clock.sleep(90)

    assert clock.now() == NOON + timedelta(seconds=90)


def test_time_stands_still_while_nobody_waits() -> None:
    clock = SimulatedClock(NOON)

    assert clock.now() == clock.now() == NOON


def test_people_can_watch_at_a_pace_of_their_own() -> None:
    real = CountingClock()
    clock = SimulatedClock(NOON, pace=0.05, real=real)

    clock.sleep(20)

    assert real.waited == [1.0]
    assert clock.now() == NOON + timedelta(seconds=20)


def test_a_clock_that_is_set_shows_another_time_and_none_has_passed() -> None:
    clock = SimulatedClock(NOON)
    clock.sleep(10)

    clock.jump(-3600)

    assert clock.now() == NOON + timedelta(seconds=10 - 3600)
    assert clock.monotonic() == 10
