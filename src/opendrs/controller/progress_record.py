"""Progress of the running migrations, recorded for other processes."""

from __future__ import annotations

from typing import Any

from opendrs.controller.observers import NullControllerObserver
from opendrs.controller.status import PROGRESS_KEY
from opendrs.model import Step, StepId, format_timestamp
from opendrs.ports import Clock, StepRecord, Store, TaskStatus

RECORD_INTERVAL = 1.0  # seconds between two records


class ProgressRecorder(NullControllerObserver):
    """Controller observer that records the progress, at most once a second.

    Args:
        clock: The time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._store: Store | None = None
        self._steps: dict[StepId, dict[str, Any]] = {}
        self._recorded_at: float | None = None
        self._is_changed = False

    def lease_acquired(self, store: Store) -> None:
        """Keep the store."""
        self._store = store

    def step_progressed(self, step: Step, status: TaskStatus) -> None:
        """Keep the progress that the platform reports."""
        found = status.progress
        if found is None:
            return
        self._steps[step.id] = {
            "step": step.id,
            "total": found.total,
            "remaining": found.remaining,
            "dirty_rate": found.dirty_rate,
            "bandwidth": found.bandwidth,
            "at": format_timestamp(self._clock.now()),
        }
        self._is_changed = True

    def step_finished(self, step: Step, record: StepRecord) -> None:
        """Forget the progress."""
        del record
        self._is_changed |= self._steps.pop(step.id, None) is not None

    def steps_polled(self) -> None:
        """Record what has changed, unless that was done within the last second."""
        now = self._clock.monotonic()
        early = (
            self._recorded_at is not None and now - self._recorded_at < RECORD_INTERVAL
        )
        if self._store is None or not self._is_changed or early:
            return
        self._store.save(PROGRESS_KEY, {"steps": list(self._steps.values())})
        self._recorded_at, self._is_changed = now, False
