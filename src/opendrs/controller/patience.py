"""How often, and for how long, to ask somebody who does not answer."""

from __future__ import annotations

LONGEST_WAIT = 60.0  # seconds between two attempts, however many there were


class Patience:
    """Counts failures in a row; each time it waits twice as long as before.

    Times are seconds of the monotonic clock.

    Args:
        first: Seconds to wait after the first failure.
        lasting: Seconds after which it is at its end.
    """

    def __init__(self, first: float, lasting: float) -> None:
        self._first = first
        self._lasting = lasting
        self._failures = 0
        self._pause = 0.0
        self._since: float | None = None
        self._next = 0.0

    @property
    def pause(self) -> float:
        """Return the seconds to wait after the failure that was noted last."""
        return self._pause

    def waits(self, now: float) -> bool:
        """Return whether it is too early for the next attempt."""
        return self._since is not None and now < self._next

    def failed(self, now: float) -> None:
        """Take note of an attempt that failed."""
        # Beyond 2 ** 10 the longest wait has long been reached.
        self._pause = min(LONGEST_WAIT, self._first * 2 ** min(self._failures, 10))
        self._failures += 1
        self._since = now if self._since is None else self._since
        self._next = now + self._pause

    def succeeded(self) -> None:
        """Take note of an attempt that did not fail: all is forgotten."""
        self._failures = 0
        self._since = None

    def exhausted(self, now: float) -> bool:
        """Return whether failures have gone on for too long."""
        return self._since is not None and now - self._since >= self._lasting
