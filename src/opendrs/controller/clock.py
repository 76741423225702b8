"""The system clock, and timers for cycles and for retries."""

from __future__ import annotations

import time
from datetime import UTC, datetime


class SystemClock:
    """The time of this machine, as `opendrs.ports.Clock`."""

    def now(self) -> datetime:
        """Return the time, in UTC."""
        return datetime.now(UTC)  # noqa: TID251 - this is the Clock to take it from

    def monotonic(self) -> float:
        """Return the seconds since this machine was started."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait for *seconds*."""
        time.sleep(seconds)  # noqa: TID251 - this is the Clock to wait with


POLL_INTERVAL = 0.5  # seconds after which whoever waits looks up


class IntervalTimer:
    """Cycles at a fixed pace, and earlier when asked for.

    The pace does not drift: a cycle that takes long leaves out those that should
    have been meanwhile, and one that comes early changes nothing for the others.
    Times are seconds of the monotonic clock.

    Args:
        interval: Seconds from one cycle to the next.
        now: When the first is due.
    """

    def __init__(self, interval: float, now: float) -> None:
        self._interval = interval
        self._next_due = now
        self._expedited_due: float | None = None

    def remaining(self, now: float) -> float:
        """Return the seconds until the next cycle is due; 0 when it is."""
        due = (
            self._next_due
            if self._expedited_due is None
            else min(self._next_due, self._expedited_due)
        )
        return max(0.0, due - now)

    def start_cycle(self, now: float) -> None:
        """Take note that a cycle begins."""
        self._expedited_due = None
        if self._next_due <= now:
            missed = (now - self._next_due) // self._interval
            self._next_due += (missed + 1) * self._interval

    def expedite(self, now: float, seconds: float) -> None:
        """Let the next cycle be due in *seconds* at the latest."""
        requested = now + seconds
        self._expedited_due = (
            requested
            if self._expedited_due is None
            else min(requested, self._expedited_due)
        )


MAX_DELAY = 60.0  # seconds between two attempts, however many there were


class ExponentialBackoff:
    """Counts failures in a row; each time it waits twice as long as before.

    Times are seconds of the monotonic clock.

    Args:
        initial: Seconds to wait after the first failure.
        timeout: Seconds after which it is at its end.
    """

    def __init__(self, initial: float, timeout: float) -> None:
        self._initial = initial
        self._timeout = timeout
        self._failures = 0
        self._delay = 0.0
        self._failing_since: float | None = None
        self._retry_at = 0.0

    @property
    def delay(self) -> float:
        """Return the seconds to wait after the failure that was noted last."""
        return self._delay

    def is_waiting(self, now: float) -> bool:
        """Return whether it is too early for the next attempt."""
        return self._failing_since is not None and now < self._retry_at

    def record_failure(self, now: float) -> None:
        """Take note of an attempt that failed."""
        # Beyond 2 ** 10 the longest wait has long been reached.
        self._delay = min(MAX_DELAY, self._initial * 2 ** min(self._failures, 10))
        self._failures += 1
        self._failing_since = (
            now if self._failing_since is None else self._failing_since
        )
        self._retry_at = now + self._delay

    def reset(self) -> None:
        """Take note of an attempt that did not fail: all is forgotten."""
        self._failures = 0
        self._failing_since = None

    def is_exhausted(self, now: float) -> bool:
        """Return whether failures have gone on for too long."""
        return (
            self._failing_since is not None
            and now - self._failing_since >= self._timeout
        )
