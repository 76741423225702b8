"""Moves of disks between storages: the guest and the storages during and after them."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import replace

from opendrs.errors import ModelError
from opendrs.model.disk_copies import with_space
from opendrs.model.guest import Guest
from opendrs.model.identifiers import NodeId
from opendrs.model.node import Node
from opendrs.model.plan import DiskMove
from opendrs.model.storage import Disk


def disk_named(guest: Guest, name: str) -> Disk | None:
    """Return the disk *name* of *guest*; None if there is none."""
    return next((each for each in guest.disks or () if each.name == name), None)


def storage_users(
    storage: str, node: NodeId, nodes: Mapping[NodeId, Node]
) -> tuple[NodeId, ...]:
    """Return the nodes that use the same *storage* as *node*, itself included."""
    if not nodes[node].shares(storage):
        return (node,)
    return tuple(name for name, each in nodes.items() if each.shares(storage))


def start_disk_move(guest: Guest, move: DiskMove) -> Guest:
    """Return *guest* while its disk is being moved.

    Raises:
        ModelError: The disk is not on its storage.
    """
    disk = _moved_disk(guest, move)
    return _with_disk(guest, replace(disk, moving_to=move.target_storage))


def finish_disk_move(
    guest: Guest, move: DiskMove, nodes: MutableMapping[NodeId, Node]
) -> Guest:
    """Return *guest* after its disk has been moved, and change the space in *nodes*.

    A shared storage changes for all nodes that use it. The space of a disk of unknown
    size is unknown afterwards.

    Raises:
        ModelError: The disk is not on its storage.
    """
    disk = _moved_disk(guest, move)
    for name, sign in ((move.source_storage, 1), (move.target_storage, -1)):
        for user in storage_users(name, move.node, nodes):
            node = nodes[user]
            storages = with_space(node.storages or (), [(name, disk.size, sign)])
            nodes[user] = replace(node, storages=storages)
    return _with_disk(guest, replace(disk, storage=move.target_storage, moving_to=None))


def _moved_disk(guest: Guest, move: DiskMove) -> Disk:
    disk = disk_named(guest, move.disk)
    if disk is None or disk.storage != move.source_storage:
        where = "absent" if disk is None else f"on {disk.storage}"
        raise ModelError(
            f"{guest.id}: disk {move.disk}: expected on {move.source_storage}, is "
            f"{where}"
        )
    return disk


def _with_disk(guest: Guest, changed: Disk) -> Guest:
    """Return *guest* with the disk of that name changed."""
    disks = (
        changed if each.name == changed.name else each for each in guest.disks or ()
    )
    return replace(guest, disks=tuple(disks))
