"""Copies of local disks: their size, their space, and the nodes after them."""

from __future__ import annotations

from dataclasses import replace

from opendrs.model import (
    GIB,
    Disk,
    Guest,
    GuestId,
    LiveMigration,
    Node,
    NodeId,
    Snapshot,
    Storage,
    copied_size,
    copied_space,
    has_mapped_copies,
)
from support.builders import cluster, guest, node

A, B, VM = NodeId("a"), NodeId("b"), GuestId("vm")


def zfs(free: int | None, capacity: int | None = 100) -> Storage:
    """Return a local storage of *capacity* GiB."""
    return Storage(
        id="zfs",
        shared=False,
        capacity=None if capacity is None else capacity * GIB,
        free=None if free is None else free * GIB,
    )


def source() -> Node:
    return node("a", 0.5, storages=(zfs(10), Storage(id="ceph", shared=True)))


def with_disks(*disks: Disk) -> Guest:
    return guest("vm", "a", 0.1, disks=disks)


def test_transfer_is_memory_and_local_disks() -> None:
    # A tenth of 100 GiB of memory; 30 and 5 GiB are on the local storage.
    copied = with_disks(
        Disk(storage="zfs", size=30 * GIB),
        Disk(storage="ceph", size=70 * GIB),
        Disk(storage="zfs", size=5 * GIB),
    )

    assert copied_size(copied, source()) == 35 * GIB
    there = replace(cluster({}, {}), nodes={A: source()}, guests={VM: copied})
    assert there.transfer_size(VM) == 45 * GIB
    assert copied_space(copied, source()) == {"zfs": 35 * GIB}


def test_space_of_a_disk_of_unknown_size_is_unknown() -> None:
    copied = with_disks(Disk(storage="zfs"), Disk(storage="zfs", size=GIB))

    assert copied_space(copied, source()) == {"zfs": None}
    assert copied_size(copied, source()) == GIB


def test_space_is_needed_on_the_storage_that_a_disk_is_copied_to() -> None:
    copied = with_disks(Disk(storage="zfs", size=GIB, target_storage="lvm"))

    assert copied_space(copied, source()) == {"lvm": GIB}
    assert has_mapped_copies(copied)
    assert not has_mapped_copies(with_disks(Disk(storage="zfs", size=GIB)))


def migrated(disk: Disk, there: Storage) -> Snapshot:
    """Return the cluster after the guest with *disk* has left a for b."""
    plain = cluster({"a": 0.5, "b": 0.1}, {"vm": ("a", 0.1)})
    nodes = {A: source(), B: replace(plain.nodes[B], storages=(there,))}
    before = replace(plain, nodes=nodes, guests={VM: with_disks(disk)})
    return before.apply(LiveMigration(VM, A, B))


def free_after(snapshot: Snapshot, name: NodeId) -> int | None:
    storages = snapshot.nodes[name].storages
    assert storages is not None
    return storages[0].free


def test_migration_frees_the_space_on_the_source_and_takes_it_on_the_target() -> None:
    after = migrated(Disk(storage="zfs", size=30 * GIB), zfs(50))

    assert free_after(after, A) == 40 * GIB
    assert free_after(after, B) == 20 * GIB


def test_mapped_disk_is_on_the_storage_that_it_was_copied_to() -> None:
    lvm = replace(zfs(50), id="lvm")
    after = migrated(Disk(storage="zfs", size=GIB, target_storage="lvm"), lvm)

    assert after.guests[VM].disks == (
        Disk(storage="lvm", size=GIB, target_storage="lvm"),
    )
    assert free_after(after, B) == 49 * GIB


def test_freed_space_is_at_most_the_capacity_and_unknown_with_the_size() -> None:
    assert free_after(migrated(Disk(storage="zfs", size=99 * GIB), zfs(0)), A) == (
        100 * GIB
    )
    unknown = migrated(Disk(storage="zfs"), zfs(50))
    assert free_after(unknown, A) is None
    assert free_after(unknown, B) is None


def test_shared_disk_changes_no_space() -> None:
    after = migrated(Disk(storage="ceph", size=GIB), zfs(50))

    assert free_after(after, A) == 10 * GIB
    assert free_after(after, B) == 50 * GIB
