"""Time that passes only when somebody waits for it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from opendrs.ports import Clock

SATURDAY_NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


class SimulatedClock:
    """A clock that jumps.

    Args:
        start: What time it is at first; aware.
        pace: Real seconds to wait for each simulated one, so that people can
            watch; 0 to wait for none.
        real: What to wait with when *pace* is more than 0.
    """

    def __init__(
        self,
        start: datetime = SATURDAY_NOON,
        pace: float = 0.0,
        real: Clock | None = None,
    ) -> None:
        self._now = start
        self._passed = 0.0
        self._pace = pace
        self._real = real

    def now(self) -> datetime:
        """Return the simulated time."""
        return self._now

    def monotonic(self) -> float:
        """Return the simulated seconds that have passed."""
        return self._passed

    def jump(self, seconds: float) -> None:
        """Set the clock forward by *seconds*, or back if negative; no time passes."""
        self._now += timedelta(seconds=seconds)

    def sleep(self, seconds: float) -> None:
        """Let *seconds* pass."""
        if self._real is not None and self._pace > 0:
            self._real.sleep(seconds * self._pace)
        self._now += timedelta(seconds=seconds)
        self._passed += seconds
