"""Simulated clock: time passes only during `sleep`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from opendrs.ports import Clock

SATURDAY_NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


class SimulatedClock:
    """Clock whose time advances only by `sleep` and `jump`.

    Args:
        start: Initial time; aware.
        time_scale: Real seconds to wait for each simulated second, so that a run can
            be watched; 0 to wait for none.
        wall_clock: Real clock to wait with if *time_scale* is more than 0.
    """

    def __init__(
        self,
        start: datetime = SATURDAY_NOON,
        time_scale: float = 0.0,
        wall_clock: Clock | None = None,
    ) -> None:
        self._now = start
        self._elapsed = 0.0
        self._time_scale = time_scale
        self._wall_clock = wall_clock

    def now(self) -> datetime:
        """Return the simulated time."""
        return self._now

    def monotonic(self) -> float:
        """Return the simulated seconds since the start."""
        return self._elapsed

    def jump(self, seconds: float) -> None:
        """Set the clock forward by *seconds*, or back if negative; no time passes."""
        self._now += timedelta(seconds=seconds)

    def sleep(self, seconds: float) -> None:
        """Let *seconds* pass."""
        if self._wall_clock is not None and self._time_scale > 0:
            self._wall_clock.sleep(seconds * self._time_scale)
        self._now += timedelta(seconds=seconds)
        self._elapsed += seconds
