"""Names of guests and nodes that are valid in the files of Proxmox VE."""

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
    """Names of guests and nodes in a drill.

    Attributes:
        services: Service of each guest.
        nodes: Name of each node in the drill.
        guests: Guest of each service.
        origins: Node of each name in the drill.
    """

    services: Mapping[GuestId, ServiceId] = field(default_factory=dict)
    nodes: Mapping[NodeId, NodeId] = field(default_factory=dict)
    guests: Mapping[ServiceId, GuestId] = field(default_factory=dict)
    origins: Mapping[NodeId, NodeId] = field(default_factory=dict)

    def guest_name(self, service: ServiceId) -> str:
        """Return the guest of *service*, by its name in the snapshot."""
        return self.guests.get(service, service)

    def node_name(self, name: NodeId) -> NodeId:
        """Return the node called *name* in the drill, by its name in the snapshot."""
        return self.origins.get(name, name)


def assign_names(guests: Iterable[Guest], nodes: Iterable[NodeId]) -> PveNames:
    """Return names for *guests* and *nodes*; valid names are kept."""
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
    """Return the name of a guest in a drill, before it is made unique."""
    prefix = VIRTUAL_MACHINE if kind is GuestKind.VM else CONTAINER
    fit = _UNFIT_IN_SERVICES.sub("_", guest)
    return ServiceId(fit if fit.startswith(f"{prefix}:") else f"{prefix}:{fit}")


def unique_name(name: str, taken: Container[str]) -> str:
    """Return *name*, with a number appended if it is *taken*."""
    number, result = 2, name
    while result in taken:
        result, number = f"{name}-{number}", number + 1
    return result
