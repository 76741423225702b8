"""Measurements of a simulated data center."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from opendrs.model import (
    NO_LOADS,
    Guest,
    GuestId,
    GuestState,
    LoadAmounts,
    Node,
    NodeId,
    NodeState,
    Pressure,
    Snapshot,
    Stall,
    Usage,
)

STALL_FREE_LOAD = 0.5  # load up to which tasks hardly wait
STALL_PER_LOAD = 0.4  # increase of the stalled share of time, per load above that


class SimulatedMetrics:
    """Measurements of a data center, derived from its changes since the start.

    Args:
        initial: Initial state of the data center.
    """

    def __init__(self, initial: Snapshot) -> None:
        self._initial = initial
        by_node = guests_by_node(initial.guests.values())
        self._host_overhead = {
            node.id: _minus(node.usage, node_demand(node.id, by_node[node.id], {}))
            for node in initial.nodes.values()
        }
        self._load_overhead = {
            node.id: _with_guest_loads(node.id, node.loads, by_node[node.id], -1)
            for node in initial.nodes.values()
            if node.loads
        }

    def guest(self, guest: Guest, age: float, factor: float) -> Guest:
        """Return *guest* with *factor* times its load and *age* seconds more uptime."""
        running = guest.state is GuestState.RUNNING
        uptime = guest.uptime
        return replace(
            guest,
            usage=_scale_usage(guest, factor),
            uptime=uptime + age if uptime is not None and running else uptime,
        )

    def nodes(
        self,
        nodes: Iterable[Node],
        guests: Iterable[Guest],
        received: Mapping[GuestId, int],
    ) -> list[Node]:
        """Return *nodes* with their measurements under the load of *guests*.

        Args:
            nodes: States of the nodes.
            guests: All guests, measured.
            received: Bytes already received of each migrating guest.
        """
        by_node = guests_by_node(guests)
        return [self._node(node, by_node[node.id], received) for node in nodes]

    def _node(
        self, node: Node, guests: Sequence[Guest], received: Mapping[GuestId, int]
    ) -> Node:
        if node.state in (NodeState.OFFLINE, NodeState.UNKNOWN):
            return replace(
                node,
                usage=Usage(),
                pressure=Pressure(),
                load_average=None,
                loads=NO_LOADS,
            )
        if node.id in self._load_overhead:
            overhead = self._load_overhead[node.id]
            loads = _with_guest_loads(node.id, overhead, guests, 1)
            measured = {name: max(0.0, amount) for name, amount in loads.items()}
            node = replace(node, loads=measured)
        usage = _plus(
            self._host_overhead[node.id], node_demand(node.id, guests, received), node
        )
        return with_usage(node, self._initial.nodes[node.id].usage, usage)

    def snapshot(
        self, now: datetime, nodes: Iterable[Node], guests: Iterable[Guest]
    ) -> Snapshot:
        """Return the snapshot of all measurements at *now*."""
        measured = {node.id: node for node in nodes}
        return replace(
            self._initial,
            taken_at=now,
            nodes=measured,
            guests={guest.id: self._with_stall(guest, measured) for guest in guests},
        )

    def _with_stall(self, guest: Guest, nodes: Mapping[NodeId, Node]) -> Guest:
        """Return *guest* with its CPU stall on its node."""
        initial_node = self._initial.nodes[self._initial.guests[guest.id].node]
        return with_stall(guest, initial_node, nodes[guest.node])


def with_usage(node: Node, measured: Usage, usage: Usage) -> Node:
    """Return *node* at the load *usage* instead of *measured*.

    The load average and the stalls change with the load.
    """
    return replace(
        node,
        usage=usage,
        pressure=_pressure(node, measured, usage),
        load_average=_add_change(node.load_average, measured.cpu, usage.cpu),
    )


def with_stall(guest: Guest, measured: Node, node: Node) -> Guest:
    """Return *guest* with its CPU stall on *node*; it was measured on *measured*.

    The stall is scaled by that of the node. A stall measured on a node without stalls
    is caused by the guest itself, and stays with it.
    """
    initial_stall = guest.pressure.cpu
    initial_load, load = _load(measured), _load(node)
    if initial_stall.some is None or initial_load is None or load is None:
        return guest
    before, after = stall_at_load(initial_load), stall_at_load(load)
    scale = after / before if before else 1.0
    share = initial_stall.some * scale if before else initial_stall.some + after
    full = None if initial_stall.full is None else min(1.0, initial_stall.full * scale)
    stall = Stall(min(1.0, share), full)
    return replace(guest, pressure=replace(guest.pressure, cpu=stall))


def _load(node: Node) -> float | None:
    """Return the used fraction of the cores of *node*; None if unknown."""
    if node.capacity is None or node.usage.cpu is None:
        return None
    return round(node.usage.cpu / node.capacity.cpu, 9)


def guests_by_node(guests: Iterable[Guest]) -> Mapping[NodeId, Sequence[Guest]]:
    """Return the guests that count on each node: active there or migrating to it."""
    found: defaultdict[NodeId, list[Guest]] = defaultdict(list)
    for guest in guests:
        for node in guest.occupied_nodes:
            found[node].append(guest)
    return found


def node_demand(
    node: NodeId, guests: Iterable[Guest], received: Mapping[GuestId, int]
) -> tuple[float, int]:
    """Return the cores and bytes that *guests* use on *node*.

    Values that were not measured are omitted, at the start as later.
    """
    cpu, memory = 0.0, 0
    for guest in guests:
        if guest.is_active and guest.node == node:
            cpu += guest.usage.cpu or 0.0
            memory += guest.usage.memory or 0
        elif guest.is_active and guest.migrating_to == node:
            memory += min(received.get(guest.id, 0), guest.usage.memory or 0)
    return cpu, memory


def _with_guest_loads(
    node: NodeId, loads: LoadAmounts, guests: Iterable[Guest], sign: int
) -> LoadAmounts:
    """Return *loads* with the further loads of guests on *node* added or removed.

    Values that were not measured are omitted, at the start as later.
    """
    totals = dict(loads)
    for guest in guests:
        if guest.is_active and guest.node == node:
            for name in totals.keys() & guest.loads.keys():
                totals[name] += sign * guest.loads[name]
    return totals


def _minus(usage: Usage, guests: tuple[float, int]) -> tuple[float | None, int | None]:
    """Return the usage outside guests; negative if sampled inconsistently."""
    return (
        None if usage.cpu is None else usage.cpu - guests[0],
        None if usage.memory is None else usage.memory - guests[1],
    )


def _plus(
    host_overhead: tuple[float | None, int | None],
    guests: tuple[float, int],
    node: Node,
) -> Usage:
    cpu = None if host_overhead[0] is None else max(0.0, host_overhead[0] + guests[0])
    if cpu is not None and node.capacity is not None:
        cpu = min(cpu, node.capacity.cpu)
    return Usage(
        cpu, None if host_overhead[1] is None else max(0, host_overhead[1] + guests[1])
    )


def _scale_usage(guest: Guest, factor: float) -> Usage:
    """Return the usage at *factor* times the load, within the limit."""
    cpu = guest.usage.cpu
    if cpu is None:
        return guest.usage
    limit = guest.limit.cpu if guest.limit is not None else 0.0
    max_cpu = max(limit, cpu) if limit > 0 else math.inf
    return replace(guest.usage, cpu=min(cpu * factor, max_cpu))


def _add_change(
    value: float | None, initial: float | None, now: float | None
) -> float | None:
    if value is None or initial is None or now is None:
        return value
    return max(0.0, value + now - initial)


def _pressure(node: Node, initial: Usage, now: Usage) -> Pressure:
    if node.capacity is None:
        return node.pressure
    return replace(
        node.pressure,
        cpu=_stall(node.pressure.cpu, initial.cpu, now.cpu, node.capacity.cpu),
        memory=_stall(
            node.pressure.memory, initial.memory, now.memory, node.capacity.memory
        ),
    )


def _stall(
    initial_stall: Stall, initial: float | None, now: float | None, capacity: float
) -> Stall:
    """Return the initial stall, changed by the change of the load since."""
    if initial_stall.some is None or initial is None or now is None:
        return initial_stall
    change = stall_at_load(now / capacity) - stall_at_load(initial / capacity)
    return replace(
        initial_stall,
        some=min(1.0, max(initial_stall.full or 0.0, initial_stall.some + change)),
    )


def stall_at_load(load: float) -> float:
    """Return the share of time, in [0, 1], in which tasks are stalled at *load*."""
    return min(1.0, max(0.0, load - STALL_FREE_LOAD) * STALL_PER_LOAD)
