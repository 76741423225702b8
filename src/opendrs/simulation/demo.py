"""Demo cluster: realistic, and badly out of balance.

One node in four carried nearly all guests when the others were added. All values are
drawn from a seed; none is from a real cluster.
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
    TagExclusion,
    Usage,
)
from opendrs.rules import violations
from opendrs.simulation.clock import SATURDAY_NOON
from opendrs.simulation.observation import guests_by_node, node_demand, stall_at_load
from opendrs.simulation.workload_profiles import assign_profiles, draw_guest

OLD_NODE_RATIO = 4  # one node in this many is old, and full
OLD_NODE_WEIGHT = 5.0  # preference for an old node over a new one
MAX_COMMITTED_MEMORY = 0.97  # largest committed fraction of a node's memory
MAX_CPU_LOAD = 0.9  # largest used fraction of a node's cores
HOST_MEMORY = 3 * GIB  # memory used by the host itself


def demo_cluster(seed: int, nodes: int = 8, guests: int = 60) -> Snapshot:
    """Return a cluster in need of balancing; the same one for the same seed.

    All its rules hold, and no node commits more memory than it has.

    Raises:
        ModelError: The guests do not fit on the nodes.
    """
    rng = random.Random(seed)  # noqa: S311 - no secret
    empty_nodes = [_draw_node(rng, number, nodes) for number in range(1, nodes + 1)]
    names = [node.id for node in empty_nodes]
    cluster = Snapshot(
        taken_at=SATURDAY_NOON,
        nodes={node.id: node for node in empty_nodes},
        guests={},
        rules=_rules(empty_nodes, {name for name, _ in assign_profiles(guests)}),
    )
    # Large and constrained guests are placed first, while every node has capacity.
    for name, profile in sorted(
        assign_profiles(guests), key=lambda assigned: -max(assigned[1].memory)
    ):
        guest = draw_guest(rng, name, profile, names[0])
        cluster = _place_guest(cluster, guest, _preferences(rng, empty_nodes))
    return _with_measurements(rng, cluster)


def _draw_node(rng: random.Random, number: int, count: int) -> Node:
    old = number <= max(1, count // OLD_NODE_RATIO)
    cores, memory = (32, 256) if old else rng.choice([(32, 256), (48, 384)])
    return Node(
        id=NodeId(f"node{number}"),
        capacity=Resources(cores, memory * GIB),
        state=NodeState.ONLINE,
        architecture="x86_64",
        cpu_model="EPYC",
        labels=frozenset({"old", "ssd"} if old else rng.choice([{"ssd"}, {"hdd"}])),
    )


def _preferences(rng: random.Random, nodes: Iterable[Node]) -> list[NodeId]:
    """Return all nodes in random order; old nodes tend to be first."""
    weights = {
        node.id: rng.random()
        ** (1 / (OLD_NODE_WEIGHT if "old" in node.labels else 1.0))
        for node in nodes
    }
    return sorted(weights, key=lambda name: -weights[name])


def _place_guest(cluster: Snapshot, guest: Guest, order: Sequence[NodeId]) -> Snapshot:
    """Return *cluster* with *guest* on the first feasible node of *order*."""
    for node in order:
        guests = {**cluster.guests, guest.id: replace(guest, node=node)}
        future = replace(cluster, guests=guests)
        if _fits(future, node) and not violations(future):
            return future
    raise ModelError(f"{guest.id}: fits on no node; add nodes or reduce the guests")


def _fits(cluster: Snapshot, name: NodeId) -> bool:
    capacity = cluster.nodes[name].capacity
    guests = [guest for guest in cluster.guests.values() if guest.node == name]
    committed = sum(guest.limit.memory for guest in guests if guest.limit)
    cpu, _ = node_demand(name, guests, {})
    return (
        capacity is not None
        and committed < MAX_COMMITTED_MEMORY * capacity.memory
        and cpu < MAX_CPU_LOAD * capacity.cpu
    )


def _rules(nodes: Sequence[Node], guests: set[GuestId]) -> tuple[Rule, ...]:
    """Return at least one rule of each kind, for the guests that exist."""
    ssd = {node.id: 1 for node in nodes if "ssd" in node.labels}
    near_storage = {
        node.id: 1 + (node is nodes[0]) for node in nodes[: len(nodes) // 2 + 1]
    }
    databases = frozenset(f"db-{number:02}" for number in range(1, 7))

    def existing(names: Iterable[str]) -> frozenset[GuestId]:
        return frozenset(GuestId(name) for name in names) & guests

    rules: list[Rule] = [
        TagExclusion(tags=frozenset({"fixed"}), name="license by host")
    ]
    if database_guests := existing(databases):
        rules.append(
            NodeAffinity(guests=database_guests, nodes=ssd, name="databases on ssd")
        )
    if workers := existing(["worker-01", "worker-02"]):
        near_storage_rule = NodeAffinity(
            guests=workers, nodes=near_storage, strict=False
        )
        rules.append(replace(near_storage_rule, name="workers near the storage"))
    if pinned := existing(["monitor-01"]):
        rules.append(Pin(guests=pinned, name="monitor stays"))
    replicas = existing(["db-01", "db-02"])
    if len(replicas) == 2 <= len(ssd):
        rules.append(AntiAffinity(guests=replicas, name="replicas apart"))
    front_ends = existing(["web-01", "web-02", "web-03"])
    if 2 <= len(front_ends) <= len(nodes):
        front_end_rule = AntiAffinity(
            guests=front_ends, strict=False, name="front ends apart"
        )
        rules.append(front_end_rule)
    shop = existing(["app-01", "cache-01"])
    if len(shop) == 2:
        rules.append(Affinity(guests=shop, name="shop and its cache"))
    news = existing(["app-02", "cache-02"])
    if len(news) == 2:
        rules.append(Affinity(guests=news, strict=False, name="news and its cache"))
    return tuple(rules)


def _with_measurements(rng: random.Random, cluster: Snapshot) -> Snapshot:
    """Return *cluster* with the measurements of its nodes."""
    by_node = guests_by_node(cluster.guests.values())
    nodes = {
        node.id: _with_node_measurements(rng, node, by_node[node.id])
        for node in cluster.nodes.values()
    }
    return replace(cluster, nodes=nodes)


def _with_node_measurements(
    rng: random.Random, node: Node, guests: Sequence[Guest]
) -> Node:
    cpu, memory = node_demand(node.id, guests, {})
    cores = node.capacity.cpu if node.capacity is not None else 1.0
    cpu = round(cpu + rng.uniform(0.3, 0.9), 2)
    stall = round(stall_at_load(cpu / cores) + rng.uniform(0.001, 0.02), 4)
    return replace(
        node,
        usage=Usage(cpu, memory + HOST_MEMORY),
        load_average=round(cpu * rng.uniform(0.95, 1.3), 2),
        ksm_shared=round(memory * rng.uniform(0.01, 0.05)),
        pressure=Pressure(
            cpu=Stall(stall, 0.0),
            memory=Stall(round(stall / 10, 4), round(stall / 30, 4)),
            io=Stall(round(rng.uniform(0.0, 0.04), 4), 0.0),
        ),
    )
