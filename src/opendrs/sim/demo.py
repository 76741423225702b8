"""A cluster to show: lifelike, and badly out of balance.

One node in four carried nearly everything when the others were bought. All
figures are drawn from a seed; none stems from a real cluster.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace

from opendrs.errors import ModelError
from opendrs.model import (
    GIB,
    Affinity,
    AntiAffinity,
    Exclusion,
    Guest,
    GuestId,
    Node,
    NodeAffinity,
    NodeId,
    NodeState,
    Pin,
    Pressure,
    Resources,
    Rule,
    Snapshot,
    Stall,
    Usage,
)
from opendrs.rules import violations
from opendrs.sim.clock import SATURDAY_NOON
from opendrs.sim.observation import demand, stall_at
from opendrs.sim.roles import cast, draw_guest

OLD_ONES = 4  # one node in so many is old, and full
FAVOUR = 5.0  # how much rather than a new one an old node was chosen
FULLEST = 0.97  # part of a node's memory that was promised at most
BUSIEST = 0.9  # part of a node's cores that was in use at most
OWN_MEMORY = 3 * GIB  # what a host needs for itself


def draw_cluster(seed: int, nodes: int = 8, guests: int = 60) -> Snapshot:
    """Return a cluster in need of balancing; the same one for the same seed.

    All its rules are kept, and no node has promised more memory than it has.

    Raises:
        ModelError: There is no room for so many guests on so few nodes.
    """
    draw = random.Random(seed)  # noqa: S311 - no secret
    empty = [_draw_node(draw, number, nodes) for number in range(1, nodes + 1)]
    names = [node.id for node in empty]
    cluster = Snapshot(
        taken_at=SATURDAY_NOON,
        nodes={node.id: node for node in empty},
        guests={},
        rules=_rules(empty, {name for name, _ in cast(guests)}),
    )
    # The large and the bound first, as long as there is room everywhere.
    for name, role in sorted(cast(guests), key=lambda one: -max(one[1].memory)):
        guest = draw_guest(draw, name, role, names[0])
        cluster = _settled(cluster, guest, _preferences(draw, empty))
    return _measured(draw, cluster)


def _draw_node(draw: random.Random, number: int, count: int) -> Node:
    old = number <= max(1, count // OLD_ONES)
    cores, memory = (32, 256) if old else draw.choice([(32, 256), (48, 384)])
    return Node(
        id=NodeId(f"node{number}"),
        capacity=Resources(cores, memory * GIB),
        state=NodeState.ONLINE,
        architecture="x86_64",
        cpu_model="EPYC",
        labels=frozenset({"old", "ssd"} if old else draw.choice([{"ssd"}, {"hdd"}])),
    )


def _preferences(draw: random.Random, nodes: Iterable[Node]) -> list[NodeId]:
    """Return all nodes in a drawn order, in which the old ones tend to be first."""
    chances = {
        node.id: draw.random() ** (1 / (FAVOUR if "old" in node.labels else 1.0))
        for node in nodes
    }
    return sorted(chances, key=lambda name: -chances[name])


def _settled(cluster: Snapshot, guest: Guest, order: Sequence[NodeId]) -> Snapshot:
    """Return *cluster* with *guest* on the first node of *order* that will do."""
    for node in order:
        there = {**cluster.guests, guest.id: replace(guest, node=node)}
        future = replace(cluster, guests=there)
        if _has_room(future, node) and not violations(future):
            return future
    raise ModelError(f"there is no node with room for {guest.id}")


def _has_room(cluster: Snapshot, name: NodeId) -> bool:
    capacity = cluster.nodes[name].capacity
    there = [guest for guest in cluster.guests.values() if guest.node == name]
    promised = sum(guest.limit.memory for guest in there if guest.limit)
    busy, _ = demand(name, there, {})
    return (
        capacity is not None
        and promised < FULLEST * capacity.memory
        and busy < BUSIEST * capacity.cpu
    )


def _rules(nodes: Sequence[Node], guests: set[GuestId]) -> tuple[Rule, ...]:
    """Return one rule or more of each kind, about those guests that exist."""
    ssd = {node.id: 1 for node in nodes if "ssd" in node.labels}
    near = {node.id: 1 + (node is nodes[0]) for node in nodes[: len(nodes) // 2 + 1]}
    databases = frozenset(f"db-{number:02}" for number in range(1, 7))

    def known(names: Iterable[str]) -> frozenset[GuestId]:
        return frozenset(GuestId(name) for name in names) & guests

    rules: list[Rule] = [Exclusion(tags=frozenset({"fixed"}), name="licence by host")]
    if fast := known(databases):
        rules.append(NodeAffinity(guests=fast, nodes=ssd, name="databases on ssd"))
    if workers := known(["worker-01", "worker-02"]):
        near_storage = NodeAffinity(guests=workers, nodes=near, strict=False)
        rules.append(replace(near_storage, name="workers near the storage"))
    if pinned := known(["monitor-01"]):
        rules.append(Pin(guests=pinned, name="monitor stays"))
    replicas = known(["db-01", "db-02"])
    if len(replicas) == 2 <= len(ssd):
        rules.append(AntiAffinity(guests=replicas, name="replicas apart"))
    fronts = known(["web-01", "web-02", "web-03"])
    if 2 <= len(fronts) <= len(nodes):
        apart = AntiAffinity(guests=fronts, strict=False, name="front ends apart")
        rules.append(apart)
    shop = known(["app-01", "cache-01"])
    if len(shop) == 2:
        rules.append(Affinity(guests=shop, name="shop and its cache"))
    news = known(["app-02", "cache-02"])
    if len(news) == 2:
        rules.append(Affinity(guests=news, strict=False, name="news and its cache"))
    return tuple(rules)


def _measured(draw: random.Random, cluster: Snapshot) -> Snapshot:
    """Return *cluster* with what the sensors of its nodes show."""
    nodes = {
        node.id: _measured_node(draw, node, cluster) for node in cluster.nodes.values()
    }
    return replace(cluster, nodes=nodes)


def _measured_node(draw: random.Random, node: Node, cluster: Snapshot) -> Node:
    cpu, memory = demand(node.id, cluster.guests.values(), {})
    cores = node.capacity.cpu if node.capacity is not None else 1.0
    cpu = round(cpu + draw.uniform(0.3, 0.9), 2)
    waiting = round(stall_at(cpu / cores) + draw.uniform(0.001, 0.02), 4)
    return replace(
        node,
        usage=Usage(cpu, memory + OWN_MEMORY),
        load_average=round(cpu * draw.uniform(0.95, 1.3), 2),
        ksm_shared=round(memory * draw.uniform(0.01, 0.05)),
        pressure=Pressure(
            cpu=Stall(waiting, 0.0),
            memory=Stall(round(waiting / 10, 4), round(waiting / 30, 4)),
            io=Stall(round(draw.uniform(0.0, 0.04), 4), 0.0),
        ),
    )
