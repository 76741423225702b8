"""Checks of the storages that the disks of migrating guests need on their targets.

A disk on a storage of its node alone is copied. The space of a copy is that of the
whole disk, however much of it has arrived.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from opendrs.model import Disk, Guest, Migration, Node, NodeId, Snapshot, format_memory

# Name of a storage with its node, or without one if other nodes use it as well.
StoragePlace = tuple[NodeId | None, str]


def find_missing_storage(
    migrations: Sequence[Migration], snapshot: Snapshot
) -> str | None:
    """Return the target without a storage that a guest has a disk on, or None.

    A storage that is not listed for the node of the guest either is missing in the
    list, not on the target.

    Args:
        migrations: Migrations to start; their guests and nodes are in the snapshot.
        snapshot: Current state of the cluster.
    """
    for migration in migrations:
        guest = snapshot.guests[migration.guest]
        source, target = snapshot.nodes[guest.node], snapshot.nodes[migration.target]
        if target.storages is None:
            continue
        present = {storage.id for storage in target.storages}
        for disk, required in _requirements(guest, source):
            if required not in present:
                return (
                    f"{target.id}: no storage {required}, which the disk of {guest.id} "
                    f"on {disk.storage} needs"
                )
    return None


def find_forbidden_copy(
    migrations: Sequence[Migration], snapshot: Snapshot
) -> str | None:
    """Return the guest that has a disk on a storage of its node alone, or None."""
    for migration in migrations:
        guest = snapshot.guests[migration.guest]
        for disk, _ in _copies(guest, snapshot.nodes[guest.node]):
            return (
                f"{guest.id}: disk on {disk.storage}, a storage of {guest.node} alone; "
                "migrate_local_disks is off"
            )
    return None


def find_insufficient_storage(
    migrations: Sequence[Migration], snapshot: Snapshot
) -> str | None:
    """Return the storage on which not all copies in progress and to start fit, or None.

    Unknown sizes and unknown free space do not suffice. Copies on a shared storage
    count together, whichever node they go to.
    """
    starting = [(each.guest, each.target) for each in migrations]
    needed = incoming_bytes(snapshot)
    for name, target in starting:
        guest = snapshot.guests[name]
        for disk, storage in _copies(guest, snapshot.nodes[guest.node]):
            place = storage_place(storage, snapshot.nodes[target])
            if disk.size is None:
                return f"{guest.id}: size of the disk on {disk.storage} is unknown"
            needed[place] = needed.get(place, 0) + disk.size
    for name, target in starting:
        guest = snapshot.guests[name]
        for _, storage in _copies(guest, snapshot.nodes[guest.node]):
            node = snapshot.nodes[target]
            found = node.storage(storage)
            free = None if found is None else found.free
            if free is None:
                return f"{target}: free space of {storage} is unknown"
            required = needed[storage_place(storage, node)]
            if required > free:
                return (
                    f"{target}: {format_memory(free)} free on {storage}, copies need "
                    f"{format_memory(required)}"
                )
    return None


def copied_bytes(guest: Guest, snapshot: Snapshot) -> int:
    """Return the bytes of the disks that a migration of *guest* copies, if known."""
    node = snapshot.nodes[guest.node]
    return sum(disk.size or 0 for disk, _ in _copies(guest, node))


def incoming_bytes(snapshot: Snapshot) -> dict[StoragePlace, int]:
    """Return the bytes of the copies in progress to each storage, in full.

    These are copies of migrations and of moves of disks; unknown sizes count 0.
    """
    needed: dict[StoragePlace, int] = {}
    for guest in snapshot.guests.values():
        if not guest.disks:
            continue
        source = snapshot.nodes[guest.node]
        copies = [
            (disk, storage_place(disk.moving_to, source))
            for disk in guest.disks
            if disk.moving_to is not None
        ]
        if guest.migrating_to is not None:
            target = snapshot.nodes[guest.migrating_to]
            copies += [
                (disk, storage_place(storage, target))
                for disk, storage in _copies(guest, source)
            ]
        for disk, place in copies:
            needed[place] = needed.get(place, 0) + (disk.size or 0)
    return needed


def storage_place(storage: str, node: Node) -> StoragePlace:
    """Return the storage of *node*, without the node if other nodes use it too."""
    return None if node.shares(storage) else node.id, storage


def _copies(guest: Guest, source: Node) -> Iterator[tuple[Disk, str]]:
    """Yield the disks that a migration copies, and the storage of each copy."""
    local = [each.id for each in source.storages or () if each.shared is False]
    for disk in guest.disks or ():
        if disk.storage in local:
            yield disk, disk.target_storage or disk.storage


def _requirements(guest: Guest, source: Node) -> Iterator[tuple[Disk, str]]:
    """Yield the disks of *guest* with the storage that each needs on a target."""
    copies = dict(_copies(guest, source))
    listed = None if source.storages is None else {each.id for each in source.storages}
    for disk in guest.disks or ():
        if listed is None or disk.storage in listed:
            yield disk, copies.get(disk, disk.storage)
