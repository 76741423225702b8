"""An operator sets the clock while steps run: no timeout ends early or late."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from opendrs.errors import PlatformUnavailableError
from opendrs.model import GuestId, Snapshot
from opendrs.ports import Clock, Outcome, TaskId, TaskStatus
from support.builders import cluster
from support.simulated_cluster import (
    SHORT_LIMITS,
    SimulatedCluster,
    migration,
    outcomes,
    step,
)

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


def sample_cluster() -> Snapshot:
    guests = {f"vm{number}": ("a", 0.1) for number in range(1, 7)}
    return cluster({"a": 0.7, "b": 0.1, "c": 0.1}, guests)


def simulation_with_clock(
    by: float, at: float = 3, timeout: float = 60
) -> SimulatedCluster:
    """Return a stage whose clock is set *at* a second *by* so many seconds."""
    simulation = SimulatedCluster(
        sample_cluster(), limits=replace(SHORT_LIMITS, migration_timeout=timeout)
    )
    simulation.clock = OperatorClock(simulation.clock, at=at, by=by)  # type: ignore[assignment]
    return simulation


@pytest.mark.parametrize("by", [-DAY, HOUR])
def test_clock_change_aborts_no_migration(by: float) -> None:
    simulation = simulation_with_clock(by)

    assert outcomes(simulation.execute(ONE)) == [Outcome.DONE]


@pytest.mark.parametrize("by", [-DAY, HOUR])
def test_a_migration_that_does_not_converge_is_aborted_at_its_timeout(
    by: float,
) -> None:
    simulation = simulation_with_clock(by)
    simulation.simulated_platform.make_non_converging(GuestId("vm1"))

    assert outcomes(simulation.execute(ONE)) == [Outcome.ABORTED]
    assert seconds_passed(simulation) == pytest.approx(61, abs=2)


@pytest.mark.parametrize("by", [-DAY, HOUR])
def test_clock_change_keeps_abort_timeout(
    by: float,
) -> None:
    simulation = simulation_with_clock(by, at=70)
    simulation.simulated_platform.make_non_converging(GuestId("vm1"))
    simulation.simulated_platform.abort = ignored  # type: ignore[method-assign]

    assert outcomes(simulation.execute(ONE)) == [Outcome.LOST]
    assert seconds_passed(simulation) == pytest.approx(121, abs=3)


@pytest.mark.parametrize("by", [-DAY, HOUR])
def test_clock_change_keeps_platform_timeout(
    by: float,
) -> None:
    simulation = simulation_with_clock(by, at=20, timeout=300)
    simulation.simulated_platform.schedule_fault(
        3, simulation.simulated_platform.disconnect
    )
    simulation.simulated_platform.schedule_fault(
        40, simulation.simulated_platform.reconnect
    )

    assert outcomes(simulation.execute(ONE)) == [Outcome.DONE]
    assert seconds_passed(simulation) < 80


@pytest.mark.parametrize("by", [-DAY, HOUR])
def test_clock_change_aborts_no_recovered_migration(
    by: float,
) -> None:
    simulation = simulation_with_clock(by)
    simulation.simulated_platform.status = killed  # type: ignore[method-assign]
    with pytest.raises(KilledError):
        simulation.execute(ONE)
    del simulation.simulated_platform.status
    simulation.clock.sleep(4)

    (record,) = simulation.recover()

    assert record.outcome is Outcome.DONE


def seconds_passed(simulation: SimulatedCluster) -> float:
    """Return the seconds that have passed for the simulated cluster."""
    return simulation.simulated_platform._datacenter._elapsed  # noqa: SLF001 - the true time


def ignored(task: TaskId) -> None:
    """Accept an abort and do nothing."""


class KilledError(BaseException):
    """The process is gone."""


def killed(task: TaskId) -> TaskStatus:
    """End this process."""
    raise KilledError(task)


def test_clock_set_back_does_not_prolong_backoff() -> None:
    simulation = simulation_with_clock(-DAY, at=20)
    simulation.simulated_platform.schedule_fault(
        3, simulation.simulated_platform.disconnect
    )

    assert outcomes(simulation.execute(ONE)) == [Outcome.LOST]
    assert seconds_passed(simulation) < 180
    with pytest.raises(PlatformUnavailableError):
        simulation.simulated_platform.observe()
