"""Which guests are services of the HA manager, and what is wanted of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from opendrs.model import Guest, GuestId, NodeId, Snapshot
from opendrs.pve_ha.simulator.injected_failures import InjectedFailures
from opendrs.pve_ha.states import RequestedState
from opendrs.pve_ha.status_files import ServiceConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRequest:
    """What the operator says of a service, beside where it is.

    Attributes:
        state: What is wanted of it; None for what it does.
        failback: Whether it goes to a better node once there is one.
        max_restart: How often an agent tries to start it again.
        max_relocate: How many other nodes are tried when it does not start.
        lock: What it is locked for.
        failures: How it fails; None for not at all.
        managed: Whether it is a service at all; None for what the guest says.
    """

    state: RequestedState | None = None
    failback: bool = True
    max_restart: int = 1
    max_relocate: int = 1
    lock: str | None = None
    failures: InjectedFailures | None = None
    managed: bool | None = None

    def config(self, guest: Guest, node: NodeId) -> ServiceConfig:
        """Return the configuration of *guest*, which is on *node*."""
        default = RequestedState.STARTED if guest.is_active else RequestedState.STOPPED
        return ServiceConfig(
            node=node,
            state=self.state or default,
            failback=self.failback,
            max_restart=self.max_restart,
            max_relocate=self.max_relocate,
            lock=self.lock,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRequests:
    """What the operator says of all services.

    Attributes:
        by_guest: What is said of single guests.
        default: What is said of all others.
        all_managed: Whether every guest is a service, whatever it says.
    """

    by_guest: Mapping[GuestId, ServiceRequest] = field(default_factory=dict)
    default: ServiceRequest = field(default_factory=ServiceRequest)
    all_managed: bool = False

    def request_for(self, guest: GuestId) -> ServiceRequest:
        """Return what is said of *guest*."""
        return self.by_guest.get(guest, self.default)


def managed_guests(snapshot: Snapshot, requests: ServiceRequests) -> tuple[Guest, ...]:
    """Return the guests that are services of the HA manager."""
    unknown = is_management_unknown(snapshot)
    return tuple(
        guest
        for guest in snapshot.guests.values()
        if _is_managed(guest, requests, unknown=unknown)
    )


def is_management_unknown(snapshot: Snapshot) -> bool:
    """Return whether no guest says if an HA manager cares for it."""
    return all(guest.ha_managed is None for guest in snapshot.guests.values())


def _is_managed(guest: Guest, requests: ServiceRequests, *, unknown: bool) -> bool:
    if requests.all_managed:
        return True
    if guest.id in requests.by_guest:
        return requests.by_guest[guest.id].managed is not False
    return bool(guest.ha_managed) or unknown
