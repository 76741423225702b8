"""Groups of storages among which disks of guests may be moved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from opendrs.errors import ModelError

MIN_STORAGES = 2  # between which a disk can be moved


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageGroup:
    """Storages that are equally good for the same disks.

    Attributes:
        name: Name in messages.
        storages: Names of the storages; at least two.
        threshold: Fraction of the capacity of each storage, above 0 and up to 1. Disks
            are moved away from a storage with more in use, and none is moved to a
            storage that would then have more in use.

    Raises:
        ModelError: The threshold is out of range, or there are too few storages.
    """

    __pydantic_config__: ClassVar[Mapping[str, str]] = {"extra": "forbid"}

    name: str
    storages: tuple[str, ...]
    threshold: float = 0.8

    def __post_init__(self) -> None:
        if len({*self.storages}) < max(MIN_STORAGES, len(self.storages)):
            raise ModelError(
                f"{self.name}: storages: expected at least {MIN_STORAGES} different "
                f"ones, got {', '.join(self.storages) or 'none'}"
            )
        if not 0 < self.threshold <= 1:
            raise ModelError(
                f"{self.name}: threshold: expected above 0 and at most 1, got "
                f"{self.threshold:g}"
            )

    def limit(self, capacity: int) -> int:
        """Return the bytes in use up to which a storage of *capacity* is not full."""
        return int(self.threshold * capacity)


def require_storage_groups(groups: Iterable[StorageGroup]) -> None:
    """Check that no storage is in two groups.

    Raises:
        ModelError: One is.
    """
    owner: dict[str, str] = {}
    for group in groups:
        for storage in group.storages:
            other = owner.setdefault(storage, group.name)
            if other != group.name:
                raise ModelError(
                    f"storage_groups: storage {storage} is in {other} and {group.name}"
                )
