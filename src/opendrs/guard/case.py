"""What is judged, and on what."""

from __future__ import annotations

from dataclasses import dataclass

from opendrs.model import Guest, Limits, Move, NodeId, Snapshot


@dataclass(frozen=True, slots=True)
class Case:
    """Moves that are to start together, and what they are judged by.

    Attributes:
        moves: The moves; at least one.
        fresh: The cluster as it is now.
        limits: What the operator allows.
    """

    moves: tuple[Move, ...]
    fresh: Snapshot
    limits: Limits

    @property
    def targets(self) -> tuple[NodeId, ...]:
        """Return the nodes that receive guests, each once."""
        return tuple(dict.fromkeys(move.target for move in self.moves))

    @property
    def guests(self) -> tuple[Guest, ...]:
        """Return the guests to be moved, all of which must be in the cluster."""
        return tuple(self.fresh.guests[move.guest] for move in self.moves)

    def bound_for(self, target: NodeId) -> tuple[Guest, ...]:
        """Return the guests on their way to *target*, and those that are to be."""
        moving = {move.guest for move in self.moves if move.target == target}
        return tuple(
            guest
            for guest in self.fresh.guests.values()
            if guest.id in moving or (guest.present and guest.migrating_to == target)
        )
