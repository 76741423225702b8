"""Recorded load of small clusters: the same guests at several times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from opendrs.model import GIB, Disk, GuestId, Rule, Snapshot, Storage
from support.builders import NOON, cluster

HOST_LOAD = 0.1  # load of each node without guests


def recorded_snapshots(
    guests: Mapping[str, tuple[str, Sequence[float]]],
    *,
    nodes: Sequence[str] = ("a", "b"),
    minutes: Sequence[float] | None = None,
    rules: Iterable[Rule] = (),
) -> list[Snapshot]:
    """Return one snapshot for each load of the guests.

    Args:
        guests: Node of each guest, and its loads as fractions of a node.
        nodes: The nodes.
        minutes: Time of each snapshot; None for one every ten minutes.
        rules: Placement rules.
    """
    count = len(next(iter(guests.values()))[1])
    times = range(0, 10 * count, 10) if minutes is None else minutes
    snapshots = []
    for index, minute in enumerate(times):
        loads = dict.fromkeys(nodes, HOST_LOAD)
        for where, series in guests.values():
            loads[where] += series[index]
        snapshot = cluster(
            nodes=loads,
            guests={
                name: (where, series[index]) for name, (where, series) in guests.items()
            },
            rules=rules,
        )
        snapshots.append(replace(snapshot, taken_at=NOON + timedelta(minutes=minute)))
    return snapshots


def with_dirty_rate(snapshots: Iterable[Snapshot], rate: float) -> list[Snapshot]:
    """Return *snapshots* with guests that write *rate* bytes of memory per second."""
    return [
        replace(
            snapshot,
            guests={
                name: replace(guest, dirty_rate=rate)
                for name, guest in snapshot.guests.items()
            },
        )
        for snapshot in snapshots
    ]


def with_full_storage(
    snapshots: Iterable[Snapshot], *, shared: bool = False, size: int | None = 20 * GIB
) -> list[Snapshot]:
    """Return *snapshots* with the disk scsi0 of the guest v on the storage one.

    That storage has 100 GiB, of which 10 are free at first and one less each time. The
    storage two of each node has 60 of 100 GiB free.
    """
    disk = Disk(storage="one", size=size, name="scsi0")
    filled = []
    for index, snapshot in enumerate(snapshots):
        storages = two_storages(10 - index, 60, shared=shared)
        v = snapshot.guests[GuestId("v")]
        nodes = {
            name: replace(node, storages=storages)
            for name, node in snapshot.nodes.items()
        }
        guests = {**snapshot.guests, v.id: replace(v, disks=(disk,))}
        filled.append(replace(snapshot, nodes=nodes, guests=guests))
    return filled


def two_storages(one: int, two: int, *, shared: bool = False) -> tuple[Storage, ...]:
    """Return two storages of 100 GiB, of which so many are free."""
    return tuple(
        Storage(id=name, shared=shared, capacity=100 * GIB, free=free * GIB)
        for name, free in (("one", one), ("two", two))
    )
