"""Conversion of Incus responses to a snapshot.

Memory in use comes from the state of a member: total minus free and buffers. It
includes the page cache, which `GET /1.0/resources` excludes. So the smaller figure is
used, unless the version answers `/1.0/resources` from a cache that never expires.

Incus has no CPU usage of a host, only load averages. The busy cores of a node are its
load average over five minutes, at most its number of threads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from opendrs.config.network_load import with_capacity, with_guest_traffic
from opendrs.model import (
    MAX_AMOUNT,
    Node,
    NodeId,
    NodeState,
    Resources,
    Rule,
    Snapshot,
    Storage,
    Usage,
)
from opendrs.platforms.incus.cluster_responses import EVACUATING, ClusterResponses
from opendrs.platforms.incus.guests import GuestReader
from opendrs.platforms.incus.mobility import SCHEDULED, SCHEDULER
from opendrs.platforms.incus.responses import (
    HostResources,
    Member,
    MemberState,
    PoolSpace,
)
from opendrs.platforms.incus.rules import key_words, platform_rules
from opendrs.platforms.incus.settings import IncusSettings
from opendrs.rules import with_chosen

# Versions that answer GET /1.0/resources from a cache that never expires.
FROZEN_RESOURCES = ("6.0.4", "6.0.5")
_MEMBER_STATES = {
    "Online": NodeState.ONLINE,
    "Evacuated": NodeState.MAINTENANCE,
    "Evacuating": NodeState.EXCLUDED,  # Incus itself migrates its guests
    "Restoring": NodeState.EXCLUDED,
}


def build_snapshot(
    responses: ClusterResponses, settings: IncusSettings, rules: Sequence[Rule]
) -> Snapshot:
    """Return the snapshot of a cluster.

    Args:
        responses: All responses.
        settings: The settings.
        rules: Placement rules of the operator, in addition to those of Incus.
    """
    shared = responses.shared_pools()
    nodes = {
        NodeId(member.server_name): build_node(member, responses, shared)
        for member in responses.members
    }
    nodes = with_capacity(nodes, settings.network_capacity)
    known = [each for each in responses.instances if each.location in nodes]
    reader = GuestReader(responses, settings, nodes, shared)
    guests = [reader.build_guest(instance) for instance in known]
    derived = platform_rules(known, responses.members, responses.projects)
    return with_chosen(
        Snapshot(
            taken_at=responses.taken_at,
            nodes=with_guest_traffic(nodes, guests),
            guests={guest.id: guest for guest in guests},
            rules=(*rules, *derived),
        )
    )


def build_node(
    member: Member, responses: ClusterResponses, shared: Mapping[str, bool | None]
) -> Node:
    """Return the node of *member*; its state is unknown if it did not respond."""
    name = member.server_name
    state, resources = responses.states.get(name), responses.resources.get(name)
    labels = set(key_words(member.config, "labels"))
    if (scheduled := member.config.get(SCHEDULER, SCHEDULED)) != SCHEDULED:
        labels.add(f"{SCHEDULER}={scheduled}")
    known = Node(
        id=NodeId(name),
        architecture=(resources and resources.cpu.architecture)
        or member.architecture
        or None,
        cpu_model=_cpu_model(resources),
        labels=frozenset(labels),
        groups=frozenset(member.groups),
        failure_domain=_failure_domain(member),
    )
    if state is None:
        return known
    return _with_state(known, member, state, responses, shared)


def _with_state(
    node: Node,
    member: Member,
    state: MemberState,
    responses: ClusterResponses,
    shared: Mapping[str, bool | None],
) -> Node:
    system, resources = state.sysinfo, responses.resources.get(node.id)
    threads = 0 if resources is None else resources.cpu.total
    load = [max(0.0, round(average, 2)) for average in system.load_averages]
    capacity = (
        Resources(threads, system.total_ram)
        if threads > 0 and 0 < system.total_ram <= MAX_AMOUNT
        else None
    )
    is_live = (
        responses.version not in FROZEN_RESOURCES
        and node.id not in responses.stale_resources
    )
    started_at = responses.taken_at - timedelta(seconds=max(0, system.uptime))
    return Node(
        id=node.id,
        capacity=capacity,
        usage=Usage(
            None if capacity is None else min(load[1], capacity.cpu),
            _used_memory(state, resources if is_live else None),
        ),
        state=_MEMBER_STATES.get(member.status, NodeState.UNKNOWN),
        architecture=node.architecture,
        cpu_model=node.cpu_model,
        labels=node.labels,
        load_average=load[0],
        powered_on_at=started_at.replace(microsecond=0),
        groups=node.groups,
        failure_domain=node.failure_domain,
        storages=_storages(state, shared) or None,
        jobs=(member.status.lower(),) if member.status in EVACUATING else (),
    )


def _used_memory(state: MemberState, resources: HostResources | None) -> int | None:
    system = state.sysinfo
    used = system.total_ram - system.free_ram - system.buffered_ram
    if resources is not None and resources.memory.used > 0:
        used = min(used, resources.memory.used)
    return used if 0 <= used <= MAX_AMOUNT else None


def _cpu_model(resources: HostResources | None) -> str | None:
    sockets = () if resources is None else resources.cpu.sockets
    return next((socket.name for socket in sockets if socket.name), None)


def _failure_domain(member: Member) -> str | None:
    """Return the failure domain; None for the default, which says nothing."""
    domain = member.failure_domain
    return None if domain in ("", "default") else domain


def _storages(
    state: MemberState, shared: Mapping[str, bool | None]
) -> tuple[Storage, ...]:
    return tuple(
        replace(_storage(name, pool.space), shared=shared.get(name))
        for name, pool in sorted(state.storage_pools.items())
    )


def _storage(name: str, space: PoolSpace) -> Storage:
    """Return a pool with its space, if the member reports it."""
    if not 0 < space.total <= MAX_AMOUNT or space.used < 0:
        return Storage(id=name)
    free = max(0, space.total - space.used)
    return Storage(id=name, capacity=space.total, free=free)
