"""Reservations: resources of nodes that are kept for guests that will start.

`opendrs place --reserve` stores a reservation as state of the operator. Until it
expires, each of its guests counts on its node: with its limit as committed memory and
as use of the node. Policies do not migrate it, and plans leave its resources free.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from opendrs.errors import ModelError
from opendrs.model import (
    Guest,
    GuestId,
    GuestKind,
    GuestState,
    NodeId,
    Resources,
    Snapshot,
    Usage,
    decoding,
    time_as_text,
    time_from_text,
)
from opendrs.ports import Store

KEY_PREFIX = "operator/reservation/"
_MANAGER = "reservation "  # and its name; what manages its guests
MAX_RESERVED = 1000  # guests of one reservation


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """Resources that are kept for guests that will start.

    Attributes:
        name: Name of the reservation, and of its guest; several guests have numbers.
        limit: Cores and memory of each guest.
        nodes: Node of each guest.
        until: Time at which it expires, time zone aware.

    Raises:
        ModelError: The number of guests is out of range, or the time has no time zone.
    """

    name: str
    limit: Resources
    nodes: tuple[NodeId, ...]
    until: datetime

    def __post_init__(self) -> None:
        if not 1 <= len(self.nodes) <= MAX_RESERVED:
            raise ModelError(
                f"{self.name}: expected 1 to {MAX_RESERVED} nodes, got "
                f"{len(self.nodes)}"
            )
        if self.until.tzinfo is None:
            raise ModelError(f"{self.name}: expected a time zone, got {self.until}")

    @property
    def key(self) -> str:
        """Return the key in the store."""
        return f"{KEY_PREFIX}{self.name}"

    @property
    def guests(self) -> tuple[Guest, ...]:
        """Return its guests."""
        count = len(self.nodes)
        return tuple(
            Guest(
                id=GuestId(self.name if count == 1 else f"{self.name}-{number}"),
                node=node,
                kind=GuestKind.VM,
                state=GuestState.RUNNING,
                limit=self.limit,
                usage=Usage.of(self.limit),
                managed_by=f"{_MANAGER}{self.name}",
            )
            for number, node in enumerate(self.nodes, 1)
        )

    def document(self) -> dict[str, object]:
        """Return the value in the store."""
        return {
            "cpu": self.limit.cpu,
            "memory": self.limit.memory,
            "nodes": list(self.nodes),
            "until": time_as_text(self.until),
        }


def load_reservations(store: Store) -> tuple[Reservation, ...]:
    """Return all reservations, also expired ones, in order of name.

    Raises:
        StoreError: The store cannot be read, or a reservation is damaged.
    """
    return reservations_in(store.load_all(KEY_PREFIX))


def reservations_in(
    entries: Mapping[str, Mapping[str, object]],
) -> tuple[Reservation, ...]:
    """Return the reservations in *entries* of a store, in order of name.

    Raises:
        StoreError: A reservation is damaged.
    """
    return tuple(_decode(key, entries[key]) for key in sorted(entries))


def add_reservations(snapshot: Snapshot, store: Store) -> Snapshot:
    """Return *snapshot* with the guests of the reservations that have not expired.

    A reserved guest is absent once a guest of its name is in the cluster, and while its
    node is not online. The use of a node that was not measured stays unknown.

    Raises:
        StoreError: The store cannot be read, or a reservation is damaged.
    """
    return with_reserved_guests(
        snapshot,
        (
            guest
            for reservation in load_reservations(store)
            if snapshot.taken_at < reservation.until
            for guest in reservation.guests
        ),
    )


def with_reserved_guests(snapshot: Snapshot, reserved: Iterable[Guest]) -> Snapshot:
    """Return *snapshot* with those of *reserved* that are absent, on online nodes."""
    nodes, guests = dict(snapshot.nodes), dict(snapshot.guests)
    for guest in reserved:
        node = nodes.get(guest.node)
        if guest.id in guests or node is None or not node.online:
            continue
        guests[guest.id] = guest
        usage, limit = node.usage, guest.limit or Resources(0.0, 0)
        nodes[node.id] = replace(
            node,
            usage=Usage(
                None if usage.cpu is None else usage.cpu + limit.cpu,
                None if usage.memory is None else usage.memory + limit.memory,
            ),
        )
    return replace(snapshot, nodes=nodes, guests=guests)


def without_reserved_guests(snapshot: Snapshot) -> Snapshot:
    """Return *snapshot* as it was before `with_reserved_guests`."""
    nodes, guests = dict(snapshot.nodes), dict(snapshot.guests)
    for guest in snapshot.guests.values():
        if not (guest.managed_by or "").startswith(_MANAGER):
            continue
        del guests[guest.id]
        node = nodes[guest.node]
        usage, limit = node.usage, guest.limit or Resources(0.0, 0)
        nodes[node.id] = replace(
            node,
            usage=Usage(
                None if usage.cpu is None else max(0.0, usage.cpu - limit.cpu),
                None if usage.memory is None else usage.memory - limit.memory,
            ),
        )
    return replace(snapshot, nodes=nodes, guests=guests)


def _decode(key: str, value: Mapping[str, object]) -> Reservation:
    with decoding("the reservation", key.removeprefix(KEY_PREFIX)):
        nodes, until = value["nodes"], value["until"]
        cpu, memory = value["cpu"], value["memory"]
        if not isinstance(nodes, list) or not isinstance(until, str):
            raise TypeError("expected nodes and a time")
        if not isinstance(cpu, int | float) or not isinstance(memory, int):
            raise TypeError("expected cores and bytes")
        return Reservation(
            name=key.removeprefix(KEY_PREFIX),
            limit=Resources(float(cpu), memory),
            nodes=tuple(NodeId(str(node)) for node in nodes),
            until=time_from_text(until),
        )
