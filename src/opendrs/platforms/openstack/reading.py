"""Responses of Nova and Placement as nodes and guests of the model.

Nova has no load: the use of nodes and guests is unknown. What Placement has allocated
is no use, and is reported as limits and allocations only.

A guest has the id `NAME/UUID8`, the name of the server and the first 8 digits of its
UUID: names alone are not unique, and users choose them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from opendrs.model import (
    GIB,
    Allocation,
    Disk,
    Guest,
    GuestId,
    GuestKind,
    GuestState,
    Mobility,
    Node,
    NodeId,
    NodeState,
    Resources,
    Storage,
)
from opendrs.platforms.openstack.mobility import (
    affinity_blockers,
    live_blockers,
    lock_of,
)
from opendrs.platforms.openstack.responses import (
    Aggregate,
    ComputeService,
    Flavor,
    Hypervisor,
    Inventory,
    LiveMigrationProgress,
    MigrationRecord,
    ResourceProvider,
    Server,
    ServerGroup,
)

MIB = 1 << 20
LOCAL_STORAGE, VOLUMES = "local", "volumes"
_CPU, _MEMORY, _DISK = ("VCPU", "PCPU"), "MEMORY_MB", "DISK_GB"
_ARCHITECTURE = "HW_ARCH_"
_CUSTOM = "CUSTOM_"
_PREFIX_LENGTH = 8  # digits of the UUID in the id of a guest
_POWER_STATES: Mapping[int | None, GuestState] = {
    1: GuestState.RUNNING,
    3: GuestState.PAUSED,
    4: GuestState.STOPPED,
    6: GuestState.STOPPED,  # crashed
    7: GuestState.STOPPED,  # suspended
}
"""Source: nova/objects/fields.py of Nova 34, InstancePowerState."""
_VM_STATES: Mapping[str, GuestState] = {
    "active": GuestState.RUNNING,
    "paused": GuestState.PAUSED,
    "suspended": GuestState.STOPPED,  # its memory is on disk
    "stopped": GuestState.STOPPED,
    "shelved": GuestState.STOPPED,
    "soft-delete": GuestState.STOPPED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudState:
    """Responses that describe a cloud at one instant.

    Attributes:
        taken_at: Time of the observation, time zone aware.
        services: The services nova-compute.
        hypervisors: The compute nodes.
        providers: Resource providers by the id of the compute node; without those that
            Placement did not return.
        aggregates: The host aggregates.
        servers: The servers of all projects.
        groups: The server groups of all projects.
        progress: Live migration of each migrating server, by its id.
        completed: Live migrations that were completed recently.
    """

    taken_at: datetime
    services: tuple[ComputeService, ...]
    hypervisors: tuple[Hypervisor, ...]
    providers: Mapping[str, ResourceProvider]
    aggregates: tuple[Aggregate, ...]
    servers: tuple[Server, ...]
    groups: tuple[ServerGroup, ...] = ()
    progress: Mapping[str, LiveMigrationProgress] = field(default_factory=dict)
    completed: tuple[MigrationRecord, ...] = ()


def guest_ids(servers: Iterable[Server]) -> dict[str, GuestId]:
    """Return the id of the guest by the UUID of each server of the cloud.

    Servers with the same name and the same first digits have the whole UUID.
    """
    known = [each for each in servers if each.name is not None]
    short = {each.id: f"{each.name}/{each.id[:_PREFIX_LENGTH]}" for each in known}
    count = Counter(short.values())
    return {
        each.id: GuestId(
            short[each.id] if count[short[each.id]] == 1 else f"{each.name}/{each.id}"
        )
        for each in known
    }


def managed_services(
    state: CloudState, zones: tuple[str, ...] = ()
) -> tuple[ComputeService, ...]:
    """Return the services whose hosts are nodes: those of *zones*, without bare metal.

    A service without a zone belongs to a cell that does not respond.
    """
    types: dict[str, set[str | None]] = {}
    for each in state.hypervisors:
        types.setdefault(each.service.host, set()).add(each.hypervisor_type)
    return tuple(
        each
        for each in state.services
        if types.get(each.host) != {"ironic"}
        and (not zones or each.zone is None or each.zone in zones)
    )


def nodes_of(
    state: CloudState, services: Iterable[ComputeService]
) -> dict[NodeId, Node]:
    """Return the nodes of *services*, by the name of the host."""
    hypervisors: dict[str, list[str]] = {}
    for each in state.hypervisors:
        hypervisors.setdefault(each.service.host, []).append(each.id)
    flavors = _flavors_by_host(state)
    aggregates: dict[str, list[Aggregate]] = {}
    for aggregate in state.aggregates:
        for host in aggregate.hosts:
            aggregates.setdefault(host, []).append(aggregate)
    nodes: dict[NodeId, Node] = {}
    for service in services:
        node = _node(service, aggregates.get(service.host, ()))
        found = hypervisors.get(service.host, [])
        # With several compute nodes, amounts of the host would be ambiguous.
        provider = state.providers.get(found[0]) if len(found) == 1 else None
        if provider is not None:
            node = _with_provider(node, provider, flavors.get(service.host, ()))
        nodes[node.id] = node
    return nodes


def _flavors_by_host(state: CloudState) -> dict[str, list[Flavor]]:
    """Return the flavors of the servers on each host, or on their way to it."""
    flavors: dict[str, list[Flavor]] = {}
    for server in state.servers:
        migration = state.progress.get(server.id)
        target = None if migration is None else migration.dest_compute
        for host in {server.host, target} - {None}:
            if host is not None and server.flavor is not None:
                flavors.setdefault(host, []).append(server.flavor)
    return flavors


def _node(service: ComputeService, aggregates: Collection[Aggregate]) -> Node:
    labels = {
        f"{key}={value}"
        for each in aggregates
        for key, value in each.metadata.items()
        if key != "availability_zone"
    }
    return Node(
        id=NodeId(service.host),
        state=_node_state(service),
        labels=frozenset(labels),
        groups=frozenset(each.name for each in aggregates),
        failure_domain=service.zone,
    )


def _node_state(service: ComputeService) -> NodeState:
    is_enabled = service.status == "enabled"
    if service.forced_down:
        # Disabled as well, it must not be powered on.
        return NodeState.OFFLINE if is_enabled else NodeState.UNKNOWN
    if service.state != "up":
        return NodeState.UNKNOWN
    if not is_enabled:
        return NodeState.MAINTENANCE
    return NodeState.ONLINE


def _with_provider(
    node: Node, provider: ResourceProvider, flavors: Iterable[Flavor]
) -> Node:
    """Return *node* with amounts and traits of its resource provider.

    What is allocated to other consumers than its servers is reserved.

    Args:
        node: The node.
        provider: Its resource provider.
        flavors: Flavors of the servers on it.
    """
    flavors = tuple(flavors)
    cpus = [provider.inventories[k] for k in _CPU if k in provider.inventories]
    memory = provider.inventories.get(_MEMORY)
    architectures = [t for t in provider.traits if t.startswith(_ARCHITECTURE)]
    used_cpu = sum(provider.usages.get(k, 0) for k in _CPU)
    other_cpu = max(0, used_cpu - sum(each.vcpus for each in flavors))
    used_memory = provider.usages.get(_MEMORY, 0)
    other_memory = max(0, used_memory - sum(each.ram for each in flavors))
    cpu_ratio = _mean_ratio(cpus)
    changes: dict[str, Any] = {
        "labels": node.labels | {t for t in provider.traits if t.startswith(_CUSTOM)},
        "storages": (*_local_storage(provider), Storage(id=VOLUMES, shared=True)),
    }
    if len(architectures) == 1:
        changes["architecture"] = architectures[0].removeprefix(_ARCHITECTURE).lower()
    total = sum(each.total for each in cpus)
    if total and memory is not None and memory.total and cpu_ratio:
        changes["capacity"] = Resources(float(total), memory.total * MIB)
        changes["allocation"] = Allocation(
            cpu_ratio=cpu_ratio,
            memory_ratio=memory.allocation_ratio,
            reserved_cpu=sum(each.reserved for each in cpus) + other_cpu / cpu_ratio,
            reserved_memory=memory.reserved * MIB
            + int(other_memory / memory.allocation_ratio * MIB),
        )
    return replace(node, **changes)


def _mean_ratio(cpus: Iterable[Inventory]) -> float | None:
    """Return the allocation ratio of shared and dedicated CPUs together."""
    usable = [(each.total - each.reserved, each.allocation_ratio) for each in cpus]
    total = sum(amount for amount, _ in usable)
    return sum(a * ratio for a, ratio in usable) / total if total > 0 else None


def _local_storage(provider: ResourceProvider) -> Iterator[Storage]:
    inventory = provider.inventories.get(_DISK)
    if inventory is not None:
        # Free space is not known: Placement only knows what is allocated.
        yield Storage(id=LOCAL_STORAGE, capacity=inventory.total * GIB)


def guests_of(
    state: CloudState,
    ids: Mapping[str, GuestId],
    nodes: Mapping[NodeId, Node],
) -> dict[GuestId, Guest]:
    """Return the servers on *nodes* as guests.

    Args:
        state: The responses.
        ids: Ids of the guests, by the UUID of the server.
        nodes: The nodes, by the name of the host.
    """
    migrated = {
        each.instance_uuid: each.updated_at
        for each in sorted(state.completed, key=lambda each: each.id)
    }
    unmovable = dict(affinity_blockers(state.groups, state.servers))
    placed = (
        (server, NodeId(server.host))
        for server in state.servers
        if server.host is not None
    )
    guests = (
        _guest(
            server,
            ids[server.id],
            nodes[host],
            state,
            nodes=nodes,
            blockers=(*live_blockers(server), *unmovable.get(server.id, ())),
            migrated_at=migrated.get(server.id),
        )
        for server, host in placed
        if server.id in ids and host in nodes
    )
    return {guest.id: guest for guest in guests}


def _guest(  # noqa: PLR0913 - the parts of a guest
    server: Server,
    name: GuestId,
    node: Node,
    state: CloudState,
    *,
    nodes: Mapping[NodeId, Node],
    blockers: tuple[str, ...],
    migrated_at: datetime | None,
) -> Guest:
    migration = state.progress.get(server.id)
    target = None if migration is None else migration.dest_compute
    migrating_to = None
    if target is not None and target in nodes and target != node.id:
        migrating_to = NodeId(target)
    guest_state = _guest_state(server) if node.reachable else GuestState.UNKNOWN
    launched = server.launched_at
    return Guest(
        id=name,
        node=node.id,
        kind=GuestKind.VM,
        state=guest_state,
        limit=_limit(server.flavor),
        uptime=None
        if launched is None or guest_state is not GuestState.RUNNING
        else max(0.0, (state.taken_at - launched).total_seconds()),
        mobility=Mobility.NONE if blockers else Mobility.LIVE,
        mobility_detail="; ".join(blockers) or None,
        tags=frozenset(server.tags),
        migrating_to=migrating_to,
        migrated_at=migrated_at,
        lock=lock_of(server, is_followed=migrating_to is not None),
        disks=_disks(server),
    )


def _limit(flavor: Flavor | None) -> Resources | None:
    if flavor is None:
        return None
    return Resources(float(flavor.vcpus), flavor.ram * MIB)


def _guest_state(server: Server) -> GuestState:
    """Return the run state; in states between two others, by the power state."""
    known = _VM_STATES.get(server.vm_state or "")
    if known is not None:
        return known
    return _POWER_STATES.get(server.power_state, GuestState.UNKNOWN)


def _disks(server: Server) -> tuple[Disk, ...] | None:
    """Return the disks on the host, and the volumes; None if the flavor is unknown.

    A server that boots from a volume has no image, and no root disk on the host.
    """
    flavor = server.flavor
    if flavor is None:
        return None
    root = flavor.disk if server.image else 0
    local = (root + flavor.ephemeral) * GIB + flavor.swap * MIB
    disks = [Disk(storage=LOCAL_STORAGE, size=local)] if local else []
    return (*disks, *(Disk(storage=VOLUMES) for _ in server.volumes))
