"""What can be measured in a data centre."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from opendrs.model import (
    Guest,
    GuestId,
    GuestState,
    Node,
    NodeId,
    NodeState,
    Pressure,
    Snapshot,
    Stall,
    Usage,
)

SLACK = 0.5  # load up to which hardly anything waits
STEEPNESS = 0.4  # share of time that work waits, per load above that


class Instruments:
    """Measures a data centre by what has changed since the beginning.

    Args:
        origin: The data centre in the beginning.
    """

    def __init__(self, origin: Snapshot) -> None:
        self._origin = origin
        self._own = {
            node.id: _minus(node.usage, demand(node.id, origin.guests.values(), {}))
            for node in origin.nodes.values()
        }

    def guest(self, guest: Guest, age: float, factor: float) -> Guest:
        """Return *guest* with *factor* times its load, *age* seconds older."""
        running = guest.state is GuestState.RUNNING
        uptime = guest.uptime
        return replace(
            guest,
            usage=_scaled(guest, factor),
            uptime=uptime + age if uptime is not None and running else uptime,
        )

    def node(
        self, node: Node, guests: Iterable[Guest], arrived: Mapping[GuestId, int]
    ) -> Node:
        """Return *node* as its sensors show it, under the load of *guests*.

        Args:
            node: The node as it is.
            guests: All guests, measured.
            arrived: The bytes of each guest under way that are there already.
        """
        if node.state in (NodeState.OFFLINE, NodeState.UNKNOWN):
            return replace(node, usage=Usage(), pressure=Pressure(), load_average=None)
        usage = _plus(self._own[node.id], demand(node.id, guests, arrived), node)
        first = self._origin.nodes[node.id].usage
        return replace(
            node,
            usage=usage,
            pressure=_pressure(node, first, usage),
            load_average=_shifted(node.load_average, first.cpu, usage.cpu),
        )

    def snapshot(
        self, now: datetime, nodes: Iterable[Node], guests: Iterable[Guest]
    ) -> Snapshot:
        """Return all that was measured *now*."""
        measured = {node.id: node for node in nodes}
        return replace(
            self._origin,
            taken_at=now,
            nodes=measured,
            guests={guest.id: self._waiting(guest, measured) for guest in guests},
        )

    def _waiting(self, guest: Guest, nodes: Mapping[NodeId, Node]) -> Guest:
        """Return *guest* with the time it waits for the cpu of its node.

        It waits for longer as everybody there does; what it waited for on a node
        without stalls is its own doing, and goes along.
        """
        known = guest.pressure.cpu
        first = _load(self._origin.nodes[self._origin.guests[guest.id].node])
        now = _load(nodes[guest.node])
        if known.some is None or first is None or now is None:
            return guest
        before, after = stall_at(first), stall_at(now)
        scale = after / before if before else 1.0
        some = known.some * scale if before else known.some + after
        full = None if known.full is None else min(1.0, known.full * scale)
        stall = Stall(min(1.0, some), full)
        return replace(guest, pressure=replace(guest.pressure, cpu=stall))


def _load(node: Node) -> float | None:
    """Return the part of its cores that *node* uses, but for noise; None if unknown."""
    if node.capacity is None or node.usage.cpu is None:
        return None
    return round(node.usage.cpu / node.capacity.cpu, 9)


def demand(
    node: NodeId, guests: Iterable[Guest], arrived: Mapping[GuestId, int]
) -> tuple[float, int]:
    """Return the cores and bytes that *guests* use on *node*.

    What was not measured of a guest is left out, in the beginning as later.
    """
    cpu, memory = 0.0, 0
    for guest in guests:
        if guest.present and guest.node == node:
            cpu += guest.usage.cpu or 0.0
            memory += guest.usage.memory or 0
        elif guest.present and guest.migrating_to == node:
            memory += min(arrived.get(guest.id, 0), guest.usage.memory or 0)
    return cpu, memory


def _minus(usage: Usage, part: tuple[float, int]) -> tuple[float | None, int | None]:
    """Return what the node uses for itself; below 0 when sampled at odds."""
    return (
        None if usage.cpu is None else usage.cpu - part[0],
        None if usage.memory is None else usage.memory - part[1],
    )


def _plus(
    own: tuple[float | None, int | None], part: tuple[float, int], node: Node
) -> Usage:
    cpu = None if own[0] is None else max(0.0, own[0] + part[0])
    if cpu is not None and node.capacity is not None:
        cpu = min(cpu, node.capacity.cpu)
    return Usage(cpu, None if own[1] is None else max(0, own[1] + part[1]))


def _scaled(guest: Guest, factor: float) -> Usage:
    """Return the usage at *factor* times the load, within the limit."""
    cpu = guest.usage.cpu
    if cpu is None:
        return guest.usage
    limit = guest.limit.cpu if guest.limit is not None else 0.0
    most = max(limit, cpu) if limit > 0 else math.inf
    return replace(guest.usage, cpu=min(cpu * factor, most))


def _shifted(
    value: float | None, first: float | None, now: float | None
) -> float | None:
    if value is None or first is None or now is None:
        return value
    return max(0.0, value + now - first)


def _pressure(node: Node, first: Usage, now: Usage) -> Pressure:
    if node.capacity is None:
        return node.pressure
    return replace(
        node.pressure,
        cpu=_stall(node.pressure.cpu, first.cpu, now.cpu, node.capacity.cpu),
        memory=_stall(
            node.pressure.memory, first.memory, now.memory, node.capacity.memory
        ),
    )


def _stall(
    known: Stall, first: float | None, now: float | None, capacity: float
) -> Stall:
    """Return the stall that was drawn, moved by what the load has done since."""
    if known.some is None or first is None or now is None:
        return known
    change = stall_at(now / capacity) - stall_at(first / capacity)
    return replace(known, some=min(1.0, max(known.full or 0.0, known.some + change)))


def stall_at(load: float) -> float:
    """Return the share of time, in [0, 1], that work waits at a *load*."""
    return min(1.0, max(0.0, load - SLACK) * STEEPNESS)
