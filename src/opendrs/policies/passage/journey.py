"""Who is to go where."""

from __future__ import annotations

from dataclasses import dataclass, replace

from opendrs.model import Guest, GuestId, Mobility, Move, NodeId
from opendrs.policies.units import moves_of


@dataclass(frozen=True, slots=True)
class Journey:
    """Guests that go to one node together, from one node or several.

    Attributes:
        guests: Who goes; each of them is elsewhere.
        target: Where to.
        why: The reason, in words for the operator.
        value: What it is worth, in any unit; the least valuable is given up first.
    """

    guests: tuple[Guest, ...]
    target: NodeId
    why: str
    value: float = 0.0

    @property
    def name(self) -> GuestId:
        """Return the name of its first guest, which tells it from the others."""
        return self.guests[0].id

    @property
    def memory(self) -> int:
        """Return how many bytes are transferred."""
        return sum(guest.usage.memory or 0 for guest in self.guests)

    @property
    def live(self) -> bool:
        """Return whether nobody must be stopped for it."""
        return all(guest.mobility is Mobility.LIVE for guest in self.guests)

    @property
    def moves(self) -> tuple[Move, ...]:
        """Return what is to be done."""
        return moves_of(self.guests, self.target)

    def by_way_of(self, host: NodeId) -> tuple[Journey, Journey]:
        """Return the detour to *host*, and the journey from there."""
        why = f"waits on {host} until {self.target} has room for it"
        there = tuple(replace(guest, node=host) for guest in self.guests)
        return replace(self, target=host, why=why), replace(self, guests=there)


@dataclass(frozen=True, slots=True)
class Switch:
    """A node that is woken or put to sleep, and why."""

    node: NodeId
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Detours:
    """What may be transferred besides, so that guests wait on a third node.

    Attributes:
        memory: How many bytes.
        moves: How many guests.
    """

    memory: float = float("inf")
    moves: float = float("inf")
