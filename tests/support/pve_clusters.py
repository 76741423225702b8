"""Clusters of the double of Proxmox VE, in the shapes of several versions."""

from __future__ import annotations

from support.pve_cluster import GIB, PveCluster, PveGuest, PveNode


def imbalanced_cluster(version: str, nodes: int, guests: int) -> PveCluster:
    """Return a cluster with most guests on its first nodes.

    Every third guest is under HA, and every tenth is a container. Version 8 has a
    group, version 9 has rules.
    """
    cluster = PveCluster(version)
    names = [f"pve{number}" for number in range(1, nodes + 1)]
    crowded = max(1, nodes // 3)
    placed = [names[n % crowded if n % 4 else n % nodes] for n in range(guests)]
    for name in names:
        busy = sum(0.25 * 2 for place in placed if place == name)
        cluster.add(
            PveNode(
                name,
                cpu=min(0.95, 0.02 + busy / 32),
                maxcpu=32,
                mem=placed.count(name) * GIB + GIB,
                maxmem=128 * GIB,
            )
        )
    for number, place in enumerate(placed):
        vmid = 100 + number
        container = number % 10 == 5
        cluster.add(
            PveGuest(
                vmid,
                f"guest{vmid}",
                place,
                kind="lxc" if container else "qemu",
                ha="started" if number % 3 == 0 and not container else None,
            )
        )
    _add_rules(cluster)
    return cluster


def _add_rules(cluster: PveCluster) -> None:
    managed = [guest for guest in cluster.guests.values() if guest.ha is not None]
    nodes = list(cluster.nodes)
    if cluster.major < 9:
        members = ",".join(f"{name}:{rank}" for rank, name in enumerate(nodes[:2], 1))
        cluster.groups.append({"group": "front", "nodes": members, "restricted": 0})
        managed[0].group = "front"
        return
    members = ",".join(guest.sid for guest in managed[:2])
    rule = {"rule": "apart", "type": "resource-affinity", "affinity": "negative"}
    cluster.rules.append({**rule, "resources": members})
    prefer = {"rule": "prefer", "type": "node-affinity", "nodes": f"{nodes[0]}:2"}
    cluster.rules.append({**prefer, "resources": managed[2].sid})
