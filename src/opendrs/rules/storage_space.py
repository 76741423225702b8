"""Free space of storages, and the space that copies of local disks need there."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping

from opendrs.model import (
    Guest,
    Node,
    NodeId,
    Snapshot,
    copied_space,
    format_memory,
    local_disks,
    storage_users,
)

# Bytes by storage.
Space = Mapping[str, float]


def available_space(snapshot: Snapshot) -> dict[NodeId, Space]:
    """Return the free space of the storages of each node.

    A copy in progress counts on its target in full, however much of it has arrived,
    also that of a disk that is moved to another storage of its node. A storage of
    unknown free space has none: nothing can be shown to fit.
    """
    space = {
        name: {each.id: float(each.free or 0) for each in node.storages or ()}
        for name, node in snapshot.nodes.items()
    }
    for guest in snapshot.guests.values():
        for disk in guest.disks or ():
            if disk.moving_to is not None:
                for user in storage_users(disk.moving_to, guest.node, snapshot.nodes):
                    left = space[user].get(disk.moving_to, 0.0) - (disk.size or 0)
                    space[user][disk.moving_to] = max(0.0, left)
        if guest.disks and guest.migrating_to is not None:
            required = required_space((guest,), snapshot.nodes)
            target = space[guest.migrating_to]
            for name, size in required.items():
                target[name] = max(0.0, target.get(name, 0.0) - size)
    return dict(space)


def required_space(
    guests: Iterable[Guest], nodes: Mapping[NodeId, Node]
) -> dict[str, float]:
    """Return the space that *guests* require on another node; infinity if unknown.

    Args:
        guests: Guests that migrate to the same node.
        nodes: Nodes of the cluster.
    """
    required: dict[str, float] = {}
    for guest in guests:
        for name, size in copied_space(guest, nodes[guest.node]).items():
            required[name] = required.get(name, 0.0) + (
                math.inf if size is None else size
            )
    return required


def released_space(guest: Guest, node: Node) -> dict[str, float]:
    """Return the space that *guest* frees on its *node*; unknown sizes count 0."""
    released: dict[str, float] = {}
    for disk in local_disks(guest.disks, node.storages):
        released[disk.storage] = released.get(disk.storage, 0.0) + (disk.size or 0)
    return released


def space_shortage(
    required: Space, available: Space, unknown: Container[str] = ()
) -> str | None:
    """Return the storage on which *required* does not fit, or None.

    Args:
        required: Bytes to copy to each storage.
        available: Free space of the storages of the target.
        unknown: Storages whose free space is unknown, so that *available* has none.
    """
    for name, size in sorted(required.items()):
        if size == math.inf:
            return f"size of a disk to copy to {name} is unknown"
        left = available.get(name, 0.0) - size
        if left < 0 and name in unknown:
            return f"free space of {name} is unknown"
        if left < 0:
            return f"insufficient space on {name}: {format_memory(int(-left))} short"
    return None
