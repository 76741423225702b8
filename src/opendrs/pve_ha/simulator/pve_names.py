"""Names that fit Proxmox VE's files, for guests and nodes of any platform."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field

from opendrs.model import Guest, GuestId, GuestKind, NodeId
from opendrs.pve_ha.states import CONTAINER, VIRTUAL_MACHINE, ServiceId

_UNFIT_IN_SERVICES = re.compile(r"[\s,;]|[^ -~]")
_UNFIT_IN_NODES = re.compile(r"[^a-zA-Z0-9-]", re.ASCII)


@dataclass(frozen=True, slots=True)
class PveNames:
    """What guests and nodes are called in a drill.

    Attributes:
        services: The service of each guest.
        nodes: What each node is called there.
        guests: The guest of each service.
        origins: The node of each name used there.
    """

    services: Mapping[GuestId, ServiceId] = field(default_factory=dict)
    nodes: Mapping[NodeId, NodeId] = field(default_factory=dict)
    guests: Mapping[ServiceId, GuestId] = field(default_factory=dict)
    origins: Mapping[NodeId, NodeId] = field(default_factory=dict)

    def guest_name(self, service: ServiceId) -> str:
        """Return what the operator calls *service*."""
        return self.guests.get(service, service)

    def node_name(self, name: NodeId) -> NodeId:
        """Return what the operator calls the node *name*."""
        return self.origins.get(name, name)


def assign_names(guests: Iterable[Guest], nodes: Iterable[NodeId]) -> PveNames:
    """Return names for all of these; those that fit are kept."""
    services: dict[ServiceId, GuestId] = {}
    for guest in sorted(guests, key=lambda guest: guest.id):
        wanted = service_name(guest.id, guest.kind)
        services[ServiceId(unique_name(wanted, services.keys()))] = guest.id
    node_names: dict[NodeId, NodeId] = {}
    for node in sorted(nodes):
        fit = _UNFIT_IN_NODES.sub("-", node).strip("-") or "node"
        node_names[NodeId(unique_name(fit, node_names.keys()))] = node
    return PveNames(
        services={guest: service for service, guest in services.items()},
        nodes={node: name for name, node in node_names.items()},
        guests=services,
        origins=node_names,
    )


def service_name(guest: GuestId, kind: GuestKind) -> ServiceId:
    """Return what a guest is called in a drill, unless another is called so."""
    prefix = VIRTUAL_MACHINE if kind is GuestKind.VM else CONTAINER
    fit = _UNFIT_IN_SERVICES.sub("_", guest)
    return ServiceId(fit if fit.startswith(f"{prefix}:") else f"{prefix}:{fit}")


def unique_name(name: str, taken: Container[str]) -> str:
    """Return *name*, with a number behind it while it is *taken*."""
    number, result = 2, name
    while result in taken:
        result, number = f"{name}-{number}", number + 1
    return result
