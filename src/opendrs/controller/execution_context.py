"""Dependencies of the plan executor: platform, clock, store, limits, observer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from opendrs.guard import Rejection
from opendrs.model import DEFAULT_PROTECTION, Limits, Protection, Step
from opendrs.ports import Clock, Platform, StepRecord, Store, TaskStatus


class CancellationToken:
    """Cancellation by the operator: first stop, then abort.

    The first request stops the start of new steps, the second aborts running steps.
    Safe to call from a signal handler: a request only increments a counter.
    """

    def __init__(self) -> None:
        self._requests = 0

    def cancel(self) -> None:
        """Request a stop; if it was already requested, an abort."""
        self._requests += 1

    @property
    def stop_requested(self) -> bool:
        """Return True if no new step may start."""
        return self._requests > 0

    @property
    def abort_requested(self) -> bool:
        """Return True if running steps must be aborted as well."""
        return self._requests > 1


@dataclass(slots=True)
class StartCount:
    """Number of migrations that were started since the cycle began."""

    migrations: int = 0


class ExecutionObserver(Protocol):
    """Receiver of the events of an execution, such as a display or a log."""

    def step_started(self, step: Step) -> None:
        """Handle the start of *step*."""

    def step_progressed(self, step: Step, status: TaskStatus) -> None:
        """Handle the progress of *step*; called at every poll."""

    def step_waiting(self, step: Step, detail: str) -> None:
        """Handle that *step* is delayed; called when *detail* changes."""

    def step_rejected(self, step: Step, rejection: Rejection) -> None:
        """Handle that the guard rejected *step*; called before `step_finished`."""

    def step_finished(self, step: Step, record: StepRecord) -> None:
        """Handle the outcome of *step*, also if it was never started."""

    def steps_polled(self) -> None:
        """Handle that all steps were polled, also if the platform is unreachable."""


class NullObserver:
    """Execution observer that ignores all events."""

    def step_started(self, step: Step) -> None:
        """Do nothing."""

    def step_progressed(self, step: Step, status: TaskStatus) -> None:
        """Do nothing."""

    def step_waiting(self, step: Step, detail: str) -> None:
        """Do nothing."""

    def step_rejected(self, step: Step, rejection: Rejection) -> None:
        """Do nothing."""

    def step_finished(self, step: Step, record: StepRecord) -> None:
        """Do nothing."""

    def steps_polled(self) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionContext:
    """Dependencies of the plan executor.

    Attributes:
        platform: Executes the actions.
        clock: The time.
        store: Records the steps.
        limits: Limits of the operator.
        observer: Receives the events of the execution.
        cancellation: Stop and abort requests of the operator.
        protection: Protection of the cluster.
        starts: Migrations that the plans of this cycle have started.
        poll_interval: Seconds between two polls.
        stop_reason: Function that returns why no further step may start, or an empty
            text; called before each step. It may raise `StoreError`.
    """

    platform: Platform
    clock: Clock
    store: Store
    limits: Limits
    observer: ExecutionObserver
    cancellation: CancellationToken
    protection: Protection = DEFAULT_PROTECTION
    starts: StartCount = field(default_factory=StartCount)
    poll_interval: float = 1.0
    stop_reason: Callable[[], str] = str
