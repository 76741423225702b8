"""Selection of HA-managed guests, and their requested configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from opendrs.model import Guest, GuestId, NodeId, Snapshot
from opendrs.pve_ha.simulator.injected_failures import InjectedFailures
from opendrs.pve_ha.states import RequestedState
from opendrs.pve_ha.status_files import ServiceConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRequest:
    """Requested configuration of a service, without its node.

    Attributes:
        state: Requested state; None for the current one.
        failback: The service returns to a preferred node once one is available.
        max_restart: Retries of a failed start on the same node.
        max_relocate: Other nodes that are tried after failed starts.
        lock: Reason of a lock; None if it is not locked.
        failures: Injected failures; None for none.
        managed: True or False to override the snapshot; None to use its value.
    """

    state: RequestedState | None = None
    failback: bool = True
    max_restart: int = 1
    max_relocate: int = 1
    lock: str | None = None
    failures: InjectedFailures | None = None
    managed: bool | None = None

    def config(self, guest: Guest, node: NodeId) -> ServiceConfig:
        """Return the configuration of *guest* on *node*."""
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
    """Requested configuration of all services.

    Attributes:
        by_guest: Requests for single guests.
        default: Request for all other guests.
        all_managed: Every guest is a service, whatever the snapshot contains.
    """

    by_guest: Mapping[GuestId, ServiceRequest] = field(default_factory=dict)
    default: ServiceRequest = field(default_factory=ServiceRequest)
    all_managed: bool = False

    def request_for(self, guest: GuestId) -> ServiceRequest:
        """Return the request for *guest*."""
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
    """Return True if HA management is unknown for every guest."""
    return all(guest.ha_managed is None for guest in snapshot.guests.values())


def _is_managed(guest: Guest, requests: ServiceRequests, *, unknown: bool) -> bool:
    if requests.all_managed:
        return True
    if guest.id in requests.by_guest:
        return requests.by_guest[guest.id].managed is not False
    return bool(guest.ha_managed) or unknown
