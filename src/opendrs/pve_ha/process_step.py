"""One turn of a process: what it sees, and what it has brought about so far."""

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

LOCK_ATTEMPTS = 6  # how often a process asks for its own lock within a turn

ProcessT = TypeVar("ProcessT")
StepOutput = LogEvent | Effect


@dataclass(frozen=True, slots=True)
class StepResult(Generic[ProcessT]):
    """What came of a turn.

    Attributes:
        process: The process from now on.
        outputs: What happened and what is to be done, in their order.
        exits: Whether the process ends.
        delay: Seconds the turn took or waited.
        failure: Why the process failed; None if it did not.
    """

    process: ProcessT
    outputs: tuple[StepOutput, ...]
    exits: bool = False
    delay: int = 0
    failure: str | None = None


class ProcessStep:
    """What a process brings about in one turn, as it goes along.

    Local to one turn: it is made from an observation, and its effects are all
    that is left of it.
    """

    def __init__(self, observation: ProcessObservation) -> None:
        self.observation = observation
        self.outputs: list[StepOutput] = []
        self.delay = 0
        self._locks: dict[str, ClusterLock | None] = {}

    @property
    def now(self) -> int:
        """Return the time of the turn."""
        return self.observation.now

    def log(self, event: LogEvent) -> None:
        """Tell that something happened."""
        self.outputs.append(event)

    def emit(self, effect: Effect) -> None:
        """Have something done."""
        self.outputs.append(effect)

    def wait(self, seconds: int) -> None:
        """Wait some time."""
        self.delay += seconds

    def wait_until(self, seconds: int) -> None:
        """Wait until the turn has taken *seconds* in all."""
        self.delay = max(self.delay, seconds)

    def acquire_lock(self, name: str) -> bool:
        """Take or renew a lock, and return whether that worked."""
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
        """Take or renew the lock of this process, which it asks for patiently.

        Nothing changes within a turn, so patience only takes time.
        """
        if self.acquire_lock(name):
            return True
        self.wait(2 * (LOCK_ATTEMPTS - 1))
        return False

    def release_lock(self, name: str) -> bool:
        """Give a lock back, and return whether that worked."""
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
        """Keep the watchdog from biting."""
        self.emit(FeedWatchdog())

    def close_watchdog(self) -> None:
        """Let go of the watchdog."""
        self.emit(CloseWatchdog())

    def _lock(self, name: str) -> ClusterLock | None:
        if name in self._locks:
            return self._locks[name]
        return self.observation.locks.get(name)
