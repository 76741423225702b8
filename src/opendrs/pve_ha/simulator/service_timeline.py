"""What became of a service: when it ran and where, and when it was down."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter

from opendrs.model import NodeId
from opendrs.pve_ha.states import ServiceState


@dataclass(frozen=True, slots=True)
class TimelinePoint:
    """How things stand with a service from a time on.

    Attributes:
        time: From when, in seconds.
        node: Where it runs; None when it does not.
        should_run: Whether it is to run.
        state: What the manager thinks of it; None when it does not know it.
    """

    time: int
    node: NodeId | None
    should_run: bool
    state: ServiceState | None = None


@dataclass(frozen=True, slots=True)
class ServiceInterval:
    """A time, and where a service ran; None where it was down.

    Attributes:
        start: Its beginning, in seconds.
        end: Its end.
        node: Where the service ran.
    """

    start: int
    end: int
    node: NodeId | None

    @property
    def duration(self) -> int:
        """Return how long it lasted."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class ServiceTimeline:
    """What became of a service.

    Attributes:
        points: How things stood with it, in order of time.
    """

    points: tuple[TimelinePoint, ...]

    def at(self, time: int) -> TimelinePoint:
        """Return how things stood after all that happened at *time*."""
        index = bisect_right(self.points, time, key=attrgetter("time"))
        return self.points[max(0, index - 1)]

    @property
    def last(self) -> TimelinePoint:
        """Return how things stood at the end."""
        return self.points[-1]

    def intervals(self, end: int) -> Iterator[ServiceInterval]:
        """Yield when it ran and where, and when it should have, until *end*.

        Only a service that ran once can be down.
        """
        has_run = False
        open_interval: ServiceInterval | None = None
        for point in self.points:
            if point.time > end:
                break
            has_run = has_run or point.node is not None
            counts = point.node is not None or (point.should_run and has_run)
            if (
                open_interval is not None
                and counts
                and open_interval.node == point.node
            ):
                continue
            if open_interval is not None and point.time > open_interval.start:
                yield ServiceInterval(
                    open_interval.start, point.time, open_interval.node
                )
            open_interval = (
                ServiceInterval(point.time, end, point.node) if counts else None
            )
        if open_interval is not None and open_interval.start < end:
            yield open_interval

    def downtime(self, end: int) -> int:
        """Return for how many seconds until *end* it was down."""
        return sum(
            interval.duration
            for interval in self.intervals(end)
            if interval.node is None
        )
