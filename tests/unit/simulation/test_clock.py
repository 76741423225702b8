"""Simulated clock advances only by sleep and jump."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from opendrs.simulation import SimulatedClock
from support.builders import NOON


class CountingClock:
    """Clock that records the durations of sleep."""

    def __init__(self) -> None:
        self.waited: list[float] = []

    def now(self) -> datetime:
        return datetime(2000, 1, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        return sum(self.waited)

    def sleep(self, seconds: float) -> None:
        self.waited.append(seconds)


def test_sleep_advances_both_times() -> None:
    clock = SimulatedClock(NOON)

    clock.sleep(90)

    assert clock.now() == NOON + timedelta(seconds=90)


def test_time_without_sleep_does_not_advance() -> None:
    clock = SimulatedClock(NOON)

    assert clock.now() == clock.now() == NOON


def test_time_scale_sleeps_on_wall_clock() -> None:
    real = CountingClock()
    clock = SimulatedClock(NOON, time_scale=0.05, wall_clock=real)

    clock.sleep(20)

    assert real.waited == [1.0]
    assert clock.now() == NOON + timedelta(seconds=20)


def test_jump_changes_time_but_not_monotonic() -> None:
    clock = SimulatedClock(NOON)
    clock.sleep(10)

    clock.jump(-3600)

    assert clock.now() == NOON + timedelta(seconds=10 - 3600)
    assert clock.monotonic() == 10
