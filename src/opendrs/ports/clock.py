"""The passing of time."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """The passing of time."""

    def now(self) -> datetime:
        """Return the time: aware, in UTC. The operator may set it at any moment."""

    def monotonic(self) -> float:
        """Return the seconds since some instant; they never decrease.

        Differences are true within one process, whatever happens to `now`. Values
        of two processes cannot be compared.
        """

    def sleep(self, seconds: float) -> None:
        """Return after *seconds*."""
