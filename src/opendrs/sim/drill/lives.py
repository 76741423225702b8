"""What became of a service: when it ran and where, and when it was down."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter

from opendrs.ha.states import ServiceState
from opendrs.model import NodeId


@dataclass(frozen=True, slots=True)
class Mark:
    """How things stand with a service from a time on.

    Attributes:
        time: From when, in seconds.
        node: Where it runs; None when it does not.
        wanted: Whether it is to run.
        state: What the manager thinks of it; None when it does not know it.
    """

    time: int
    node: NodeId | None
    wanted: bool
    state: ServiceState | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """A time, and where a service ran; None where it was down.

    Attributes:
        begin: Its beginning, in seconds.
        end: Its end.
        node: Where the service ran.
    """

    begin: int
    end: int
    node: NodeId | None

    @property
    def length(self) -> int:
        """Return how long it lasted."""
        return self.end - self.begin


@dataclass(frozen=True, slots=True)
class Life:
    """What became of a service.

    Attributes:
        marks: How things stood with it, in order of time.
    """

    marks: tuple[Mark, ...]

    def at(self, time: int) -> Mark:
        """Return how things stood after all that happened at *time*."""
        index = bisect_right(self.marks, time, key=attrgetter("time"))
        return self.marks[max(0, index - 1)]

    @property
    def last(self) -> Mark:
        """Return how things stood at the end."""
        return self.marks[-1]

    def spans(self, end: int) -> Iterator[Span]:
        """Yield when it ran and where, and when it should have, until *end*.

        Only a service that ran once can be down.
        """
        ran = False
        open_: Span | None = None
        for mark in self.marks:
            if mark.time > end:
                break
            ran = ran or mark.node is not None
            counts = mark.node is not None or (mark.wanted and ran)
            if open_ is not None and counts and open_.node == mark.node:
                continue
            if open_ is not None and mark.time > open_.begin:
                yield Span(open_.begin, mark.time, open_.node)
            open_ = Span(mark.time, end, mark.node) if counts else None
        if open_ is not None and open_.begin < end:
            yield open_

    def downtime(self, end: int) -> int:
        """Return for how many seconds until *end* it was down."""
        return sum(span.length for span in self.spans(end) if span.node is None)
