"""Disks of guests that a migration copies, and those that limits cannot decide about.

The limits decide about copies of the local disks in a snapshot. A migration must
therefore copy no disk that the last snapshot does not contain as local. Proxmox VE
reports the local disks of virtual machines with their migration preconditions. It
does not report those of containers, and copies them without a parameter.
"""

from __future__ import annotations

from opendrs.model import MAX_AMOUNT, Disk, GuestKind, Node, Snapshot, local_disks
from opendrs.platforms.proxmox.cluster_view import GUEST_TYPES
from opendrs.platforms.proxmox.preconditions import Preconditions
from opendrs.platforms.proxmox.tasks import ProxmoxTask


def known_disks(
    configured: tuple[Disk, ...] | None, known: Preconditions | None
) -> tuple[Disk, ...] | None:
    """Return the disks of a guest; None if none are known.

    Args:
        configured: Disks in its configuration; None if it was not read.
        known: Its preconditions; None if they were not read. Their disks on further
            storages are added: the configuration may be missing, or older.
    """
    present = {disk.storage for disk in configured or ()}
    further = tuple(
        Disk(storage=storage, size=_amount(size))
        for volume, size in (known.local_disks if known is not None else {}).items()
        if (storage := _storage_of(volume)) not in present
    )
    return configured if not further else (*(configured or ()), *further)


def undecided_copies(
    kind: str,
    known: Preconditions | None,
    configured: tuple[Disk, ...] | None,
    node: Node,
) -> tuple[str, ...]:
    """Return why the limits cannot decide about the copies of disks of a guest.

    Args:
        kind: Type of the guest, `qemu` or `lxc`.
        known: Its preconditions; None if they were not read.
        configured: Disks in its configuration; None if it was not read.
        node: Its node; the storages are unknown if the login may not read them.
    """
    copied = _copied_storages(kind, known, configured, node)
    local = {each.id for each in node.storages or () if each.shared is False}
    return tuple(
        f"a disk is on {storage}, which may be local: that storage of {node.id} is "
        f"unknown; it is read with Datastore.Audit on /storage/{storage}"
        for storage in sorted(copied - local)
    )


def unseen_copies(
    task: ProxmoxTask,
    known: Preconditions,
    configured: tuple[Disk, ...] | None,
    snapshot: Snapshot | None,
) -> tuple[str, ...]:
    """Return the copies of disks that the limits have not decided about.

    Args:
        task: The migration.
        known: Preconditions of the guest, read now.
        configured: Disks of a container, read now; None for a virtual machine.
        snapshot: The last snapshot; None if there is none.
    """
    seen = None if snapshot is None else snapshot.guests.get(task.guest)
    node = Node(id=task.source)
    disks: tuple[Disk, ...] = ()
    if snapshot is not None and seen is not None and seen.node == node.id:
        node = snapshot.nodes[node.id]
        disks = local_disks(seen.disks, node.storages)
    copied = _copied_storages(task.kind, known, configured, node)
    return tuple(
        f"its disk on {storage} is not in the last snapshot as a local disk"
        for storage in sorted(copied - {disk.storage for disk in disks})
    )


def _copied_storages(
    kind: str,
    known: Preconditions | None,
    configured: tuple[Disk, ...] | None,
    node: Node,
) -> frozenset[str]:
    """Return the storages of disks that a migration copies, or may copy."""
    if GUEST_TYPES[kind] is GuestKind.VM:
        return frozenset(map(_storage_of, known.local_disks if known else ()))
    shared = {each.id for each in node.storages or () if each.shared}
    return frozenset(disk.storage for disk in configured or ()) - shared


def _storage_of(volume: str) -> str:
    return volume.partition(":")[0]


def _amount(size: int | None) -> int | None:
    return size if size is not None and 0 <= size <= MAX_AMOUNT else None
