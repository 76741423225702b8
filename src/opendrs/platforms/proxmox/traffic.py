"""Network traffic of guests, from counters that are read again and again.

The counters are bytes since the start of the process of a guest. They begin again at 0
when it restarts or migrates.

Source:
    `GET /cluster/resources` of Proxmox VE 8 and 9: `netin` and `netout`, which each
    node reports every 10 s.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from opendrs.platforms.proxmox.responses import ResourceRow

MIN_INTERVAL = 20.0  # seconds between two readings; twice the time between reports


@dataclass(slots=True)
class _Readings:
    """Readings of one guest on one node: times and bytes, oldest first."""

    node: str | None
    points: deque[tuple[float, int]] = field(default_factory=deque)


class GuestTraffic:
    """Traffic of the guests of one cluster, averaged over a window."""

    def __init__(self) -> None:
        self._readings: dict[int, _Readings] = {}

    def add(self, rows: Iterable[ResourceRow], now: float, window: float) -> None:
        """Add the counters of running guests, and forget those that are older.

        Args:
            rows: Rows of the guests that run; others are forgotten.
            now: Time of the reading, in seconds of a monotonic clock.
            window: Seconds over which traffic is averaged, at least `MIN_INTERVAL`.
        """
        readings: dict[int, _Readings] = {}
        for row in rows:
            if row.vmid is None or row.netin is None or row.netout is None:
                continue
            total = row.netin + row.netout
            known = self._readings.get(row.vmid)
            if known is None or known.node != row.node or known.points[-1][1] > total:
                known = _Readings(row.node)
            known.points.append((now, total))
            # One point that is older than the window remains, as its beginning.
            while len(known.points) > 2 and now - known.points[1][0] >= max(
                window, MIN_INTERVAL
            ):
                known.points.popleft()
            readings[row.vmid] = known
        self._readings = readings

    @property
    def rates(self) -> Mapping[int, float]:
        """Return bytes per second by number of the guest; absent ones are unknown."""
        found = {}
        for vmid, readings in self._readings.items():
            (start, first), (end, last) = readings.points[0], readings.points[-1]
            if end - start >= MIN_INTERVAL:
                found[vmid] = (last - first) / (end - start)
        return found
