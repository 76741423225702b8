"""Timeline of a service: intervals in which it ran and was down."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter

from opendrs.model import NodeId
from opendrs.pve_ha.states import ServiceState


@dataclass(frozen=True, slots=True)
class TimelinePoint:
    """State of a service from a time on.

    Attributes:
        time: Start of this state, in seconds.
        node: Node on which it runs; None if it does not run.
        should_run: True if it should run.
        state: State in the manager status; None if the manager does not know it.
    """

    time: int
    node: NodeId | None
    should_run: bool
    state: ServiceState | None = None


@dataclass(frozen=True, slots=True)
class ServiceInterval:
    """Interval in which a service ran on one node, or was down.

    Attributes:
        start: Start in seconds.
        end: End in seconds.
        node: Node of the service; None if it was down.
    """

    start: int
    end: int
    node: NodeId | None

    @property
    def duration(self) -> int:
        """Return the duration in seconds."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class ServiceTimeline:
    """Timeline of a service.

    Attributes:
        points: States in order of time.
    """

    points: tuple[TimelinePoint, ...]

    def at(self, time: int) -> TimelinePoint:
        """Return the state after all events at *time*."""
        index = bisect_right(self.points, time, key=attrgetter("time"))
        return self.points[max(0, index - 1)]

    @property
    def last(self) -> TimelinePoint:
        """Return the last state."""
        return self.points[-1]

    def intervals(self, end: int) -> Iterator[ServiceInterval]:
        """Yield the intervals until *end* in which it ran or was down.

        A service can be down only after it has run once.
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
        """Return the seconds until *end* in which it was down."""
        return sum(
            interval.duration
            for interval in self.intervals(end)
            if interval.node is None
        )
