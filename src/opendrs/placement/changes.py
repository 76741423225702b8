"""Changes of a cluster: added nodes, growing load, nodes without their guests."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from opendrs.errors import ModelError, UnknownNodeError
from opendrs.model import (
    MAX_AMOUNT,
    NO_RESOURCES,
    UNKNOWN_PRESSURE,
    Guest,
    GuestId,
    GuestState,
    Node,
    NodeAffinity,
    NodeId,
    NodeState,
    Resources,
    Rule,
    Snapshot,
    Usage,
)

MAX_ADDED = 10_000  # nodes of one change
MAX_GROWTH = 10.0  # 1,000 %


@dataclass(frozen=True, slots=True)
class NodeAddition:
    """New nodes of the size of an existing one.

    Attributes:
        count: Number of new nodes.
        template: Node that they are copies of, without its guests and its usage.
    """

    count: int
    template: NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Changes of a cluster that happen together.

    Attributes:
        add: New nodes.
        remove: Nodes whose guests migrate to others before they are removed.
        fail: Nodes that fail; their guests restart on others.
        growth: Growth of the measured use of all guests; 0.2 is 20 % more.

    Raises:
        ModelError: A count or the growth is out of range, or a node is both removed and
            failed.
    """

    add: tuple[NodeAddition, ...] = ()
    remove: tuple[NodeId, ...] = ()
    fail: tuple[NodeId, ...] = ()
    growth: float = 0.0

    def __post_init__(self) -> None:
        for addition in self.add:
            if not 1 <= addition.count <= MAX_ADDED:
                raise ModelError(
                    f"add: expected 1 to {MAX_ADDED} nodes, got {addition.count}"
                )
        if not -1 <= self.growth <= MAX_GROWTH:
            raise ModelError(
                f"growth: expected a ratio in [-1, {MAX_GROWTH:g}], got {self.growth}"
            )
        if both := sorted(set(self.remove) & set(self.fail)):
            raise ModelError(f"{both[0]}: both removed and failed")

    def require_nodes(self, snapshot: Snapshot) -> None:
        """Check that all named nodes are in *snapshot*; added ones may fail as well.

        Raises:
            UnknownNodeError: A node is not.
        """
        _require(snapshot, [addition.template for addition in self.add])
        _require(with_added_nodes(snapshot, self.add), [*self.remove, *self.fail])


def _require(snapshot: Snapshot, names: Iterable[NodeId]) -> None:
    for name in names:
        if name not in snapshot.nodes:
            raise UnknownNodeError(f"node {name} is not in the cluster")


def with_added_nodes(snapshot: Snapshot, additions: Iterable[NodeAddition]) -> Snapshot:
    """Return *snapshot* with new nodes, online and without guests.

    Node-affinity rules that list the template list the new nodes with the same
    priority. A new node uses nothing; its capacity is unknown if that of the template
    is.
    """
    nodes, copies = dict(snapshot.nodes), dict[NodeId, list[NodeId]]()
    for addition in additions:
        number = 0
        for _ in range(addition.count):
            number += 1
            while (name := NodeId(f"{addition.template}+{number}")) in nodes:
                number += 1
            nodes[name] = _new_node(name, snapshot.nodes[addition.template])
            copies.setdefault(addition.template, []).append(name)
    rules = tuple(_with_listed(rule, copies) for rule in snapshot.rules)
    return replace(snapshot, nodes=nodes, rules=rules)


def _new_node(name: NodeId, template: Node) -> Node:
    return Node(
        id=name,
        capacity=template.capacity,
        usage=Usage.of(NO_RESOURCES),
        state=NodeState.ONLINE,
        architecture=template.architecture,
        cpu_model=template.cpu_model,
        labels=template.labels,
        load_average=0.0,
        allocation=template.allocation,
        groups=template.groups,
        failure_domain=template.failure_domain,
        storages=template.storages,
    )


def _with_listed(rule: Rule, copies: Mapping[NodeId, Iterable[NodeId]]) -> Rule:
    if not isinstance(rule, NodeAffinity) or not rule.nodes.keys() & copies.keys():
        return rule
    added = {
        name: rule.nodes[template]
        for template, names in copies.items()
        if template in rule.nodes
        for name in names
    }
    return replace(rule, nodes={**rule.nodes, **added})


