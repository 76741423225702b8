"""Dependencies of the plan executor: platform, clock, store, limits, observer, cancellation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from opendrs.model import Limits, Step
from opendrs.ports import Clock, Platform, StepRecord, Store, TaskStatus


class CancellationToken:
    """Pulled once, no new step starts; pulled twice, running ones are aborted.

    It may be pulled from a signal handler: all that happens is an addition.
    """

    def __init__(self) -> None:
        self._requests = 0

    def cancel(self) -> None:
        """Stop; or, if stopping already, abort."""
        self._requests += 1

    @property
    def stop_requested(self) -> bool:
        """Return whether no new step is to start."""
        return self._requests > 0

    @property
    def abort_requested(self) -> bool:
        """Return whether running steps are to be aborted as well."""
        return self._requests > 1


class ExecutionObserver(Protocol):
    """Someone to be told: a screen, a log."""

    def step_started(self, step: Step) -> None:
        """Take note that *step* was started."""

    def step_progressed(self, step: Step, status: TaskStatus) -> None:
        """Take note of how far *step* is; told at every look."""

    def step_waiting(self, step: Step, detail: str) -> None:
        """Take note that *step* cannot go on for now; told when *detail* changes."""

    def step_finished(self, step: Step, record: StepRecord) -> None:
        """Take note of what came of *step*, also if it was never started."""


class NullObserver:
    """Tells nobody."""

    def step_started(self, step: Step) -> None:
        """Say nothing."""

    def step_progressed(self, step: Step, status: TaskStatus) -> None:
        """Say nothing."""

    def step_waiting(self, step: Step, detail: str) -> None:
        """Say nothing."""

    def step_finished(self, step: Step, record: StepRecord) -> None:
        """Say nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionContext:
    """What whoever carries out steps has at hand.

    Attributes:
        platform: Where they are carried out.
        clock: The time.
        store: Where they are recorded.
        limits: What the operator allows.
        observer: Who is told.
        cancellation: How the operator stops it.
        poll_interval: Seconds between two looks.
    """

    platform: Platform
    clock: Clock
    store: Store
    limits: Limits
    observer: ExecutionObserver
    cancellation: CancellationToken
    poll_interval: float = 1.0
