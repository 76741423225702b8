"""The time of this machine: the only place in the house that asks for it."""

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
