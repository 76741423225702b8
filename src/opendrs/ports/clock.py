"""The passing of time."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """The passing of time."""

    def now(self) -> datetime:
        """Return the time: aware, in UTC."""

    def sleep(self, seconds: float) -> None:
        """Return after *seconds*."""
