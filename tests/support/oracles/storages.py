"""Clusters with storages, and what steps need of them, from the fields alone."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from opendrs.model import GIB, Disk, GuestId, Snapshot, Step, Storage
from support.oracles.interleavings import migration_of


def misses_storage(snapshot: Snapshot, step: Step) -> bool:
    """Return True if *step* leads to a node that lacks a storage of the guest."""
    action = migration_of(step)
    listed = snapshot.nodes[action.target].storages
    if listed is None:
        return False
    names = [each.id for each in listed]
    return any(
        disk.storage not in names for disk in snapshot.guests[action.guest].disks or ()
    )


def with_local_disks(
    snapshot: Snapshot, seed: int, *, mapped: bool = False
) -> Snapshot:
    """Return *snapshot* with a nearly full local storage on each node.

    Most guests have a disk on it, of which some have an unknown size, and a node of
    five lacks the storage.

    Args:
        snapshot: Cluster without storages.
        seed: What is drawn.
        mapped: Whether copies go to a second local storage.
    """
    random = Random(seed)  # noqa: S311 - drawn, not a secret
    nodes = {
        name: replace(
            node,
            storages=(
                *(
                    Storage(
                        id=each,
                        shared=False,
                        capacity=500 * GIB,
                        free=random.randint(5, 60) * GIB,
                    )
                    for each in ("zfs", "lvm")
                    if random.random() < 0.8
                ),
                Storage(id="ceph", shared=True),
            ),
        )
        for name, node in snapshot.nodes.items()
    }
    guests = dict(snapshot.guests)
    for name, guest in snapshot.guests.items():
        has = {each.id for each in nodes[guest.node].storages or ()}
        kind = random.choice(("zfs", "zfs", "ceph"))
        if kind in has:
            size = random.choice((None, *(n * GIB for n in (2, 5, 10, 20, 30))))
            disk = Disk(
                storage=kind, size=size, target_storage="lvm" if mapped else None
            )
            guests[GuestId(name)] = replace(guest, disks=(disk,))
    return replace(snapshot, nodes=nodes, guests=guests)
