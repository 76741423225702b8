"""Location of guests: the domains of all hosts, merged into one guest each.

During a migration, a guest has domains on two hosts, and is paused on one of them.
Other domains with the same identity or name on several hosts are different guests:
they are listed as `name@node`, and cannot migrate.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import groupby

from opendrs.model import GuestId, NodeId
from opendrs.platforms.libvirt.responses import DomainResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestLocation:
    """A guest and its node.

    Attributes:
        id: The id of the guest: its name, or `name@node` if that is ambiguous.
        node: The node of the guest; the source during a migration.
        domain: The domain on that node.
        migrating_to: The target of a migration in progress; None without one.
        is_running: True if it runs on the node, or already on the target.
        mobility_detail: Why it must not migrate; None if its location prevents nothing.
    """

    id: GuestId
    node: NodeId
    domain: DomainResponse
    migrating_to: NodeId | None = None
    is_running: bool = False
    mobility_detail: str | None = None


def locate_guests(
    domains: Mapping[NodeId, Iterable[DomainResponse]],
) -> tuple[GuestLocation, ...]:
    """Return the guests of the cluster, each once, sorted by id and node.

    Args:
        domains: The domains of each node.
    """
    by_uuid: dict[str, list[GuestLocation]] = defaultdict(list)
    for node in sorted(domains):
        for domain in domains[node]:
            by_uuid[domain.uuid].append(_single_location(node, domain))
    guests = [
        location for group in by_uuid.values() for location in _resolve_uuid(group)
    ]
    return _distinguish_names(
        sorted(guests, key=lambda location: (location.id, location.node))
    )


def is_settled(domains: Mapping[NodeId, Iterable[DomainResponse]]) -> bool:
    """Return True if no guest seems to run on two hosts.

    Hosts are not read at the same instant: a guest may be seen running on the source
    and later on the target. Another read resolves this.
    """
    running = [
        domain.uuid
        for host_domains in domains.values()
        for domain in host_domains
        if domain.is_running
    ]
    return len(running) == len(set(running))


def _single_location(node: NodeId, domain: DomainResponse) -> GuestLocation:
    return GuestLocation(
        id=GuestId(domain.name), node=node, domain=domain, is_running=domain.is_running
    )


def _resolve_uuid(group: list[GuestLocation]) -> list[GuestLocation]:
    """Return one guest, or one for each node if several domains run."""
    active = [location for location in group if location.domain.is_active]
    if not active:
        return group[:1]  # defined on several hosts, running on none
    if len(active) == 1:
        return [_check_incoming(active[0])]
    if (migrating := _migrating_guest(active)) is not None:
        return [migrating]
    node_names = ", ".join(location.node for location in active)
    detail = f"the guest seems to run on several nodes: {node_names}; stop all but one"
    return [
        replace(_with_node_in_name(location), mobility_detail=detail)
        for location in active
    ]


def _check_incoming(location: GuestLocation) -> GuestLocation:
    if not location.domain.is_incoming:
        return location
    detail = "it is migrating from an unreachable host"
    return replace(location, mobility_detail=detail)


def _migrating_guest(active: list[GuestLocation]) -> GuestLocation | None:
    """Return the guest if two hosts have it because it is migrating."""
    if len(active) != 2:
        return None
    for source, target in (active, active[::-1]):
        is_starting = target.domain.is_incoming and not source.domain.is_incoming
        is_ending = source.domain.is_handed_over and target.domain.is_running
        if is_starting or is_ending:
            is_running = source.is_running or target.is_running
            return replace(source, migrating_to=target.node, is_running=is_running)
    return None


def _distinguish_names(guests: list[GuestLocation]) -> tuple[GuestLocation, ...]:
    """Return *guests* with the node added to names that occur more than once."""
    distinguished: list[GuestLocation] = []
    for _, group in groupby(guests, key=lambda location: location.id):
        namesakes = list(group)
        distinguished += (
            namesakes
            if len(namesakes) == 1
            else [_mark_namesake(p, namesakes) for p in namesakes]
        )
    return tuple(distinguished)


def _mark_namesake(
    location: GuestLocation, namesakes: list[GuestLocation]
) -> GuestLocation:
    others = ", ".join(other.node for other in namesakes if other is not location)
    detail = f"another guest with the same name is on {others}"
    return replace(
        _with_node_in_name(location), mobility_detail=location.mobility_detail or detail
    )


def _with_node_in_name(location: GuestLocation) -> GuestLocation:
    return replace(location, id=GuestId(f"{location.domain.name}@{location.node}"))
