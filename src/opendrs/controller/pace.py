"""When the next cycle is due."""

from __future__ import annotations

NAP = 0.5  # seconds after which whoever waits looks up


class Pace:
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
        self._tick = now
        self._early: float | None = None

    def left(self, now: float) -> float:
        """Return the seconds until the next cycle is due; 0 when it is."""
        due = self._tick if self._early is None else min(self._tick, self._early)
        return max(0.0, due - now)

    def begun(self, now: float) -> None:
        """Take note that a cycle begins."""
        self._early = None
        if self._tick <= now:
            missed = (now - self._tick) // self._interval
            self._tick += (missed + 1) * self._interval

    def hasten(self, now: float, seconds: float) -> None:
        """Let the next cycle be due in *seconds* at the latest."""
        asked = now + seconds
        self._early = asked if self._early is None else min(asked, self._early)