def with_growth(snapshot: Snapshot, growth: float) -> Snapshot:
    """Return *snapshot* with the measured use of all active guests grown by a ratio.

    A guest grows to its limit at most. Nodes grow by what their guests grow; unknown
    measurements stay unknown.
    """
    if growth == 0:
        return snapshot
    guests = dict(snapshot.guests)
    cpu = dict.fromkeys(snapshot.nodes, 0.0)
    memory = dict.fromkeys(snapshot.nodes, 0)
    for name, guest in snapshot.guests.items():
        if not guest.is_active:
            continue
        usage = _grown(guest, 1 + growth)
        guests[name] = replace(guest, usage=usage)
        cpu[guest.node] += (usage.cpu or 0.0) - (guest.usage.cpu or 0.0)
        memory[guest.node] += (usage.memory or 0) - (guest.usage.memory or 0)
    nodes = {
        name: replace(node, usage=_added(node.usage, cpu[name], memory[name]))
        for name, node in snapshot.nodes.items()
    }
    return replace(snapshot, nodes=nodes, guests=guests)


def _grown(guest: Guest, factor: float) -> Usage:
    limit, usage = guest.limit or NO_RESOURCES, guest.usage
    cpu, memory = usage.cpu, usage.memory
    if cpu is not None:
        cpu = min(cpu * factor, max(cpu, limit.cpu or MAX_AMOUNT))
    if memory is not None:
        memory = int(min(memory * factor, max(memory, limit.memory or MAX_AMOUNT)))
    return Usage(cpu, memory)


def _added(usage: Usage, cpu: float, memory: int) -> Usage:
    """Return *usage* with amounts added, which may be negative; None if unknown."""
    return Usage(
        None if usage.cpu is None else min(max(usage.cpu + cpu, 0.0), MAX_AMOUNT),
        None
        if usage.memory is None
        else min(max(usage.memory + memory, 0), MAX_AMOUNT),
    )


def without_arrivals(snapshot: Snapshot, closed: Collection[NodeId]) -> Snapshot:
    """Return *snapshot* without the migrations in progress from or to *closed* nodes.

    Such a guest is on its source.
    """
    stopped = {
        name: replace(guest, migrating_to=None)
        for name, guest in snapshot.guests.items()
        if guest.migrating_to is not None and {*guest.occupied_nodes} & {*closed}
    }
    return replace(snapshot, guests={**snapshot.guests, **stopped})


def with_closed_nodes(
    snapshot: Snapshot,
    closed: Collection[NodeId],
    placed: Mapping[GuestId, NodeId],
) -> Snapshot:
    """Return *snapshot* with *closed* nodes offline and their guests on other nodes.

    Args:
        snapshot: The cluster without migrations from or to the closed nodes.
        closed: Nodes that are offline afterwards; their usage is unknown.
        placed: New node of guests. Other guests of closed nodes are stopped.
    """
    guests, arrived = dict(snapshot.guests), dict[NodeId, Resources]()
    for name, guest in snapshot.guests.items():
        target = placed.get(name)
        if target is not None:
            guests[name] = replace(
                guest, node=target, migrating_to=None, pressure=UNKNOWN_PRESSURE
            )
            usage = Resources(guest.usage.cpu or 0.0, guest.usage.memory or 0)
            arrived[target] = arrived.get(target, NO_RESOURCES).plus(usage)
        elif guest.node in closed and guest.is_active:
            guests[name] = replace(
                guest, state=GuestState.STOPPED, usage=Usage.of(NO_RESOURCES)
            )
    nodes = dict(snapshot.nodes)
    for node, added in arrived.items():
        total = _added(nodes[node].usage, added.cpu, added.memory)
        nodes[node] = replace(nodes[node], usage=total, pressure=UNKNOWN_PRESSURE)
    for node in closed:
        nodes[node] = replace(nodes[node], state=NodeState.OFFLINE, usage=Usage())
    return replace(snapshot, nodes=nodes, guests=guests)
