"""Conversion of responses of the Proxmox VE API to guests, rules and a snapshot."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from opendrs.config.network_load import NETWORK
from opendrs.model import (
    Disk,
    Guest,
    GuestId,
    GuestKind,
    GuestState,
    LoadAmounts,
    Mobility,
    Node,
    NodeAffinity,
    NodeId,
    Pressure,
    Resources,
    Rule,
    Snapshot,
    Stall,
    Usage,
)
from opendrs.platforms.proxmox.cluster_view import (
    GUEST_TYPES,
    IO_PRESSURE,
    ClusterView,
    NodeDetails,
    guest_ids,
    guest_rows,
    instant_cpu,
)
from opendrs.platforms.proxmox.disk_copies import (
    known_disks,
    undecided_copies,
)
from opendrs.platforms.proxmox.ha import MOVING_STATES, ha_owner, ha_rules
from opendrs.platforms.proxmox.node_reading import (
    build_nodes,
    fraction,
    known_loads,
    plausible_usage,
)
from opendrs.platforms.proxmox.responses import (
    ResourceRow,
)
from opendrs.platforms.proxmox.setting_rules import (
    POOL_TAG,
    setting_rules,
    with_node_states,
)
from opendrs.platforms.proxmox.settings import ProxmoxSettings
from opendrs.platforms.proxmox.tag_rules import proxlb_tag_rules, tag_rules
from opendrs.platforms.proxmox.tasks import running_operation, service_id
from opendrs.rules import with_chosen

_GUEST_STATES = {
    "running": GuestState.RUNNING,
    "paused": GuestState.PAUSED,
    "suspended": GuestState.PAUSED,
    "prelaunch": GuestState.PAUSED,
    "stopped": GuestState.STOPPED,
}
_SEPARATORS = re.compile(r"[;, ]+")


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
    ids = guest_ids(rows, settings.guest_ids)
    nodes = build_nodes(view, settings.labels, settings.network_capacity)
    guests = {
        ids[row.vmid]: _guest(ids[row.vmid], row, nodes, view, settings)
        for row in rows
        if row.vmid is not None
    }
    nodes = with_node_states(nodes, settings)
    by_sid = {
        service_id(row.type, row.vmid): ids[row.vmid]
        for row in rows
        if row.vmid is not None
    }
    all_rules = (
        *rules,
        *ha_rules(view.ha, by_sid, nodes),
        *tag_rules(guests.values(), nodes),
        *(proxlb_tag_rules(guests.values(), nodes) if settings.proxlb_tags else ()),
        *setting_rules(guests, nodes, settings),
        *_storage_rules(view, ids, guests, settings, frozenset(nodes)),
    )
    return with_chosen(
        Snapshot(taken_at=taken_at, nodes=nodes, guests=guests, rules=all_rules)
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
    blockers = _blockers(row, node, view, settings)
    owner = ha_owner(view.ha, sid, row.hastate)
    movable = Mobility.LIVE if kind is GuestKind.VM else Mobility.COLD
    pressure = _guest_pressure(view.details.get(node.id), row)
    disks = _disks(row, view, settings)
    is_moving_disk = any(disk.moving_to is not None for disk in disks or ())
    return Guest(
        id=name,
        node=node.id,
        kind=kind,
        state=state,
        limit=_guest_limit(row),
        usage=_guest_usage(row, state, node, view),
        pressure=pressure,
        uptime=row.uptime if state is GuestState.RUNNING else None,
        mobility=Mobility.NONE if blockers else movable,
        mobility_detail="; ".join(blockers) or _cold_detail(kind),
        ha_managed=view.ha.is_managed(sid),
        managed_by=None if target else owner,
        lock=None if target or is_moving_disk else _lock(row, view),
        tags=_tags(row),
        migrating_to=target,
        disks=disks,
        loads=_guest_loads(row, pressure, view),
    )


def _guest_loads(
    row: ResourceRow, pressure: Pressure, view: ClusterView
) -> LoadAmounts:
    traffic = view.traffic.get(row.vmid or 0)
    return known_loads({NETWORK: traffic, IO_PRESSURE: pressure.io.some})


def _disks(
    row: ResourceRow, view: ClusterView, settings: ProxmoxSettings
) -> tuple[Disk, ...] | None:
    """Return the disks of a guest, with the storages that they are copied to."""
    vmid, target = row.vmid or 0, settings.target_storage
    disks = known_disks(view.disks.get(vmid), view.preconditions.get(vmid))
    if disks is None:
        return None
    is_movable = _can_move_disks(row, view)
    move = view.disk_moves.get(vmid)
    return tuple(
        replace(
            disk,
            target_storage=target,
            name=disk.name if is_movable else None,
            moving_to=move.target_storage
            if move is not None
            and (disk.name, disk.storage) == (move.disk, move.source_storage)
            else None,
        )
        for disk in disks
    )


def _can_move_disks(row: ResourceRow, view: ClusterView) -> bool:
    """Return False for running containers, and for guests that are replicated.

    The replication fails unless all their disks are on storages that support it, on
    the target of the replication as well.
    """
    if view.replicated is None or row.vmid in view.replicated:
        return False
    return GUEST_TYPES[row.type] is GuestKind.VM or row.status == "stopped"


def _tags(row: ResourceRow) -> frozenset[str]:
    """Return the tags of a guest, and its pool as the tag `pool:NAME`."""
    tags = frozenset(filter(None, _SEPARATORS.split(row.tags or "")))
    return tags | {f"{POOL_TAG}{row.pool}"} if row.pool else tags


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
    row: ResourceRow, node: Node, view: ClusterView, settings: ProxmoxSettings
) -> tuple[str, ...]:
    """Return why a guest cannot migrate to any node."""
    blockers = []
    is_stopped = row.status == "stopped"
    if row.type == "lxc" and not settings.restart_containers and not is_stopped:
        blockers.append("a container migrates by a restart; set restart_containers")
    vmid = row.vmid or 0
    known = view.preconditions.get(vmid)
    return (
        *blockers,
        *(known.blockers if known is not None else ()),
        *undecided_copies(row.type, known, view.disks.get(vmid), node),
    )


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
    return plausible_usage(cpu, row.memhost or row.mem, node.capacity)


def _guest_pressure(details: NodeDetails | None, row: ResourceRow) -> Pressure:
    guest = details.guests.get(row.vmid or 0) if details else None
    if guest is None:
        return Pressure()
    return Pressure(
        cpu=Stall(fraction(guest.pressurecpusome), fraction(guest.pressurecpufull)),
        memory=Stall(
            fraction(guest.pressurememorysome), fraction(guest.pressurememoryfull)
        ),
        io=Stall(fraction(guest.pressureiosome), fraction(guest.pressureiofull)),
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
        if guest is None:
            continue
        others = nodes - {guest.node}
        if lacking := {node for node in others if known.excludes(node, settings)}:
            rules.append(
                NodeAffinity(
                    guests=frozenset({guest.id}),
                    nodes=dict.fromkeys(sorted(nodes - lacking), 0),
                    name=f"storages of {guest.id}",
                    origin="migration preconditions of Proxmox VE",
                )
            )
    return tuple(rules)
