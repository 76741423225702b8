"""What became of the guests in a drill, in figures."""

from __future__ import annotations

from dataclasses import dataclass

from opendrs.model import NodeId
from opendrs.pve_ha.simulator.history import RECOVER, DrillHistory
from opendrs.pve_ha.simulator.pve_names import PveNames
from opendrs.pve_ha.states import ServiceId

SETTLE_MARGIN = 60  # seconds; whatever happens so shortly before the end goes on


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestSummary:
    """What became of a guest.

    Attributes:
        guest: Its name.
        first: Where it was first; None when it never ran.
        last: Where it runs at the end; None when it does not.
        should_run: Whether it is to run at the end.
        downtime: Seconds in which it should have run again and did not.
        moves: How often it got to another node.
    """

    guest: str
    first: NodeId | None
    last: NodeId | None
    should_run: bool
    downtime: int
    moves: int

    @property
    def is_down(self) -> bool:
        """Return whether it does not run at the end, and should."""
        return self.should_run and self.last is None


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveSummary:
    """A guest that got to another node: migrate, relocate or recover."""

    time: int
    guest: str
    source: NodeId
    target: NodeId
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillSummary:
    """A drill in figures.

    Attributes:
        guests: What became of each guest, the longest down first.
        fencings: When which node was fenced.
        moves: Who moved, in order.
        settled_at: When the last thing happened, in seconds.
        ended_at: When the drill ended.
        failure: Why it could not go on; None if it came to its end.
    """

    guests: tuple[GuestSummary, ...]
    fencings: tuple[tuple[int, NodeId], ...]
    moves: tuple[MoveSummary, ...]
    settled_at: int
    ended_at: int
    failure: str | None

    @property
    def is_settled(self) -> bool:
        """Return whether nothing happened any more for a while at the end."""
        return self.ended_at - self.settled_at > SETTLE_MARGIN

    @property
    def recoveries(self) -> int:
        """Return how often a guest was recovered from a fenced node."""
        return sum(move.how == RECOVER for move in self.moves)


def summarize_drill(
    history: DrillHistory, names: PveNames, failure: str | None
) -> DrillSummary:
    """Return the figures of a drill.

    Args:
        history: What became of everything in it.
        names: What guests and nodes are called there.
        failure: Why it could not go on, if so.
    """
    counts: dict[ServiceId, int] = {}
    for move in history.moves:
        counts[move.service] = counts.get(move.service, 0) + 1
    guests = [
        _guest_summary(history, service, names, counts.get(service, 0))
        for service in history.timelines
    ]
    return DrillSummary(
        guests=tuple(sorted(guests, key=_most_affected_first)),
        fencings=tuple(
            sorted(
                (time, names.node_name(node))
                for node, times in history.fencings.items()
                for time in times
            )
        ),
        moves=tuple(
            MoveSummary(
                time=move.time,
                guest=names.guest_name(move.service),
                source=names.node_name(move.source),
                target=names.node_name(move.target),
                how=move.how,
            )
            for move in history.moves
        ),
        settled_at=history.settled_at,
        ended_at=history.ended_at,
        failure=failure,
    )


def _guest_summary(
    history: DrillHistory, service: ServiceId, names: PveNames, moves: int
) -> GuestSummary:
    timeline = history.timelines[service]
    first = next(
        (point.node for point in timeline.points if point.node is not None), None
    )
    last = timeline.last.node
    return GuestSummary(
        guest=names.guest_name(service),
        first=None if first is None else names.node_name(first),
        last=None if last is None else names.node_name(last),
        should_run=timeline.last.should_run,
        downtime=timeline.downtime(history.ended_at),
        moves=moves,
    )


def _most_affected_first(guest: GuestSummary) -> tuple[bool, int, int, str]:
    return (not guest.is_down, -guest.downtime, -guest.moves, guest.guest)
