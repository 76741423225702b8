"""Conversion of responses of the Proxmox VE API to nodes, guests and rules."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from statistics import fmean

from opendrs.model import (
    MIN_CPU,
    Guest,
    GuestId,
    GuestKind,
    GuestState,
    Mobility,
    Node,
    NodeAffinity,
    NodeId,
    NodeState,
    Pressure,
    Resources,
    Rule,
    Snapshot,
    Stall,
    Storage,
    Usage,
    max_plausible_cpu,
    max_plausible_memory,
)
from opendrs.platforms.proxmox.ha import MOVING_STATES, HaView, ha_owner, ha_rules
from opendrs.platforms.proxmox.preconditions import Preconditions
from opendrs.platforms.proxmox.responses import (
    ClusterRow,
    GuestRow,
    NodeHistoryRow,
    ResourceRow,
    TaskRow,
)
from opendrs.platforms.proxmox.settings import ProxmoxSettings
from opendrs.platforms.proxmox.tasks import running_operation, service_id

GUEST_TYPES = {"qemu": GuestKind.VM, "lxc": GuestKind.CONTAINER}
_GUEST_STATES = {
    "running": GuestState.RUNNING,
    "paused": GuestState.PAUSED,
    "suspended": GuestState.PAUSED,
    "prelaunch": GuestState.PAUSED,
    "stopped": GuestState.STOPPED,
}
_SEPARATORS = re.compile(r"[;, ]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDetails:
    """Responses about one node; None or empty for those that are not available.

    Attributes:
        history: Averages of the last minutes, oldest first.
        guests: The pressure of its guests by number.
        cpu_model: Model of its CPUs.
        architecture: Instruction set.
        ksm_shared: Bytes saved by merging equal pages.
    """

    history: tuple[NodeHistoryRow, ...] = ()
    guests: Mapping[int, GuestRow] = field(default_factory=dict)
    cpu_model: str | None = None
    architecture: str | None = None
    ksm_shared: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """All that one observation has read.

    Attributes:
        resources: Rows of nodes, guests and storages.
        cluster: Rows of the status of the cluster.
        tasks: Running tasks.
        ha: The HA stack.
        details: Responses about single nodes.
        silent_nodes: Nodes that did not answer.
        preconditions: Migration preconditions by number of the guest.
        targets: Target nodes of running migrations by number of the guest.
        average_cpu: CPU usage of guests in cores, averaged over a window.
    """

    resources: tuple[ResourceRow, ...]
    cluster: tuple[ClusterRow, ...]
    tasks: tuple[TaskRow, ...] = ()
    ha: HaView = field(default_factory=HaView)
    details: Mapping[str, NodeDetails] = field(default_factory=dict)
    silent_nodes: frozenset[str] = frozenset()
    preconditions: Mapping[int, Preconditions] = field(default_factory=dict)
    targets: Mapping[int, str] = field(default_factory=dict)
    average_cpu: Mapping[int, float] = field(default_factory=dict)


def build_snapshot(
    view: ClusterView,
    settings: ProxmoxSettings,
    rules: Iterable[Rule],
    taken_at: datetime,
) -> Snapshot:
    """Return the snapshot of the cluster.

    Args:
        view: The responses.
        settings: The settings of the cluster.
        rules: Placement rules of the operator, in addition to those of the cluster.
        taken_at: Time of the observation.
    """
    rows = guest_rows(view.resources)
    ids = guest_ids(rows)
    nodes = _nodes(view)
    guests = {
        ids[row.vmid]: _guest(ids[row.vmid], row, nodes, view, settings)
        for row in rows
        if row.vmid is not None
    }
    by_sid = {
        service_id(row.type, row.vmid): ids[row.vmid]
        for row in rows
        if row.vmid is not None
    }
    return Snapshot(
        taken_at=taken_at,
        nodes=nodes,
        guests=guests,
        rules=(
            *rules,
            *ha_rules(view.ha, by_sid, nodes),
            *_storage_rules(view, ids, guests, settings, frozenset(nodes)),
        ),
    )


def guest_rows(resources: Iterable[ResourceRow]) -> tuple[ResourceRow, ...]:
    """Return the rows of guests on a node, without templates."""
    return tuple(
        row
        for row in resources
        if row.type in GUEST_TYPES and row.vmid and row.node and not row.template
    )


def guest_ids(rows: Iterable[ResourceRow]) -> dict[int, GuestId]:
    """Return the id of each guest by its number.

    This is its name; followed by its number if another guest has the same name, or
    only its number if it has none.
    """
    named = {row.vmid: row.name or "" for row in rows if row.vmid is not None}
    counts = Counter(named.values())
    return {
        vmid: GuestId(_guest_name(name, vmid, counts)) for vmid, name in named.items()
    }


def _guest_name(name: str, vmid: int, counts: Counter[str]) -> str:
    if not name:
        return str(vmid)
    return name if counts[name] == 1 else f"{name}/{vmid}"


def is_quorate(cluster: Iterable[ClusterRow]) -> bool:
    """Return False if the API host is in a part of the cluster without quorum."""
    return not any(row.type == "cluster" and row.quorate is False for row in cluster)


def _nodes(view: ClusterView) -> dict[NodeId, Node]:
    names = [row.name for row in view.cluster if row.type == "node" and row.name]
    names += [row.node for row in guest_rows(view.resources) if row.node]
    rows = {row.node: row for row in view.resources if row.type == "node" and row.node}
    return {
        NodeId(name): _node(NodeId(name), rows.get(name), view)
        for name in dict.fromkeys([*rows, *names])
    }


def _node(name: NodeId, row: ResourceRow | None, view: ClusterView) -> Node:
    state = _node_state(name, row, view)
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
        storages=_storages(name, view),
        jobs=tuple(
            sorted(
                {t.type for t in view.tasks if t.node == name and t.type is not None}
            )
        ),
    )


def _storages(node: NodeId, view: ClusterView) -> tuple[Storage, ...] | None:
    """Return the storages of *node*; None if the login may not read storages."""
    rows = [row for row in view.resources if row.type == "storage" and row.storage]
    if not rows:
        return None
    return tuple(
        Storage(
            id=row.storage or "",
            shared=row.shared,
            capacity=row.maxdisk,
            free=None
            if row.maxdisk is None or row.disk is None
            else max(0, row.maxdisk - row.disk),
        )
        for row in rows
        if row.node == node and row.status == "available"
    )


def _node_state(name: NodeId, row: ResourceRow | None, view: ClusterView) -> NodeState:
    online = {each.name: each.online for each in view.cluster if each.type == "node"}
    if not is_quorate(view.cluster) or name in view.silent_nodes or row is None:
        return NodeState.UNKNOWN
    if name in view.ha.status.lost_nodes or row.hastate in ("fence", "unknown"):
        return NodeState.UNKNOWN
    if row.status != "online" or online.get(name) is False:
        is_offline = row.status == "offline" or online.get(name) is False
        return NodeState.OFFLINE if is_offline else NodeState.UNKNOWN
    if name in view.ha.status.maintenance or row.hastate == "maintenance":
        return NodeState.MAINTENANCE
    return NodeState.ONLINE


def _node_usage(
    row: ResourceRow | None, details: NodeDetails, capacity: Resources | None
) -> Usage:
    """Return the averaged CPU usage and the current memory usage of a node."""
    if row is None or capacity is None:
        return Usage()
    fraction = _mean(each.cpu for each in details.history)
    if fraction is None:
        fraction = row.cpu
    cpu = None if fraction is None else fraction * capacity.cpu
    return _plausible_usage(cpu, row.mem, capacity)


def _plausible_usage(
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
        cpu=Stall(_percent(_mean(each.pressurecpusome for each in history))),
        memory=Stall(
            _percent(_mean(each.pressurememorysome for each in history)),
            _percent(_mean(each.pressurememoryfull for each in history)),
        ),
        io=Stall(
            _percent(_mean(each.pressureiosome for each in history)),
            _percent(_mean(each.pressureiofull for each in history)),
        ),
    )


def recent_history(
    rows: Iterable[NodeHistoryRow], window: float
) -> tuple[NodeHistoryRow, ...]:
    """Return the rows with figures of the last *window* seconds of *rows*.

    The last row is the present; a node without recent figures has no history.
    """
    timed = [row for row in rows if row.time is not None]
    if not timed:
        return ()
    end = max(row.time or 0 for row in timed)
    return tuple(
        row
        for row in timed
        if row.cpu is not None and (row.time or 0) > end - max(window, 120)
    )


def _guest(
    name: GuestId,
    row: ResourceRow,
    nodes: Mapping[NodeId, Node],
    view: ClusterView,
    settings: ProxmoxSettings,
) -> Guest:
    node = nodes[NodeId(row.node or "")]
    kind = GUEST_TYPES[row.type]
    sid = service_id(row.type, row.vmid or 0)
    state = _GUEST_STATES.get(row.status or "", GuestState.UNKNOWN)
    if not node.reachable:
        state = GuestState.UNKNOWN
    target = _target(row, sid, nodes, view)
    blockers = _blockers(row, view, settings)
    owner = ha_owner(view.ha, sid, row.hastate)
    movable = Mobility.LIVE if kind is GuestKind.VM else Mobility.COLD
    return Guest(
        id=name,
        node=node.id,
        kind=kind,
        state=state,
        limit=_guest_limit(row),
        usage=_guest_usage(row, state, node, view),
        pressure=_guest_pressure(view.details.get(node.id), row),
        uptime=row.uptime if state is GuestState.RUNNING else None,
        mobility=Mobility.NONE if blockers else movable,
        mobility_detail="; ".join(blockers) or _cold_detail(kind),
        ha_managed=view.ha.is_managed(sid),
        managed_by=None if target else owner,
        lock=None if target else _lock(row, view),
        tags=frozenset(filter(None, _SEPARATORS.split(row.tags or ""))),
        migrating_to=target,
    )


def _cold_detail(kind: GuestKind) -> str | None:
    return "containers migrate by a restart" if kind is GuestKind.CONTAINER else None


def _target(
    row: ResourceRow, sid: str, nodes: Mapping[NodeId, Node], view: ClusterView
) -> NodeId | None:
    """Return the target of the migration of a guest; None if there is none."""
    service = view.ha.status.services.get(sid)
    target = view.targets.get(row.vmid or 0)
    if service is not None and service.state in MOVING_STATES:
        target = service.target or target
    if not target or target == row.node or NodeId(target) not in nodes:
        return None
    return NodeId(target)


def _lock(row: ResourceRow, view: ClusterView) -> str | None:
    return row.lock or running_operation(view.tasks, row.vmid or 0)


def _blockers(
    row: ResourceRow, view: ClusterView, settings: ProxmoxSettings
) -> tuple[str, ...]:
    """Return why a guest cannot migrate to any node."""
    blockers = []
    if row.type == "lxc" and not settings.restart_containers:
        blockers.append("a container migrates by a restart; set restart_containers")
    known = view.preconditions.get(row.vmid or 0)
    return (*blockers, *(known.blockers(settings) if known is not None else ()))


def _guest_limit(row: ResourceRow) -> Resources | None:
    if row.maxcpu is None or row.maxmem is None:
        return None
    return Resources(row.maxcpu, row.maxmem)


def _guest_usage(
    row: ResourceRow, state: GuestState, node: Node, view: ClusterView
) -> Usage:
    """Return the usage of a guest; the memory is that of its process if reported."""
    if node.capacity is None or state is GuestState.UNKNOWN:
        return Usage()
    cpu = view.average_cpu.get(row.vmid or 0, instant_cpu(row))
    return _plausible_usage(cpu, row.memhost or row.mem, node.capacity)


def instant_cpu(row: ResourceRow) -> float | None:
    """Return the cores that a guest uses now; None if not reported."""
    if row.cpu is None or row.maxcpu is None:
        return None
    return row.cpu * row.maxcpu


def _guest_pressure(details: NodeDetails | None, row: ResourceRow) -> Pressure:
    guest = details.guests.get(row.vmid or 0) if details else None
    if guest is None:
        return Pressure()
    return Pressure(
        cpu=Stall(_percent(guest.pressurecpusome), _percent(guest.pressurecpufull)),
        memory=Stall(
            _percent(guest.pressurememorysome), _percent(guest.pressurememoryfull)
        ),
        io=Stall(_percent(guest.pressureiosome), _percent(guest.pressureiofull)),
    )


def _storage_rules(
    view: ClusterView,
    ids: Mapping[int, GuestId],
    guests: Mapping[GuestId, Guest],
    settings: ProxmoxSettings,
    nodes: frozenset[NodeId],
) -> tuple[Rule, ...]:
    """Return a rule for each guest with a storage that some nodes lack."""
    rules = []
    for vmid, known in sorted(view.preconditions.items()):
        guest = guests.get(ids.get(vmid, GuestId("")))
        lacking = {n for n in nodes if known.storages_missing_on(n, settings)}
        if guest is not None and lacking and guest.node not in lacking:
            rules.append(
                NodeAffinity(
                    guests=frozenset({guest.id}),
                    nodes=dict.fromkeys(sorted(nodes - lacking), 0),
                    name=f"storages of {guest.id}",
                    origin="migration preconditions of Proxmox VE",
                )
            )
    return tuple(rules)


def _percent(value: float | None) -> float | None:
    """Return a percentage as a fraction."""
    return None if value is None else min(value / 100, 1.0)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
