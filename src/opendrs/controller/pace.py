"""When the next cycle is due."""

from __future__ import annotations

from datetime import datetime, timedelta

NAP = 0.5  # seconds after which whoever waits looks up


class Pace:
    """Cycles at a fixed pace, and earlier when asked for.

    The pace does not drift: a cycle that takes long leaves out those that should
    have been meanwhile, and one that comes early changes nothing for the others. A
    clock that is set back makes nobody wait longer; one that is set forward lets
    the next cycle begin at once.

    Args:
        interval: Seconds from one cycle to the next.
        now: When the first is due.
    """

    def __init__(self, interval: float, now: datetime) -> None:
        self._interval = timedelta(seconds=interval)
        self._tick = now
        self._early: datetime | None = None
        self._seen = now

    def left(self, now: datetime) -> float:
        """Return the seconds until the next cycle is due; 0 when it is."""
        self._notice(now)
        due = self._tick if self._early is None else min(self._tick, self._early)
        return max(0.0, (due - now).total_seconds())

    def begun(self, now: datetime) -> None:
        """Take note that a cycle begins."""
        self._notice(now)
        self._early = None
        if self._tick <= now:
            missed = (now - self._tick) // self._interval
            self._tick += (missed + 1) * self._interval

    def hasten(self, now: datetime, seconds: float) -> None:
        """Let the next cycle be due in *seconds* at the latest."""
        self._notice(now)
        asked = now + timedelta(seconds=seconds)
        self._early = asked if self._early is None else min(asked, self._early)

    def _notice(self, now: datetime) -> None:
        """Go along with a clock that was set back."""
        if now < self._seen:
            back = self._seen - now
            self._tick -= back
            self._early = None if self._early is None else self._early - back
        self._seen = now
