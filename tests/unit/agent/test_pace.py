"""Rounds at a fixed pace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import cast

import pytest

from builders import NOON
from opendrs.agent import Agent, StoppedError, interruptible, keep_on
from opendrs.sim import SimulatedClock


@dataclass
class _Settings:
    interval: float = 60.0


@dataclass
class Worker:
    """An agent whose rounds take some time, and end after some."""

    clock: SimulatedClock
    takes: list[float]
    settings: _Settings = field(default_factory=_Settings)
    begun: list[float] = field(default_factory=list)

    def due(self) -> datetime:
        return self.clock.now() + timedelta(seconds=10)

    def catch_up(self) -> None:
        pass

    def round(self) -> None:
        if not self.takes:
            raise StoppedError
        self.begun.append((self.clock.now() - NOON).total_seconds())
        self.clock.sleep(self.takes.pop(0))


def rounds(takes: list[float]) -> list[float]:
    """Return when the rounds began that take so many seconds each."""
    clock = SimulatedClock(start=NOON)
    worker = Worker(clock, takes)
    sleep = interruptible(clock, lambda: False)
    with pytest.raises(StoppedError):
        keep_on(cast("Agent", worker), sleep)
    return worker.begun


def test_rounds_do_not_drift() -> None:
    assert rounds([5.0, 20.0, 1.0, 59.0, 0.0]) == [10, 70, 130, 190, 250]


def test_a_long_round_leaves_out_those_it_ran_into() -> None:
    assert rounds([150.0, 1.0, 1.0]) == [10, 160, 190]


def stopping_after(looks: int) -> Callable[[], bool]:
    left = iter(range(looks))
    return lambda: next(left, None) is None


def test_whoever_waits_is_stopped_within_a_second() -> None:
    clock = SimulatedClock(start=NOON)
    sleep = interruptible(clock, stopping_after(3))

    with pytest.raises(StoppedError):
        sleep(3600)

    assert clock.now() - NOON < timedelta(seconds=2)


def test_whoever_is_not_stopped_waits_to_the_end() -> None:
    clock = SimulatedClock(start=NOON)

    interruptible(clock, lambda: False)(17.3)

    assert clock.now() - NOON == timedelta(seconds=17.3)


def test_waiting_no_time_sees_that_somebody_stopped_it() -> None:
    sleep = interruptible(SimulatedClock(), lambda: True)

    with pytest.raises(StoppedError):
        sleep(-5)


class JumpingClock(SimulatedClock):
    """A clock that is set by some seconds while it is waited for."""

    by = 0.0

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.jump(self.by)
        self.by = 0.0


@pytest.mark.parametrize("by", [-3600.0, 3600.0])
def test_a_clock_that_is_set_changes_nothing_about_the_wait(by: float) -> None:
    clock = JumpingClock(start=NOON)
    clock.by = by

    interruptible(clock, lambda: False)(30)

    assert clock.monotonic() == pytest.approx(30)
