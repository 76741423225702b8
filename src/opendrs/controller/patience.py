"""How often, and for how long, to ask somebody who does not answer."""

from __future__ import annotations

from datetime import datetime, timedelta

LONGEST_WAIT = 60.0  # seconds between two attempts, however many there were


class Patience:
    """Counts failures in a row; each time it waits twice as long as before.

    Args:
        first: Seconds to wait after the first failure.
        lasting: Seconds after which it is at its end.
    """

    def __init__(self, first: float, lasting: float) -> None:
        self._first = first
        self._lasting = timedelta(seconds=lasting)
        self._failures = 0
        self._pause = 0.0
        self._since: datetime | None = None
        self._last: datetime | None = None
        self._next: datetime | None = None

    @property
    def pause(self) -> float:
        """Return the seconds to wait after the failure that was noted last."""
        return self._pause

    def waits(self, now: datetime) -> bool:
        """Return whether it is too early for the next attempt."""
        if self._last is None or self._next is None:
            return False
        # A clock that was set back must not make anybody wait for hours.
        return self._last <= now < self._next

    def failed(self, now: datetime) -> None:
        """Take note of an attempt that failed."""
        # Beyond 2 ** 10 the longest wait has long been reached.
        self._pause = min(LONGEST_WAIT, self._first * 2 ** min(self._failures, 10))
        self._failures += 1
        self._since = self._begun(now)
        self._last, self._next = now, now + timedelta(seconds=self._pause)

    def succeeded(self) -> None:
        """Take note of an attempt that did not fail: all is forgotten."""
        self._failures = 0
        self._since = self._last = self._next = None

    def exhausted(self, now: datetime) -> bool:
        """Return whether failures have gone on for too long."""
        return self._since is not None and now - self._begun(now) >= self._lasting

    def _begun(self, now: datetime) -> datetime:
        """Return when failures began, by the clock that says *now*."""
        if self._since is None or self._last is None:
            return now
        # Since a clock was set back, no time is known to have passed.
        return self._since - max(self._last - now, timedelta())
