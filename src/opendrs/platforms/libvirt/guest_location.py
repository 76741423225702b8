"""Which domains on which hosts are one guest, and where it is.

A guest that migrates is on two hosts, at one of which it stands still. Anything
else that is on two hosts is not one guest on the move: it is named after its
host as well, so that nothing is hidden, and it is not to be moved.
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
    """A guest, and where it is.

    Attributes:
        id: What opendrs calls it.
        node: Where it is.
        domain: What that node says.
        migrating_to: Where else it is, as it moves there.
        is_running: Whether it runs, here or already at the target.
        mobility_detail: Why it must be left alone, in words.
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
    """Return every guest of the cluster once."""
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
    """Return whether no guest seems to run on two hosts.

    Hosts are not read at one instant: a guest that was still running on one
    may be running on the other a moment later. Reading again tells.
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
    """Return one guest, or each of those which should be one."""
    active = [location for location in group if location.domain.is_active]
    if not active:
        return group[:1]  # defined on several hosts, running on none
    if len(active) == 1:
        return [_check_incoming(active[0])]
    if (migrating := _migrating_guest(active)) is not None:
        return [migrating]
    node_names = ", ".join(location.node for location in active)
    detail = f"one guest seems to run on {node_names} at once: stop all but one"
    return [
        replace(_with_node_in_name(location), mobility_detail=detail)
        for location in active
    ]


def _check_incoming(location: GuestLocation) -> GuestLocation:
    if not location.domain.is_incoming:
        return location
    detail = "it is arriving from a host that does not answer"
    return replace(location, mobility_detail=detail)


def _migrating_guest(active: list[GuestLocation]) -> GuestLocation | None:
    """Return the guest that two hosts have as it moves, if that is the case."""
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
    """Return *guests* with different guests of one name told apart."""
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
    detail = f"another guest of the same name is on {others}"
    return replace(
        _with_node_in_name(location), mobility_detail=location.mobility_detail or detail
    )


def _with_node_in_name(location: GuestLocation) -> GuestLocation:
    return replace(location, id=GuestId(f"{location.domain.name}@{location.node}"))
