"""The system clock, and timers for cycles and for retries."""

from __future__ import annotations

import time
from datetime import UTC, datetime


class SystemClock:
    """Implementation of `opendrs.ports.Clock` with the time of this machine."""

    def now(self) -> datetime:
        """Return the time, in UTC."""
        return datetime.now(UTC)  # noqa: TID251 - the only clock of the project

    def monotonic(self) -> float:
        """Return the seconds since this machine was started."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait for *seconds*."""
        time.sleep(seconds)  # noqa: TID251 - the only clock of the project


POLL_INTERVAL = 0.5  # seconds between two checks for a stop or a wakeup event


class IntervalTimer:
    """Timer of cycles at a fixed interval, with additional early cycles on request.

    The interval does not drift. Cycles that become due during a long cycle are
    skipped. An early cycle does not shift the others. Times are seconds of the
    monotonic clock.

    Args:
        interval: Seconds between the starts of two cycles.
        now: Time at which the first cycle is due.
    """

    def __init__(self, interval: float, now: float) -> None:
        self._interval = interval
        self._next_due = now
        self._expedited_due: float | None = None

    def remaining(self, now: float) -> float:
        """Return the seconds until the next cycle is due; 0 if it is due now."""
        due = (
            self._next_due
            if self._expedited_due is None
            else min(self._next_due, self._expedited_due)
        )
        return max(0.0, due - now)

    def change_interval(self, interval: float, now: float) -> None:
        """Set the interval; the next cycle is due within it."""
        self._interval = interval
        self._next_due = min(self._next_due, now + interval)

    def start_cycle(self, now: float) -> None:
        """Record that a cycle starts."""
        self._expedited_due = None
        if self._next_due <= now:
            missed = (now - self._next_due) // self._interval
            self._next_due += (missed + 1) * self._interval

    def expedite(self, now: float, seconds: float) -> None:
        """Make the next cycle due within *seconds*; an earlier one stays."""
        requested = now + seconds
        self._expedited_due = (
            requested
            if self._expedited_due is None
            else min(requested, self._expedited_due)
        )


MAX_DELAY = 60.0  # seconds: largest delay between two attempts


class ExponentialBackoff:
    """Delay between retries that doubles with each consecutive failure.

    Times are seconds of the monotonic clock.

    Args:
        initial: Delay in seconds after the first failure.
        timeout: Seconds after the first failure at which no retry remains.
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
        """Return the delay in seconds after the last recorded failure."""
        return self._delay

    def is_waiting(self, now: float) -> bool:
        """Return True if it is too early for the next attempt."""
        return self._failing_since is not None and now < self._retry_at

    def record_failure(self, now: float) -> None:
        """Record a failed attempt."""
        # The exponent is limited: MAX_DELAY is reached long before 2 ** 10.
        self._delay = min(MAX_DELAY, self._initial * 2 ** min(self._failures, 10))
        self._failures += 1
        self._failing_since = (
            now if self._failing_since is None else self._failing_since
        )
        self._retry_at = now + self._delay

    def reset(self) -> None:
        """Record a successful attempt: forget all failures."""
        self._failures = 0
        self._failing_since = None

    def is_exhausted(self, now: float) -> bool:
        """Return True if the attempts have failed for the whole timeout."""
        return self.has_failed_for(self._timeout, now)

    def has_failed_for(self, seconds: float, now: float) -> bool:
        """Return True if the attempts have failed for at least *seconds*."""
        return self._failing_since is not None and now - self._failing_since >= seconds
