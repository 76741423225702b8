"""Protocol of the clock."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """Time, and waiting."""

    def now(self) -> datetime:
        """Return the time in UTC, time zone aware. It jumps when the clock is set."""

    def monotonic(self) -> float:
        """Return the seconds since an arbitrary instant; they never decrease.

        Differences are valid within one process, whatever happens to `now`. Values of
        two processes cannot be compared.
        """

    def sleep(self, seconds: float) -> None:
        """Return after *seconds*."""
