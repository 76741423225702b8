"""Builders of small clusters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from opendrs.model import (
    GIB,
    Guest,
    GuestId,
    GuestKind,
    GuestState,
    Mobility,
    Node,
    NodeId,
    NodeState,
    Resources,
    Rule,
    Snapshot,
    Usage,
)

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
CAPACITY = Resources(cpu=10, memory=100 * GIB)


def fraction_of_node(capacity: Resources, load: float) -> Resources:
    """Return the fraction *load* of *capacity*: 0.5 is half of each resource."""
    return Resources(capacity.cpu * load, int(capacity.memory * load))


def cluster(
    nodes: Mapping[str, float | None],
    guests: Mapping[str, tuple[str, float | None]],
    rules: Iterable[Rule] = (),
    moving: Mapping[str, str] | None = None,
) -> Snapshot:
    """Return a cluster of equal nodes.

    Args:
        nodes: Load of each node, as a fraction of its capacity; None if not measured.
        guests: Node of each guest and its usage, as a fraction of the capacity of a
            node; None if not measured. Its limit equals its usage.
        rules: Placement rules.
        moving: Target of each guest that is migrating.
    """
    bound = {GuestId(name): NodeId(target) for name, target in (moving or {}).items()}
    return Snapshot(
        taken_at=NOON,
        nodes={NodeId(name): node(name, load) for name, load in nodes.items()},
        guests={
            GuestId(name): guest(
                name, where, load, migrating_to=bound.get(GuestId(name))
            )
            for name, (where, load) in guests.items()
        },
        rules=tuple(rules),
    )


def partly_compared() -> Snapshot:
    """Return a cluster whose busiest node, a, has no capacity of the network.

    The nodes b and c have 100 and 300 of 1,000: the balanced load is 0.2.
    """
    plain = cluster(
        {"a": 0.6, "b": 0.2, "c": 0.4},
        {"g1": ("a", 0.2), "g2": ("a", 0.4), "g3": ("b", 0.2), "g4": ("c", 0.4)},
    )
    traffic = {"a": 800.0, "b": 100.0, "c": 300.0}
    nodes = {
        name: replace(
            each,
            loads={"network": traffic[name]},
            load_capacities={} if name == "a" else {"network": 1000.0},
        )
        for name, each in plain.nodes.items()
    }
    guests = {
        name: replace(each, loads={"network": 50.0})
        for name, each in plain.guests.items()
    }
    return replace(plain, nodes=nodes, guests=guests)


def node(name: str, load: float | None, **changes: Any) -> Node:  # noqa: ANN401
    """Return an online node with the fraction *load* of its capacity in use."""
    usage = Usage() if load is None else Usage.of(fraction_of_node(CAPACITY, load))
    plain = Node(
        id=NodeId(name), capacity=CAPACITY, usage=usage, state=NodeState.ONLINE
    )
    return replace(plain, **changes)


def guest(
    name: str,
    where: str,
    load: float | None,
    **changes: Any,  # noqa: ANN401
) -> Guest:
    """Return a running guest that uses the fraction *load* of a node."""
    part = None if load is None else fraction_of_node(CAPACITY, load)
    plain = Guest(
        id=GuestId(name),
        node=NodeId(where),
        kind=GuestKind.VM,
        state=GuestState.RUNNING,
        limit=part,
        usage=Usage() if part is None else Usage.of(part),
        mobility=Mobility.LIVE,
    )
    return replace(plain, **changes)


def guest_ids(*names: str) -> frozenset[GuestId]:
    """Return *names* as guest ids."""
    return frozenset(GuestId(name) for name in names)
