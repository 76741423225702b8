"""Which guests are services of the HA manager, and what is wanted of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from opendrs.ha.documents import ServiceConfig
from opendrs.ha.states import Requested
from opendrs.model import Guest, GuestId, NodeId, Snapshot
from opendrs.sim.drill.failing import Failures


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the operator says of a service, beside where it is.

    Attributes:
        state: What is wanted of it; None for what it does.
        failback: Whether it goes to a better node once there is one.
        max_restart: How often an agent tries to start it again.
        max_relocate: How many other nodes are tried when it does not start.
        lock: What it is locked for.
        fails: How it fails; None for not at all.
        managed: Whether it is a service at all; None for what the guest says.
    """

    state: Requested | None = None
    failback: bool = True
    max_restart: int = 1
    max_relocate: int = 1
    lock: str | None = None
    fails: Failures | None = None
    managed: bool | None = None

    def config(self, guest: Guest, node: NodeId) -> ServiceConfig:
        """Return the configuration of *guest*, which is on *node*."""
        usual = Requested.STARTED if guest.present else Requested.STOPPED
        return ServiceConfig(
            node=node,
            state=self.state or usual,
            failback=self.failback,
            max_restart=self.max_restart,
            max_relocate=self.max_relocate,
            lock=self.lock,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the operator says of all services.

    Attributes:
        of: What is said of single guests.
        otherwise: What is said of all others.
        all_managed: Whether every guest is a service, whatever it says.
    """

    of: Mapping[GuestId, Wish] = field(default_factory=dict)
    otherwise: Wish = field(default_factory=Wish)
    all_managed: bool = False

    def wish(self, guest: GuestId) -> Wish:
        """Return what is said of *guest*."""
        return self.of.get(guest, self.otherwise)


def managed_guests(snapshot: Snapshot, wishes: Wishes) -> tuple[Guest, ...]:
    """Return the guests that are services of the HA manager."""
    unknown = nothing_known_of_management(snapshot)
    return tuple(
        guest
        for guest in snapshot.guests.values()
        if _is_managed(guest, wishes, unknown=unknown)
    )


def nothing_known_of_management(snapshot: Snapshot) -> bool:
    """Return whether no guest says if an HA manager cares for it."""
    return all(guest.ha_managed is None for guest in snapshot.guests.values())


def _is_managed(guest: Guest, wishes: Wishes, *, unknown: bool) -> bool:
    if wishes.all_managed:
        return True
    if guest.id in wishes.of:
        return wishes.of[guest.id].managed is not False
    return bool(guest.ha_managed) or unknown
