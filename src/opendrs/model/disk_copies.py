"""Copies of local disks that a migration makes: their size, space and result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from opendrs.model.guest import Guest
from opendrs.model.node import Node
from opendrs.model.storage import Disk, Storage, local_disks


def copied_size(guest: Guest, node: Node) -> int:
    """Return the bytes of the local disks of *guest*; unknown ones count 0."""
    if not guest.disks:
        return 0
    return sum(disk.size or 0 for disk in local_disks(guest.disks, node.storages))


def copied_space(guest: Guest, node: Node) -> Mapping[str, int | None]:
    """Return the bytes that copies of the local disks of *guest* occupy.

    Args:
        guest: The guest.
        node: Its node.

    Returns:
        Bytes for each storage of the target; None if the size of a disk is unknown.
    """
    space: dict[str, int | None] = {}
    for disk in local_disks(guest.disks, node.storages):
        known = space.get(disk.copied_to, 0)
        unknown = known is None or disk.size is None
        space[disk.copied_to] = None if unknown else (known or 0) + (disk.size or 0)
    return space


def copy_disks(guest: Guest, source: Node, target: Node) -> tuple[Guest, Node, Node]:
    """Return *guest*, *source* and *target* after the local disks have been copied.

    The space of a disk of unknown size is unknown afterwards.
    """
    copied = local_disks(guest.disks, source.storages)
    if not copied:
        return guest, source, target
    disks = tuple(
        replace(disk, storage=disk.copied_to) if disk in copied else disk
        for disk in guest.disks or ()
    )
    left = [(disk.storage, disk.size, 1) for disk in copied]
    arrived = [(disk.copied_to, disk.size, -1) for disk in copied]
    return (
        replace(guest, disks=disks),
        replace(source, storages=with_space(source.storages or (), left)),
        target
        if target.storages is None
        else replace(target, storages=with_space(target.storages, arrived)),
    )


def with_space(
    storages: Iterable[Storage], changes: Iterable[tuple[str, int | None, int]]
) -> tuple[Storage, ...]:
    """Return *storages* with a size freed (1) or occupied (-1) on some of them."""
    found = {each.id: each for each in storages}
    for name, size, sign in changes:
        storage = found.get(name)
        if storage is None or storage.free is None:
            continue
        free = None if size is None else max(0, storage.free + sign * size)
        if free is not None and storage.capacity is not None:
            free = min(free, storage.capacity)
        found[name] = replace(storage, free=free)
    return tuple(found.values())


def has_mapped_copies(guest: Guest) -> bool:
    """Return True if a disk of *guest* may be copied to a storage of another name."""
    return any(map(_is_mapped, guest.disks or ()))


def _is_mapped(disk: Disk) -> bool:
    return disk.copied_to != disk.storage
