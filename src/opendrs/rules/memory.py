"""Available and required memory: measured and committed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from opendrs.model import Guest, Limits, Node, NodeId, Snapshot


@dataclass(frozen=True, slots=True)
class AvailableMemory:
    """Memory available on a node, or required by a guest; in bytes.

    Attributes:
        measured: By measured use; None if something was not measured.
        committed: By the limits of the guests, or by the use of a guest without a
            limit; None if neither is known.
    """

    measured: float | None
    committed: float | None

    def minus(self, required: AvailableMemory) -> AvailableMemory:
        """Return the difference; negative if *required* does not fit."""
        return AvailableMemory(
            _difference(self.measured, required.measured),
            _difference(self.committed, required.committed),
        )

    def plus(self, freed: AvailableMemory, maximum: AvailableMemory) -> AvailableMemory:
        """Return the sum with *freed*, at most *maximum*.

        A guest may seem to use more memory than its node, because of sampling.
        """
        return AvailableMemory(
            _minimum(_sum(self.measured, freed.measured), maximum.measured),
            _minimum(_sum(self.committed, freed.committed), maximum.committed),
        )


def available_memory(
    snapshot: Snapshot, limits: Limits
) -> dict[NodeId, AvailableMemory]:
    """Return the available memory of each node.

    A migrating guest counts on its target in full.
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
    """Return the available memory of *node* if it had no guests."""
    if node.capacity is None:
        return AvailableMemory(None, None)
    memory = node.capacity.memory
    return AvailableMemory(
        memory * (1 - limits.memory_headroom), memory * limits.memory_overcommit
    )


def required_memory(guests: Iterable[Guest]) -> AvailableMemory:
    """Return the memory that *guests* require on a node."""
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
