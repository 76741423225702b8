"""Storages of nodes, disks of guests, and what a migration copies of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from opendrs.errors import ModelError
from opendrs.model.resources import require_amount


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """Storage that a node can use for the disks of its guests.

    Attributes:
        id: Name. Two nodes with a shared storage of the same name use the same one;
            storages that are not shared are separate even if their names are equal.
        shared: Whether other nodes use it as well; None if unknown.
        capacity: Total bytes; None if unknown.
        free: Free bytes; None if unknown.

    Raises:
        ModelError: An amount is negative, or more is free than the capacity.
    """

    id: str
    shared: bool | None = None
    capacity: int | None = None
    free: int | None = None

    def __post_init__(self) -> None:
        for name in ("capacity", "free"):
            value = getattr(self, name)
            if value is not None:
                require_amount(f"storage {self.id}: {name}", value)
        free, capacity = self.free, self.capacity
        if free is not None and capacity is not None and free > capacity:
            raise ModelError(
                f"storage {self.id}: free: expected at most the capacity "
                f"{capacity}, got {free}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """Disk of a guest.

    Attributes:
        storage: Name of its storage, as in `Storage.id`.
        size: Bytes that a copy of it occupies; None if unknown.
        target_storage: Storage of the target that a migration copies it to, if its own
            is not shared; None for the one of the same name.
        name: Name on the platform, by which it is moved to another storage; None if the
            platform cannot move it.
        moving_to: Storage that it is being moved to; None if it is not.

    Raises:
        ModelError: The size is negative.
    """

    storage: str
    size: int | None = None
    target_storage: str | None = None
    name: str | None = None
    moving_to: str | None = None

    def __post_init__(self) -> None:
        if self.size is not None:
            require_amount(f"disk on {self.storage}: size", self.size)

    @property
    def copied_to(self) -> str:
        """Return the storage of the target that a copy is on."""
        return self.target_storage or self.storage


def require_unique_names(guest: str, disks: Sequence[Disk]) -> None:
    """Check that no two disks of *guest* have the same name.

    Raises:
        ModelError: Two do.
    """
    names = [disk.name for disk in disks if disk.name is not None]
    if len({*names}) < len(names):
        raise ModelError(f"{guest}: disks: two have the same name: {', '.join(names)}")


def local_disks(
    disks: Sequence[Disk] | None, storages: Sequence[Storage] | None
) -> tuple[Disk, ...]:
    """Return the disks that a migration copies: their storage is known to be local.

    Args:
        disks: Disks of a guest; None if unknown.
        storages: Storages of its node; None if unknown.
    """
    if not disks or not storages:
        return ()
    local = {each.id for each in storages if each.shared is False}
    return tuple(disk for disk in disks if disk.storage in local)


def needed_storages(
    disks: Sequence[Disk] | None, storages: Sequence[Storage] | None
) -> frozenset[str]:
    """Return the storages that another node needs for a guest with these disks.

    A storage that is not listed for the node of the guest is missing in the list, not
    on the node, and is left out.

    Args:
        disks: Disks of the guest; None if unknown.
        storages: Storages of its node; None if unknown.
    """
    copied = local_disks(disks, storages)
    listed = None if storages is None else {each.id for each in storages}
    return frozenset(
        disk.copied_to if disk in copied else disk.storage
        for disk in disks or ()
        if listed is None or disk.storage in listed
    )


def missing_storages(
    needed: frozenset[str], storages: Sequence[Storage] | None
) -> frozenset[str]:
    """Return those of *needed* that a node with *storages* lacks; none if unknown."""
    if not needed or storages is None:
        return frozenset()
    return needed - {each.id for each in storages}
