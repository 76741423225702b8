"""Observer of a controller that records its status for other processes."""

from __future__ import annotations

import os
import socket

from opendrs import __version__
from opendrs.controller.cycle import CycleResult
from opendrs.controller.observers import NullControllerObserver
from opendrs.controller.status import CONTROLLER_KEY, CYCLE_KEY, FAILED
from opendrs.errors import PlatformError
from opendrs.model import time_as_text
from opendrs.ports import Clock, Store


class StatusRecorder(NullControllerObserver):
    """Controller observer that records the status in the store.

    Args:
        clock: The time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._store: Store | None = None
        self._started_at = clock.now()

    def lease_acquired(self, store: Store) -> None:
        """Keep the store."""
        self._store, self._started_at = store, self._clock.now()

    def configured(self, policy: str, interval: float) -> None:
        """Record the process and its configuration."""
        self._save(
            CONTROLLER_KEY,
            {
                "host": socket.gethostname(),
                "pid": os.getpid(),
                "version": __version__,
                "started_at": time_as_text(self._started_at),
                "policy": policy,
                "interval": interval,
            },
        )

    def cycle_finished(self, result: CycleResult, seconds: float) -> None:
        """Record the decision."""
        if result.decided is not None:
            decision = result.decided.decision
            self._save_cycle(
                seconds,
                decision.reason.value,
                decision.detail,
                len(decision.plan.steps),
                result.decided.policy.name,
            )

    def cycle_failed(self, error: PlatformError, seconds: float) -> None:
        """Record the error."""
        self._save_cycle(seconds, FAILED, str(error), 0)

    def _save_cycle(
        self, seconds: float, reason: str, detail: str, steps: int, policy: str = ""
    ) -> None:
        self._save(
            CYCLE_KEY,
            {
                "ended_at": time_as_text(self._clock.now()),
                "seconds": seconds,
                "reason": reason,
                "detail": detail,
                "steps": steps,
                "policy": policy,
            },
        )

    def _save(self, key: str, value: dict[str, object]) -> None:
        if self._store is not None:
            self._store.save(key, value)
