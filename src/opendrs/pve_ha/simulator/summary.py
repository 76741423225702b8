"""Figures of a drill for each guest and in total."""

from __future__ import annotations

from dataclasses import dataclass

from opendrs.model import NodeId
from opendrs.pve_ha.simulator.history import RECOVER, DrillHistory
from opendrs.pve_ha.simulator.pve_names import PveNames
from opendrs.pve_ha.states import ServiceId

SETTLE_MARGIN = 60  # seconds without events before the end of a settled drill


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestSummary:
    """Figures of a guest.

    Attributes:
        guest: Its name.
        first: First node; None if it never ran.
        last: Node at the end; None if it does not run.
        should_run: True if it should run at the end.
        downtime: Seconds in which it should have run again and did not.
        moves: Arrivals on another node.
    """

    guest: str
    first: NodeId | None
    last: NodeId | None
    should_run: bool
    downtime: int
    moves: int

    @property
    def is_down(self) -> bool:
        """Return True if it does not run at the end although it should."""
        return self.should_run and self.last is None


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveSummary:
    """Arrival of a guest on another node; *how* is migrate, relocate or recover."""

    time: int
    guest: str
    source: NodeId
    target: NodeId
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillSummary:
    """Figures of a drill.

    Attributes:
        guests: Figures of each guest, in decreasing order of downtime; guests that are
            down at the end come first.
        fencings: Time and node of each fencing.
        moves: Moves, in order.
        settled_at: Time of the last event, in seconds.
        ended_at: End of the drill, in seconds.
        failure: Error that ended the drill; None if it finished.
    """

    guests: tuple[GuestSummary, ...]
    fencings: tuple[tuple[int, NodeId], ...]
    moves: tuple[MoveSummary, ...]
    settled_at: int
    ended_at: int
    failure: str | None

    @property
    def is_settled(self) -> bool:
        """Return True if there were no events for a while before the end."""
        return self.ended_at - self.settled_at > SETTLE_MARGIN

    @property
    def recoveries(self) -> int:
        """Return the number of recoveries from fenced nodes."""
        return sum(move.how == RECOVER for move in self.moves)


def summarize_drill(
    history: DrillHistory, names: PveNames, failure: str | None
) -> DrillSummary:
    """Return the figures of a drill.

    Args:
        history: Its history.
        names: Names of guests and nodes.
        failure: Error that ended the drill; None if it finished.
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
