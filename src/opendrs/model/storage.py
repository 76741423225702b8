"""Storages of nodes, and disks of guests."""

from __future__ import annotations

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

    Raises:
        ModelError: The size is negative.
    """

    storage: str
    size: int | None = None

    def __post_init__(self) -> None:
        if self.size is not None:
            require_amount(f"disk on {self.storage}: size", self.size)
