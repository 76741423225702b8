"""Conversion of responses of the Proxmox VE API to nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from statistics import fmean

from opendrs.config.network_load import NETWORK
from opendrs.model import (
    MIN_CPU,
    NO_LOADS,
    LoadAmounts,
    Node,
    NodeId,
    NodeState,
    Pressure,
    Resources,
    Stall,
    Storage,
    Usage,
    max_plausible_cpu,
    max_plausible_memory,
)
from opendrs.platforms.proxmox.cluster_view import (
    IO_PRESSURE,
    ClusterView,
    NodeDetails,
    guest_rows,
    is_quorate,
)
from opendrs.platforms.proxmox.responses import NodeHistoryRow, ResourceRow


def build_nodes(
    view: ClusterView,
    labels: Mapping[str, tuple[str, ...]],
    network_capacity: float | None = None,
) -> dict[NodeId, Node]:
    """Return all nodes with their *labels*.

    The state of a node that did not answer is unknown.

    Args:
        view: The responses.
        labels: Labels of each node.
        network_capacity: Bytes per second that each node can receive and send; None if
            unknown.
    """
    rows = {row.node: row for row in view.resources if row.type == "node" and row.node}
    members = [row for row in view.cluster if row.type == "node" and row.name]
    names = dict.fromkeys(
        [
            *rows,
            *(row.name for row in members if row.name),
            *(row.node for row in guest_rows(view.resources) if row.node),
        ]
    )
    offline = frozenset(row.name for row in members if row.online is False)
    silent = view.silent_nodes if is_quorate(view.cluster) else frozenset(names)
    storages, jobs = _storages(view), _jobs(view)
    capacities = _load_capacities(view, network_capacity)
    nodes = {}
    for name in map(NodeId, names):
        state = _node_state(name, rows.get(name), view, offline, silent)
        node = _node(name, rows.get(name), view, state)
        if node.reachable:
            known = None if storages is None else tuple(storages[name])
            node = replace(
                node,
                storages=known,
                jobs=tuple(sorted(jobs[name])),
                load_capacities=capacities,
            )
        nodes[name] = replace(node, labels=frozenset(labels.get(name, ())))
    return nodes


def _node(
    name: NodeId, row: ResourceRow | None, view: ClusterView, state: NodeState
) -> Node:
    details = view.details.get(name, NodeDetails())
    cores = row.maxcpu if row else None
    memory = row.maxmem if row else None
    capacity = (
        Resources(cores, memory) if cores and memory and cores >= MIN_CPU else None
    )
    if state not in (NodeState.ONLINE, NodeState.MAINTENANCE):
        return Node(id=name, capacity=capacity, state=state)
    return Node(
        id=name,
        capacity=capacity,
        usage=_node_usage(row, details, capacity),
        state=state,
        architecture=details.architecture,
        cpu_model=details.cpu_model,
        load_average=_mean(each.loadavg for each in details.history),
        pressure=_node_pressure(details.history),
        ksm_shared=details.ksm_shared,
        loads=_node_loads(details.history),
    )


def _load_capacities(view: ClusterView, network: float | None) -> LoadAmounts:
    """Return the capacities of further loads, of all nodes.

    That of I/O pressure is known if some node reports it, as Proxmox VE 9 does.
    """
    reports_pressure = any(
        row.pressureiosome is not None
        for details in view.details.values()
        for row in details.history
    )
    capacities = {IO_PRESSURE: 1.0} if reports_pressure else {}
    if network is not None:
        capacities[NETWORK] = network
    return capacities or NO_LOADS


def _node_loads(history: tuple[NodeHistoryRow, ...]) -> LoadAmounts:
    """Return the further loads of a node, averaged over its history."""
    loads = {
        NETWORK: _mean(
            row.netin + row.netout
            for row in history
            if row.netin is not None and row.netout is not None
        ),
        IO_PRESSURE: fraction(_mean(row.pressureiosome for row in history)),
    }
    return known_loads(loads)


def known_loads(loads: Mapping[str, float | None]) -> LoadAmounts:
    """Return the *loads* that are known."""
    known = {name: amount for name, amount in loads.items() if amount is not None}
    return known or NO_LOADS


def _storages(view: ClusterView) -> defaultdict[str, list[Storage]] | None:
    """Return the storages by node; None if the login may not read storages."""
    rows = [row for row in view.resources if row.type == "storage" and row.storage]
    if not rows:
        return None
    storages: defaultdict[str, list[Storage]] = defaultdict(list)
    for row in rows:
        if row.status != "available":
            continue
        known = row.maxdisk is not None and row.disk is not None
        storage = Storage(
            id=row.storage or "",
            shared=row.shared,
            capacity=row.maxdisk,
            free=max(0, (row.maxdisk or 0) - (row.disk or 0)) if known else None,
        )
        storages[row.node or ""].append(storage)
    return storages


def _jobs(view: ClusterView) -> defaultdict[str, set[str]]:
    """Return the types of the running tasks by node."""
    jobs: defaultdict[str, set[str]] = defaultdict(set)
    for task in view.tasks:
        if task.node is not None and task.type:
            jobs[task.node].add(task.type)
    return jobs


def _node_state(
    name: NodeId,
    row: ResourceRow | None,
    view: ClusterView,
    offline: frozenset[str | None],
    silent: frozenset[str],
) -> NodeState:
    if name in silent or row is None:
        return NodeState.UNKNOWN
    if name in view.ha.status.lost_nodes or row.hastate in ("fence", "unknown"):
        return NodeState.UNKNOWN
    in_maintenance = name in view.ha.status.maintenance or row.hastate == "maintenance"
    if row.status == "offline" or name in offline:
        # In maintenance it must not be powered on.
        return NodeState.UNKNOWN if in_maintenance else NodeState.OFFLINE
    if row.status != "online":
        return NodeState.UNKNOWN
    if in_maintenance:
        return NodeState.MAINTENANCE
    return NodeState.ONLINE


def _node_usage(
    row: ResourceRow | None, details: NodeDetails, capacity: Resources | None
) -> Usage:
    """Return the averaged CPU usage and the current memory usage of a node."""
    if row is None or capacity is None:
        return Usage()
    share = _mean(each.cpu for each in details.history)
    if share is None:
        share = row.cpu
    cpu = None if share is None else share * capacity.cpu
    return plausible_usage(cpu, row.mem, capacity)


def plausible_usage(
    cpu: float | None, memory: int | None, capacity: Resources
) -> Usage:
    """Return the usage; None for an amount that a node of *capacity* cannot have."""
    return Usage(
        cpu if cpu is not None and cpu <= max_plausible_cpu(capacity) else None,
        memory
        if memory is not None and memory <= max_plausible_memory(capacity)
        else None,
    )


def _node_pressure(history: tuple[NodeHistoryRow, ...]) -> Pressure:
    return Pressure(
        cpu=Stall(fraction(_mean(each.pressurecpusome for each in history))),
        memory=Stall(
            fraction(_mean(each.pressurememorysome for each in history)),
            fraction(_mean(each.pressurememoryfull for each in history)),
        ),
        io=Stall(
            fraction(_mean(each.pressureiosome for each in history)),
            fraction(_mean(each.pressureiofull for each in history)),
        ),
    )


def fraction(value: float | None) -> float | None:
    """Return a percentage as a fraction."""
    return None if value is None else min(value / 100, 1.0)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
