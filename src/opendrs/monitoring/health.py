"""Health of a running controller: is its loop alive, and is it ready."""

from __future__ import annotations

from dataclasses import dataclass

from opendrs.controller.cycle import CycleResult
from opendrs.controller.observers import NullControllerObserver
from opendrs.errors import PlatformError, StoreError
from opendrs.guard import Rejection
from opendrs.model import Step
from opendrs.ports import Clock, StepRecord, Store, TaskStatus

MIN_TIMEOUT = 60.0  # seconds; a request to a platform may take that long


@dataclass(frozen=True, slots=True)
class HealthStatus:
    """Result of a health check.

    Attributes:
        ok: True if the check succeeded.
        detail: The reason, for the operator.
    """

    ok: bool
    detail: str


class HealthMonitor(NullControllerObserver):
    """Controller observer that judges the age of the last events.

    The loop is alive if it showed activity in the last *ready_intervals* intervals:
    it polls while it waits, and also while steps run. The controller is ready if it
    holds the lease and, within the same time, finished a cycle or made progress with
    the steps of a plan, which may take hours.

    Other threads may request the status: each attribute is replaced as a whole.

    Args:
        clock: The time.
        ready_intervals: Number of intervals.
    """

    def __init__(self, clock: Clock, ready_intervals: int) -> None:
        self._clock = clock
        self._ready_intervals = ready_intervals
        self._timeout = MIN_TIMEOUT
        self._active_at = clock.monotonic()
        self._finished_at: float | None = None
        self._store: Store | None = None

    @property
    def holds_lease(self) -> bool:
        """Return True if this controller holds the lease; no request is sent."""
        if self._store is None:
            return False
        try:
            self._store.require_lease()
        except StoreError:
            return False
        return True

    @property
    def liveness(self) -> HealthStatus:
        """Return the status of the loop."""
        age = self._clock.monotonic() - self._active_at
        if age > self._timeout:
            return HealthStatus(ok=False, detail=f"no activity for {age:.0f} s")
        return HealthStatus(ok=True, detail="the loop is active")

    @property
    def readiness(self) -> HealthStatus:
        """Return the status of the controller."""
        if not self.holds_lease:
            return HealthStatus(ok=False, detail="the lease is not held")
        if self._finished_at is None:
            return HealthStatus(ok=False, detail="no cycle has finished yet")
        age = self._clock.monotonic() - self._finished_at
        text = f"last cycle or progress of a step {age:.0f} s ago"
        return HealthStatus(ok=age <= self._timeout, detail=text)

    def lease_acquired(self, store: Store) -> None:
        """Keep *store*, which knows the lease."""
        self._store = store
        self._record_activity()

    def configured(self, policy: str, interval: float) -> None:
        """Set the time in which events are expected."""
        del policy
        self._timeout = max(MIN_TIMEOUT, self._ready_intervals * interval)

    def loop_polled(self) -> None:
        """Record activity."""
        self._record_activity()

    def cycle_finished(self, result: CycleResult, seconds: float) -> None:
        """Record a finished cycle."""
        del result, seconds
        self._record_progress()

    def cycle_failed(self, error: PlatformError, seconds: float) -> None:
        """Record activity: a failed cycle is repeated."""
        del error, seconds
        self._record_activity()

    def step_started(self, step: Step) -> None:
        """Record progress."""
        del step
        self._record_progress()

    def step_progressed(self, step: Step, status: TaskStatus) -> None:
        """Record progress."""
        del step, status
        self._record_progress()

    def step_waiting(self, step: Step, detail: str) -> None:
        """Record activity."""
        del step, detail
        self._record_activity()

    def step_rejected(self, step: Step, rejection: Rejection) -> None:
        """Record activity."""
        del step, rejection
        self._record_activity()

    def step_finished(self, step: Step, record: StepRecord) -> None:
        """Record progress."""
        del step, record
        self._record_progress()

    def steps_polled(self) -> None:
        """Record activity."""
        self._record_activity()

    def _record_activity(self) -> None:
        self._active_at = self._clock.monotonic()

    def _record_progress(self) -> None:
        self._active_at = self._finished_at = self._clock.monotonic()
