"""Health checks: an active loop, and a controller that is ready."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from opendrs.controller.observers import NullControllerObserver
from opendrs.errors import LeaseLostError, PlatformUnavailableError
from opendrs.model import GIB, Step
from opendrs.monitoring.health import HealthMonitor
from opendrs.ports import TaskStatus
from opendrs.store import MemoryStore
from support.monitored_controller import INTERVAL, LOPSIDED, MonitoredController
from support.simulated_cluster import SimulatedCluster


class HealthSetup:
    """A controller with health checks."""

    def __init__(self, bandwidth: float = GIB) -> None:
        self.simulation = SimulatedCluster(LOPSIDED, bandwidth=bandwidth)
        self.health = HealthMonitor(self.simulation.clock, 3)
        self.during_step: Callable[[], object] = lambda: None
        self.setup = MonitoredController(
            self.health, StepCallback(self), simulation=self.simulation
        )

    def wait(self, seconds: float) -> None:
        self.simulation.clock.sleep(seconds)


class StepCallback(NullControllerObserver):
    """Observer that calls a function at each progress of a step."""

    def __init__(self, setup: HealthSetup) -> None:
        self._setup = setup

    def step_progressed(self, step: Step, status: TaskStatus) -> None:
        del step, status
        self._setup.during_step()


def test_controller_is_ready_until_three_intervals_after_a_cycle() -> None:
    found = HealthSetup()
    before = found.health.readiness
    found.setup.controller.run_once()

    found.wait(3 * INTERVAL)
    ready = found.health.readiness
    found.wait(1)

    assert (before.ok, ready.ok, found.health.readiness.ok) == (False, True, False)


def test_controller_is_ready_during_long_plan() -> None:
    found = HealthSetup(bandwidth=0.005 * GIB)  # 20 GiB take more than an hour
    ready: list[bool] = []
    found.during_step = lambda: ready.append(found.health.readiness.ok)

    found.setup.controller.run_once()

    assert found.simulation.elapsed > INTERVAL
    assert all(ready)
    assert len(ready) > INTERVAL


def test_controller_without_lease_is_not_ready() -> None:
    found = HealthSetup()
    found.setup.controller.run_once()

    class LostStore(MemoryStore):
        def require_lease(self) -> None:
            raise LeaseLostError("lost")

    found.health.lease_acquired(LostStore())

    assert not found.health.readiness.ok
    assert found.health.liveness.ok


def test_unreachable_platform_is_alive_and_not_ready() -> None:
    found = HealthSetup()
    found.simulation.simulated_platform.disconnect()
    for _ in range(4):
        with pytest.raises(PlatformUnavailableError):
            found.setup.controller.run_once()
        found.wait(INTERVAL)

    assert found.health.liveness.ok
    assert not found.health.readiness.ok


def test_loop_without_activity_is_not_alive() -> None:
    found = HealthSetup()
    found.setup.controller.run_once()

    found.wait(3 * INTERVAL + 1)
    silent = found.health.liveness
    found.setup.observers.loop_polled()

    assert not silent.ok
    assert found.health.liveness.ok


def test_waiting_standby_is_alive_and_not_ready() -> None:
    simulation = SimulatedCluster(LOPSIDED)
    health = HealthMonitor(simulation.clock, 3)
    for _ in range(1000):
        health.loop_polled()
        simulation.clock.sleep(0.5)

    assert health.liveness.ok
    assert not health.readiness.ok
