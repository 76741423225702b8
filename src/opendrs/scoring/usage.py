"""From a snapshot to the loads of its nodes."""

from __future__ import annotations

from enum import StrEnum

from opendrs.model import Guest, NodeId, Resources, Snapshot
from opendrs.model.resources import NOTHING
from opendrs.scoring.load import NodeLoad


class UsageMode(StrEnum):
    """What counts as taken on a node.

    DYNAMIC is what was measured in use, STATIC the limits of its guests.

    Source:
        Proxmox VE 9, the crs option ha: dynamic or static.
    """

    STATIC = "static"
    DYNAMIC = "dynamic"


def node_loads(snapshot: Snapshot, mode: UsageMode) -> dict[NodeId, NodeLoad]:
    """Return the load of each online node that is known, in order of name.

    What is missing is named by `unmeasured`. In STATIC mode a guest that moves
    counts on both nodes.
    """
    taken = _promised(snapshot) if mode is UsageMode.STATIC else _measured(snapshot)
    return {
        name: taken[name]
        for name, node in sorted(snapshot.nodes.items())
        if node.online and name in taken
    }


def unmeasured(snapshot: Snapshot, mode: UsageMode) -> tuple[str, ...]:
    """Return the names of what must be known and is not, sorted.

    These are online nodes without capacity or, in DYNAMIC mode, usage; in
    STATIC mode, guests without limit. None of them is an empty one.
    """
    nodes = [
        name
        for name, node in snapshot.nodes.items()
        if node.online
        and (
            node.capacity is None
            or (mode is UsageMode.DYNAMIC and node.usage.known is None)
        )
    ]
    guests = [
        guest.id
        for guest in snapshot.guests.values()
        if mode is UsageMode.STATIC and guest.locations and guest.limit is None
    ]
    return (*sorted(nodes), *sorted(guests))


def demand(guest: Guest, mode: UsageMode) -> Resources | None:
    """Return what *guest* takes along when it moves, or None if not known."""
    return guest.limit if mode is UsageMode.STATIC else guest.usage.known


def _measured(snapshot: Snapshot) -> dict[NodeId, NodeLoad]:
    return {
        name: NodeLoad(node.capacity, used)
        for name, node in snapshot.nodes.items()
        if node.capacity is not None and (used := node.usage.known) is not None
    }


def _promised(snapshot: Snapshot) -> dict[NodeId, NodeLoad]:
    loads = {
        name: NodeLoad(node.capacity, NOTHING)
        for name, node in snapshot.nodes.items()
        if node.capacity is not None
    }
    for _, guest in sorted(snapshot.guests.items()):
        for where in guest.locations:
            if where in loads and guest.limit is not None:
                loads[where] = loads[where].with_started(guest.limit)
    return loads
