"""Space of storages as further columns of what nodes have and groups require."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from opendrs.model import Guest, Limits, NodeId, Snapshot, copied_size, copied_space
from opendrs.rules import available_space, released_space, required_space

Floats = npt.NDArray[np.float64]


class StorageColumns:
    """Bytes on each storage that local disks may be copied to, one column for each.

    There is no column where no local disk may be copied, or none is known.

    Args:
        snapshot: Cluster.
        limits: Limits of the operator.
    """

    def __init__(self, snapshot: Snapshot, limits: Limits) -> None:
        self._snapshot = snapshot
        self._is_allowed = limits.migrate_local_disks

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Storages of the S columns, in order of name."""
        nodes = self._snapshot.nodes
        if not self._is_allowed or not any(each.storages for each in nodes.values()):
            return ()
        names = {
            name
            for guest in self._snapshot.guests.values()
            if guest.disks
            for name in copied_space(guest, nodes[guest.node])
        }
        return tuple(sorted(names))

    def available(self, nodes: Sequence[NodeId]) -> Floats:
        """Return the free space on each of *nodes*; 0 if unknown; shape (N, S)."""
        space = available_space(self._snapshot) if self.names else {}
        return self._rows(
            [space[node].get(name, 0.0) for name in self.names] if space else []
            for node in nodes
        )

    def usable(self, nodes: Sequence[NodeId]) -> Floats:
        """Return the same for empty storages: the capacity, if it is known.

        Otherwise it is the space after all local disks have left.
        """
        present = {node: dict.fromkeys(self.names, 0.0) for node in nodes}
        for guest in self._snapshot.guests.values() if self.names else ():
            if guest.disks and guest.node in present:
                node = self._snapshot.nodes[guest.node]
                for name, size in released_space(guest, node).items():
                    if name in present[guest.node]:
                        present[guest.node][name] += size
        freed = self._rows(list(present[node].values()) for node in nodes)
        capacity = self._rows(map(self._capacities, nodes))
        usable: Floats = np.where(
            np.isnan(capacity), self.available(nodes) + freed, capacity
        )
        return usable

    def required(self, groups: Iterable[Iterable[Guest]]) -> Floats:
        """Return the bytes of the copies for each group; shape (n, S)."""
        return self._rows(map(self.required_by, groups))

    def required_by(self, guests: Iterable[Guest]) -> tuple[float, ...]:
        """Return the bytes of the copies for *guests*; infinity if unknown."""
        if not self.names:
            return ()
        required = required_space(guests, self._snapshot.nodes)
        return tuple(required.get(name, 0.0) for name in self.names)

    def released(self, guest: Guest) -> tuple[float, ...]:
        """Return the bytes that *guest* frees on its node."""
        if not self.names:
            return ()
        released = released_space(guest, self._snapshot.nodes[guest.node])
        return tuple(released.get(name, 0.0) for name in self.names)

    def copied(self, guests: Iterable[Guest]) -> Floats:
        """Return the bytes of the local disks of each guest; shape (n,)."""
        nodes = self._snapshot.nodes
        return np.array([copied_size(each, nodes[each.node]) for each in guests], float)

    def _capacities(self, node: NodeId) -> list[float]:
        """Return the capacity of each storage of *node*; NaN if unknown."""
        known = {
            storage.id: storage.capacity
            for storage in self._snapshot.nodes[node].storages or ()
            if storage.capacity is not None and storage.free is not None
        }
        return [known.get(name, math.nan) for name in self.names]

    def _rows(self, rows: Iterable[Sequence[float]]) -> Floats:
        found = list(rows)
        return np.array(found, float).reshape(len(found), len(self.names))
