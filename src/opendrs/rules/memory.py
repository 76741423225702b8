"""Available and required memory: measured and committed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from opendrs.model import Guest, Limits, Node, NodeId, Snapshot


@dataclass(frozen=True, slots=True)
class AvailableMemory:
    """Memory of a node that is free, or what a guest asks of it; in bytes.

    Attributes:
        measured: By measured use; None when something was not measured.
        committed: By the limits of the guests, or by the use of one without a
            limit; None when neither is known.
    """

    measured: float | None
    committed: float | None

    def minus(self, required: AvailableMemory) -> AvailableMemory:
        """Return what is left once *required* is met; less than 0 if it is not."""
        return AvailableMemory(
            _difference(self.measured, required.measured),
            _difference(self.committed, required.committed),
        )

    def plus(self, freed: AvailableMemory, maximum: AvailableMemory) -> AvailableMemory:
        """Return the room once *freed* is free again, and never above *maximum*.

        A guest may seem to use more than the node it leaves.
        """
        return AvailableMemory(
            _minimum(_sum(self.measured, freed.measured), maximum.measured),
            _minimum(_sum(self.committed, freed.committed), maximum.committed),
        )


def available_memory(
    snapshot: Snapshot, limits: Limits
) -> dict[NodeId, AvailableMemory]:
    """Return the room of every node.

    A guest on the way to a node already takes its room there.
    """
    arriving: dict[NodeId, float | None] = dict.fromkeys(snapshot.nodes, 0.0)
    committed = dict(arriving)
    for guest in snapshot.guests.values():
        guest_memory = _committed_memory(guest)
        for node_id in guest.occupied_nodes:
            committed[node_id] = _sum(committed[node_id], guest_memory)
            if node_id != guest.node:
                arriving[node_id] = _sum(arriving[node_id], guest.usage.memory)
    return {
        name: usable_memory(node, limits).minus(
            AvailableMemory(_sum(node.usage.memory, arriving[name]), committed[name])
        )
        for name, node in snapshot.nodes.items()
    }


def usable_memory(node: Node, limits: Limits) -> AvailableMemory:
    """Return the room that *node* would have if nothing of it were in use."""
    if node.capacity is None:
        return AvailableMemory(None, None)
    memory = node.capacity.memory
    return AvailableMemory(
        memory * (1 - limits.memory_headroom), memory * limits.memory_overcommit
    )


def required_memory(guests: Iterable[Guest]) -> AvailableMemory:
    """Return the room that *guests* ask of a node."""
    measured: float | None = 0.0
    committed: float | None = 0.0
    for guest in guests:
        measured = _sum(measured, guest.usage.memory)
        committed = _sum(committed, _committed_memory(guest))
    return AvailableMemory(measured, committed)


def _committed_memory(guest: Guest) -> float | None:
    if guest.limit is None or guest.limit.memory == 0:
        return guest.usage.memory
    return guest.limit.memory


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def _difference(whole: float | None, part: float | None) -> float | None:
    return None if whole is None or part is None else whole - part


def _minimum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else min(one, other)
