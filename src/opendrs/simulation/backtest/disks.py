"""Disks of a backtest: recorded disks on simulated storages.

A disk appears on its recorded storage and stays there until it is moved, as a guest
stays on its node. The free space of a storage is the recorded one, without the disks
that are on another storage in the simulation, and with those that are only there on it.
Disks without a name follow the record.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace

from opendrs.model import (
    Disk,
    Guest,
    GuestId,
    Node,
    NodeId,
    Snapshot,
    Storage,
    storage_users,
)


class SimulatedDisks:
    """Storages of the disks with a name, also of guests that are gone."""

    def __init__(self) -> None:
        self._storage_of: dict[GuestId, dict[str, str]] = {}

    def keep(self, guests: Mapping[GuestId, Guest]) -> None:
        """Keep the storages of the disks of *guests*."""
        for guest in guests.values():
            named = {each.name: each.storage for each in guest.disks or () if each.name}
            if named:
                self._storage_of.setdefault(guest.id, {}).update(named)

    def placed(self, guest: Guest, former: Guest | None) -> Guest:
        """Return the recorded *guest* with its disks on their simulated storages.

        Args:
            guest: The guest.
            former: The guest before, on the same node; None to end moves of its disks.
        """
        storage_of = self._storage_of.get(guest.id)
        if not guest.disks or not storage_of:
            return guest
        moving = {each.name: each.moving_to for each in (former and former.disks) or ()}
        disks = tuple(
            _placed_disk(each, storage_of, moving.get(each.name))
            for each in guest.disks
        )
        return guest if disks == guest.disks else replace(guest, disks=disks)


def _placed_disk(
    disk: Disk, storage_of: Mapping[str, str], moving_to: str | None
) -> Disk:
    """Return the recorded *disk* on its simulated storage; unchanged without a name."""
    storage = storage_of.get(disk.name, disk.storage) if disk.name else disk.storage
    if disk.name is None or (storage, moving_to) == (disk.storage, disk.moving_to):
        return disk
    return replace(disk, storage=storage, moving_to=moving_to)


def with_simulated_space(
    nodes: Mapping[NodeId, Node],
    recorded: Mapping[GuestId, Guest],
    simulated: Mapping[GuestId, Guest],
) -> dict[NodeId, Node]:
    """Return *nodes* with the free space of the simulated disks.

    The space of a storage is unknown if the size of a disk is that only the record or
    only the simulation has there.

    Args:
        nodes: The nodes with the recorded free space.
        recorded: The guests as recorded.
        simulated: The same guests in the simulation.
    """
    change: defaultdict[tuple[NodeId, str], float] = defaultdict(float)
    for name, guest in recorded.items():
        there = simulated[name]
        if guest.node == there.node and guest.disks == there.disks:
            continue
        for one, other in zip(guest.disks or (), there.disks or (), strict=True):
            before = _places(one, guest.node, nodes)
            after = _places(other, there.node, nodes)
            size = math.nan if one.size is None else float(one.size)
            for place in before - after:
                change[place] += size
            for place in after - before:
                change[place] -= size
    changed = dict(nodes)
    for node in {node for node, _ in change}:
        storages = nodes[node].storages
        if storages is not None:
            changed[node] = replace(
                nodes[node],
                storages=tuple(
                    _with_change(each, change.get((node, each.id), 0.0))
                    for each in storages
                ),
            )
    return changed


def moved_disks(before: Snapshot, after: Snapshot) -> Iterator[Disk]:
    """Yield the disks with a name that are on another storage *after* than *before*.

    Disks of guests that are on another node are left out.
    """
    for guest in after.guests.values():
        former = before.guests.get(guest.id)
        if former is None or former.node != guest.node or former.disks == guest.disks:
            continue
        storage_of = {each.name: each.storage for each in former.disks or ()}
        for disk in guest.disks or ():
            if disk.name and storage_of.get(disk.name, disk.storage) != disk.storage:
                yield disk


def _places(
    disk: Disk, node: NodeId, nodes: Mapping[NodeId, Node]
) -> set[tuple[NodeId, str]]:
    """Return the nodes that see the space of *disk*, each with its storage."""
    return {(each, disk.storage) for each in storage_users(disk.storage, node, nodes)}


def _with_change(storage: Storage, change: float) -> Storage:
    """Return *storage* with *change* bytes more free; unknown if that is NaN."""
    if storage.free is None or not change:
        return storage
    if math.isnan(change):
        return replace(storage, free=None)
    free = max(0, storage.free + round(change))
    if storage.capacity is not None:
        free = min(free, storage.capacity)
    return replace(storage, free=free)
