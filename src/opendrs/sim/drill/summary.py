"""What became of the guests in a drill, in figures."""

from __future__ import annotations

from dataclasses import dataclass

from opendrs.ha.identifiers import ServiceId
from opendrs.model import NodeId
from opendrs.sim.drill.history import RECOVER, History
from opendrs.sim.drill.naming import Names

UNREST = 60  # seconds; whatever happens so shortly before the end goes on


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestFigures:
    """What became of a guest.

    Attributes:
        guest: Its name.
        first: Where it was first; None when it never ran.
        last: Where it runs at the end; None when it does not.
        wanted: Whether it is to run at the end.
        downtime: Seconds in which it should have run again and did not.
        moves: How often it got to another node.
    """

    guest: str
    first: NodeId | None
    last: NodeId | None
    wanted: bool
    downtime: int
    moves: int

    @property
    def is_down(self) -> bool:
        """Return whether it does not run at the end, and should."""
        return self.wanted and self.last is None


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveFigures:
    """A guest that got to another node: migrate, relocate or recover."""

    time: int
    guest: str
    source: NodeId
    target: NodeId
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A drill in figures.

    Attributes:
        guests: What became of each guest, the longest down first.
        fencings: When which node was fenced.
        moves: Who moved, in order.
        rest: When the last thing happened, in seconds.
        end: When the drill ended.
        failure: Why it could not go on; None if it came to its end.
    """

    guests: tuple[GuestFigures, ...]
    fencings: tuple[tuple[int, NodeId], ...]
    moves: tuple[MoveFigures, ...]
    rest: int
    end: int
    failure: str | None

    @property
    def at_rest(self) -> bool:
        """Return whether nothing happened any more for a while at the end."""
        return self.end - self.rest > UNREST

    @property
    def recoveries(self) -> int:
        """Return how often a guest was recovered from a fenced node."""
        return sum(move.how == RECOVER for move in self.moves)


def summary_of(history: History, names: Names, failure: str | None) -> Summary:
    """Return the figures of a drill.

    Args:
        history: What became of everything in it.
        names: What guests and nodes are called there.
        failure: Why it could not go on, if so.
    """
    counts: dict[ServiceId, int] = {}
    for move in history.moves:
        counts[move.service] = counts.get(move.service, 0) + 1
    figures = [
        _figures(history, service, names, counts.get(service, 0))
        for service in history.lives
    ]
    return Summary(
        guests=tuple(sorted(figures, key=_most_affected_first)),
        fencings=tuple(
            sorted(
                (time, names.node(node))
                for node, times in history.fencings.items()
                for time in times
            )
        ),
        moves=tuple(
            MoveFigures(
                time=move.time,
                guest=names.guest(move.service),
                source=names.node(move.source),
                target=names.node(move.target),
                how=move.how,
            )
            for move in history.moves
        ),
        rest=history.rest,
        end=history.end,
        failure=failure,
    )


def _figures(
    history: History, service: ServiceId, names: Names, moves: int
) -> GuestFigures:
    life = history.lives[service]
    first = next((mark.node for mark in life.marks if mark.node is not None), None)
    last = life.last.node
    return GuestFigures(
        guest=names.guest(service),
        first=None if first is None else names.node(first),
        last=None if last is None else names.node(last),
        wanted=life.last.wanted,
        downtime=life.downtime(history.end),
        moves=moves,
    )


def _most_affected_first(figures: GuestFigures) -> tuple[bool, int, int, str]:
    return (not figures.is_down, -figures.downtime, -figures.moves, figures.guest)
