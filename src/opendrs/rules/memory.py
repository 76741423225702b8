"""Available and required resources: measured and committed memory, committed CPU."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from opendrs.model import Guest, Limits, Node, NodeId, Snapshot

MILLICORES = 1000  # per core; whole amounts do not depend on the order of additions
UNLIMITED = 1e12  # millicores of a node whose committed CPU is not limited


@dataclass(frozen=True, slots=True)
class AvailableMemory:
    """Memory and virtual cores available on a node, or required by a guest.

    Attributes:
        measured: By measured use; None if something was not measured.
        committed: By the limits of the guests, or by the use of a guest without a
            limit; None if neither is known.
        millicores: Committed CPU, in the same way.
    """

    measured: float | None
    committed: float | None
    millicores: float | None = UNLIMITED

    @property
    def has_unlimited_cpu(self) -> bool:
        """Return whether the committed CPU of a node is not limited."""
        return self.millicores is not None and self.millicores > UNLIMITED / 2

    def minus(self, required: AvailableMemory) -> AvailableMemory:
        """Return the difference; negative if *required* does not fit."""
        return AvailableMemory(
            _difference(self.measured, required.measured),
            _difference(self.committed, required.committed),
            self.millicores
            if required.millicores is None and self.has_unlimited_cpu
            else _difference(self.millicores, required.millicores),
        )

    def plus(self, freed: AvailableMemory, maximum: AvailableMemory) -> AvailableMemory:
        """Return the sum with *freed*, at most *maximum*.

        A guest may seem to use more memory than its node, because of sampling.
        """
        return AvailableMemory(
            _minimum(_sum(self.measured, freed.measured), maximum.measured),
            _minimum(_sum(self.committed, freed.committed), maximum.committed),
            _minimum(_sum(self.millicores, freed.millicores), maximum.millicores),
        )


def available_memory(
    snapshot: Snapshot, limits: Limits
) -> dict[NodeId, AvailableMemory]:
    """Return the available memory and virtual cores of each node.

    A migrating guest counts on its target in full.
    """
    usable = {
        name: usable_memory(node, limits) for name, node in snapshot.nodes.items()
    }
    limits_cpu = not all(each.has_unlimited_cpu for each in usable.values())
    arriving: dict[NodeId, float | None] = dict.fromkeys(snapshot.nodes, 0.0)
    committed = dict(arriving)
    millicores = dict(arriving)
    for guest in snapshot.guests.values():
        guest_memory = _committed_memory(guest)
        cpu = _committed_millicores(guest) if limits_cpu else 0.0
        for node_id in guest.occupied_nodes:
            committed[node_id] = _sum(committed[node_id], guest_memory)
            if limits_cpu:
                millicores[node_id] = _sum(millicores[node_id], cpu)
            if node_id != guest.node:
                arriving[node_id] = _sum(arriving[node_id], guest.usage.memory)
    return {
        name: usable[name].minus(
            AvailableMemory(
                _sum(node.usage.memory, arriving[name]),
                committed[name],
                millicores[name],
            )
        )
        for name, node in snapshot.nodes.items()
    }


def usable_memory(node: Node, limits: Limits) -> AvailableMemory:
    """Return the available resources of *node* if it had no guests."""
    usable = limits.usable_resources(node)
    if usable is None:
        return AvailableMemory(None, None)
    return AvailableMemory(
        usable.memory,
        usable.committed_memory,
        UNLIMITED
        if usable.committed_cpu is None
        else round(usable.committed_cpu * MILLICORES),
    )


def required_memory(guests: Iterable[Guest]) -> AvailableMemory:
    """Return the memory and virtual cores that *guests* require on a node."""
    measured: float | None = 0.0
    committed: float | None = 0.0
    millicores: float | None = 0.0
    for guest in guests:
        measured = _sum(measured, guest.usage.memory)
        committed = _sum(committed, _committed_memory(guest))
        millicores = _sum(millicores, _committed_millicores(guest))
    return AvailableMemory(measured, committed, millicores)


def _committed_memory(guest: Guest) -> float | None:
    if guest.limit is None or guest.limit.memory == 0:
        return guest.usage.memory
    return guest.limit.memory


def _committed_millicores(guest: Guest) -> float | None:
    cpu = guest.usage.cpu if guest.limit is None else guest.limit.cpu
    if cpu == 0:  # unlimited
        cpu = guest.usage.cpu
    return None if cpu is None else round(cpu * MILLICORES)


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def _difference(whole: float | None, part: float | None) -> float | None:
    return None if whole is None or part is None else whole - part


def _minimum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else min(one, other)
