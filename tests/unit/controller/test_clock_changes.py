"""An operator sets the clock while steps run: no timeout ends early or late."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from builders import cluster
from opendrs.errors import PlatformUnavailableError
from opendrs.model import GuestId, Snapshot
from opendrs.ports import Clock, Outcome, TaskId, TaskStatus
from stage import HASTY, Stage, migration, outcomes, step

ONE = step("1", migration("vm1", "a", "b"))
HOUR, DAY = 3600.0, 86_400.0


class OperatorClock:
    """A clock that is set at some second; the simulated cluster has another.

    Args:
        inner: The clock of the simulated cluster.
        at: Seconds after the beginning at which it is set.
        by: Seconds by which it is set forward, or back if negative.
    """

    def __init__(self, inner: Clock, *, at: float, by: float) -> None:
        self._inner = inner
        self._set_at = inner.now() + timedelta(seconds=at)
        self._by = timedelta(seconds=by)

    def now(self) -> datetime:
        now = self._inner.now()
        return now + self._by if now >= self._set_at else now

    def monotonic(self) -> float:
        return self._inner.monotonic()

    def sleep(self, seconds: float) -> None:
        self._inner.sleep(seconds)


def crowd() -> Snapshot:
    guests = {f"vm{number}": ("a", 0.1) for number in range(1, 7)}
    return cluster({"a": 0.7, "b": 0.1, "c": 0.1}, guests)


def stage_set(by: float, at: float = 3, patience: float = 60) -> Stage:
    """Return a stage whose clock is set *at* a second *by* so many seconds."""
    stage = Stage(crowd(), limits=replace(HASTY, patience=patience))
    stage.clock = OperatorClock(stage.clock, at=at, by=by)  # type: ignore[assignment]
    return stage


@pytest.mark.parametrize("by", [-DAY, HOUR])
def test_a_clock_that_is_set_aborts_no_migration(by: float) -> None:
    stage = stage_set(by)

    assert outcomes(stage.play(ONE)) == [Outcome.DONE]


@pytest.mark.parametrize("by", [-DAY, HOUR])
def test_a_migration_that_does_not_converge_is_aborted_at_its_timeout(
    by: float,
) -> None:
    stage = stage_set(by)
    stage.world.agitate(GuestId("vm1"))

    assert outcomes(stage.play(ONE)) == [Outcome.ABORTED]
    assert seconds_passed(stage) == pytest.approx(61, abs=2)


@pytest.mark.parametrize("by", [-DAY, HOUR])
def test_an_abort_that_is_not_obeyed_is_waited_for_as_long_as_before(
    by: float,
) -> None:
    stage = stage_set(by, at=70)
    stage.world.agitate(GuestId("vm1"))
    stage.world.abort = ignored  # type: ignore[method-assign]

    assert outcomes(stage.play(ONE)) == [Outcome.LOST]
    assert seconds_passed(stage) == pytest.approx(121, abs=3)


@pytest.mark.parametrize("by", [-DAY, HOUR])
def test_a_platform_that_does_not_answer_is_waited_for_as_long_as_before(
    by: float,
) -> None:
    stage = stage_set(by, at=20, patience=300)
    stage.world.later(3, stage.world.disconnect)
    stage.world.later(40, stage.world.reconnect)

    assert outcomes(stage.play(ONE)) == [Outcome.DONE]
    assert seconds_passed(stage) < 80


@pytest.mark.parametrize("by", [-DAY, HOUR])
def test_what_an_earlier_process_left_is_not_aborted_because_the_clock_was_set(
    by: float,
) -> None:
    stage = stage_set(by)
    stage.world.status = killed  # type: ignore[method-assign]
    with pytest.raises(KilledError):
        stage.play(ONE)
    del stage.world.status
    stage.clock.sleep(4)

    (record,) = stage.pick_up()

    assert record.outcome is Outcome.DONE


def seconds_passed(stage: Stage) -> float:
    """Return the seconds that have passed for the simulated cluster."""
    return stage.world._datacentre._elapsed  # noqa: SLF001 - the true time


def ignored(task: TaskId) -> None:
    """Accept an abort and do nothing."""


class KilledError(BaseException):
    """The process is gone."""


def killed(task: TaskId) -> TaskStatus:
    """End this process."""
    raise KilledError(task)


def test_a_wait_for_the_platform_is_not_prolonged_by_a_clock_that_is_set_back() -> None:
    stage = stage_set(-DAY, at=20)
    stage.world.later(3, stage.world.disconnect)

    assert outcomes(stage.play(ONE)) == [Outcome.LOST]
    assert seconds_passed(stage) < 180
    with pytest.raises(PlatformUnavailableError):
        stage.world.observe()
