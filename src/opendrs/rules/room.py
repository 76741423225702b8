"""How much memory a node can still take in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from opendrs.model import Guest, Limits, Node, NodeId, Snapshot


@dataclass(frozen=True, slots=True)
class Room:
    """Memory of a node that is free, or what a guest asks of it; in bytes.

    Attributes:
        used: By measured use; None when something was not measured.
        promised: By the limits of the guests, or by the use of one without a
            limit; None when neither is known.
    """

    used: float | None
    promised: float | None

    def minus(self, need: Room) -> Room:
        """Return what is left once *need* is met; less than 0 if it is not."""
        return Room(
            _difference(self.used, need.used),
            _difference(self.promised, need.promised),
        )

    def plus(self, freed: Room, most: Room) -> Room:
        """Return the room once *freed* is free again, and never above *most*.

        A guest may seem to use more than the node it leaves.
        """
        return Room(
            _least(_sum(self.used, freed.used), most.used),
            _least(_sum(self.promised, freed.promised), most.promised),
        )


def room(snapshot: Snapshot, limits: Limits) -> dict[NodeId, Room]:
    """Return the room of every node.

    A guest on the way to a node already takes its room there.
    """
    arriving: dict[NodeId, float | None] = dict.fromkeys(snapshot.nodes, 0.0)
    promised = dict(arriving)
    for guest in snapshot.guests.values():
        asked = _promised(guest)
        for where in guest.locations:
            promised[where] = _sum(promised[where], asked)
            if where != guest.node:
                arriving[where] = _sum(arriving[where], guest.usage.memory)
    return {
        name: room_when_empty(node, limits).minus(
            Room(_sum(node.usage.memory, arriving[name]), promised[name])
        )
        for name, node in snapshot.nodes.items()
    }


def room_when_empty(node: Node, limits: Limits) -> Room:
    """Return the room that *node* would have if nothing of it were in use."""
    if node.capacity is None:
        return Room(None, None)
    memory = node.capacity.memory
    return Room(
        memory * (1 - limits.memory_headroom), memory * limits.memory_overbooking
    )


def need(guests: Iterable[Guest]) -> Room:
    """Return the room that *guests* ask of a node."""
    used: float | None = 0.0
    promised: float | None = 0.0
    for guest in guests:
        used = _sum(used, guest.usage.memory)
        promised = _sum(promised, _promised(guest))
    return Room(used, promised)


def _promised(guest: Guest) -> float | None:
    if guest.limit is None or guest.limit.memory == 0:
        return guest.usage.memory
    return guest.limit.memory


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def _difference(whole: float | None, part: float | None) -> float | None:
    return None if whole is None or part is None else whole - part


def _least(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else min(one, other)
