"""One turn of a process: what it sees, and what it has brought about so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from opendrs.ha import events
from opendrs.ha.commands import (
    AcquireLock,
    CloseWatchdog,
    Command,
    FeedWatchdog,
    ReleaseLock,
)
from opendrs.ha.events.event import Event
from opendrs.ha.locks import (
    Lock,
    is_newly_acquired,
    is_released,
    may_acquire,
)
from opendrs.ha.observation import Observation

ATTEMPTS = 6  # how often a process asks for its own lock within a turn

StatusT = TypeVar("StatusT")
Effect = Event | Command


@dataclass(frozen=True, slots=True)
class Outcome(Generic[StatusT]):
    """What came of a turn.

    Attributes:
        status: The process from now on.
        effects: What happened and what is to be done, in their order.
        exits: Whether the process ends.
        delay: Seconds the turn took or waited.
        failure: Why the process failed; None if it did not.
    """

    status: StatusT
    effects: tuple[Effect, ...]
    exits: bool = False
    delay: int = 0
    failure: str | None = None


class Turn:
    """What a process brings about in one turn, as it goes along.

    Local to one turn: it is made from an observation, and its effects are all
    that is left of it.
    """

    def __init__(self, seen: Observation) -> None:
        self.seen = seen
        self.effects: list[Effect] = []
        self.delay = 0
        self._locks: dict[str, Lock | None] = {}

    @property
    def now(self) -> int:
        """Return the time of the turn."""
        return self.seen.now

    def say(self, event: Event) -> None:
        """Tell that something happened."""
        self.effects.append(event)

    def do(self, command: Command) -> None:
        """Have something done."""
        self.effects.append(command)

    def wait(self, seconds: int) -> None:
        """Wait some time."""
        self.delay += seconds

    def wait_until(self, seconds: int) -> None:
        """Wait until the turn has taken *seconds* in all."""
        self.delay = max(self.delay, seconds)

    def acquire(self, name: str) -> bool:
        """Take or renew a lock, and return whether that worked."""
        self.wait(1)
        lock = self._lock(name)
        if not self.seen.quorate or not may_acquire(lock, self.seen.node, self.now):
            return False
        self._locks[name] = Lock(self.seen.node, self.now)
        self.do(AcquireLock(name))
        if is_newly_acquired(lock, self.now):
            self.say(events.LockTaken(name))
        return True

    def acquire_own(self, name: str) -> bool:
        """Take or renew the lock of this process, which it asks for patiently.

        Nothing changes within a turn, so patience only takes time.
        """
        if self.acquire(name):
            return True
        self.wait(2 * (ATTEMPTS - 1))
        return False

    def release(self, name: str) -> bool:
        """Give a lock back, and return whether that worked."""
        lock = self._lock(name)
        if not self.seen.quorate or not is_released(lock, self.seen.node, self.now):
            return False
        if lock is not None and not lock.expired(self.now):
            self._locks[name] = None
            self.do(ReleaseLock(name))
        return True

    def feed_watchdog(self) -> None:
        """Keep the watchdog from biting."""
        self.do(FeedWatchdog())

    def close_watchdog(self) -> None:
        """Let go of the watchdog."""
        self.do(CloseWatchdog())

    def _lock(self, name: str) -> Lock | None:
        if name in self._locks:
            return self._locks[name]
        return self.seen.locks.get(name)
