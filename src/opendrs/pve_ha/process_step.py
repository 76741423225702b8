"""One step of a process: its observation and its effects so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from opendrs.pve_ha import log_events
from opendrs.pve_ha.effects import (
    AcquireLock,
    CloseWatchdog,
    Effect,
    FeedWatchdog,
    ReleaseLock,
)
from opendrs.pve_ha.log_events import LogEvent
from opendrs.pve_ha.observation import ProcessObservation
from opendrs.pve_ha.status_files import (
    ClusterLock,
    can_acquire,
    can_release,
    is_newly_acquired,
)

LOCK_ATTEMPTS = 6  # attempts to acquire the own lock in one step

ProcessT = TypeVar("ProcessT")
StepOutput = LogEvent | Effect


@dataclass(frozen=True, slots=True)
class StepResult(Generic[ProcessT]):
    """Result of one step of a process.

    Attributes:
        process: The process after the step.
        outputs: Log events and effects, in order.
        exits: True if the process exits.
        delay: Duration of the step, including waits, in seconds.
        failure: Error that ended the process; None if there was none.
    """

    process: ProcessT
    outputs: tuple[StepOutput, ...]
    exits: bool = False
    delay: int = 0
    failure: str | None = None


class ProcessStep:
    """Effects of one step of a process, collected during the step.

    A step is created from an observation. Only its outputs remain after it.
    """

    def __init__(self, observation: ProcessObservation) -> None:
        self.observation = observation
        self.outputs: list[StepOutput] = []
        self.delay = 0
        self._locks: dict[str, ClusterLock | None] = {}

    @property
    def now(self) -> int:
        """Return the time of the step, in seconds."""
        return self.observation.now

    def log(self, event: LogEvent) -> None:
        """Add a log event."""
        self.outputs.append(event)

    def emit(self, effect: Effect) -> None:
        """Add an effect."""
        self.outputs.append(effect)

    def wait(self, seconds: int) -> None:
        """Extend the step by *seconds*."""
        self.delay += seconds

    def wait_until(self, seconds: int) -> None:
        """Extend the step to at least *seconds* in total."""
        self.delay = max(self.delay, seconds)

    def acquire_lock(self, name: str) -> bool:
        """Acquire or renew a lock and return True on success."""
        self.wait(1)
        lock = self._lock(name)
        if not self.observation.quorate or not can_acquire(
            lock, self.observation.node, self.now
        ):
            return False
        self._locks[name] = ClusterLock(self.observation.node, self.now)
        self.emit(AcquireLock(name))
        if is_newly_acquired(lock, self.now):
            self.log(log_events.LockAcquired(name))
        return True

    def acquire_own_lock(self, name: str) -> bool:
        """Acquire or renew the lock of this process, with retries.

        The observation does not change within a step, so retries only take time.
        """
        if self.acquire_lock(name):
            return True
        self.wait(2 * (LOCK_ATTEMPTS - 1))
        return False

    def release_lock(self, name: str) -> bool:
        """Release a lock and return True on success."""
        lock = self._lock(name)
        if not self.observation.quorate or not can_release(
            lock, self.observation.node, self.now
        ):
            return False
        if lock is not None and not lock.is_expired(self.now):
            self._locks[name] = None
            self.emit(ReleaseLock(name))
        return True

    def feed_watchdog(self) -> None:
        """Update the watchdog."""
        self.emit(FeedWatchdog())

    def close_watchdog(self) -> None:
        """Close the watchdog."""
        self.emit(CloseWatchdog())

    def _lock(self, name: str) -> ClusterLock | None:
        if name in self._locks:
            return self._locks[name]
        return self.observation.locks.get(name)
