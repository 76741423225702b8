"""Storages of the targets of migrations, checked before they start."""

from __future__ import annotations

from dataclasses import replace

import pytest

from opendrs.guard import RejectionReason, check
from opendrs.model import (
    DEFAULT_LIMITS,
    GIB,
    Disk,
    GuestId,
    GuestState,
    Limits,
    LiveMigration,
    NodeId,
    Relocation,
    Snapshot,
    Storage,
)
from support.builders import cluster

A, B = NodeId("a"), NodeId("b")
VM = GuestId("vm")
MOVE = LiveMigration(VM, A, B)
SHARED = Storage(id="ceph", shared=True)
MISSING = RejectionReason.STORAGE_MISSING
Storages = tuple[Storage, ...] | None


def with_storages(source: Storages, target: Storages, *disks: Disk) -> Snapshot:
    """Return two nodes with these storages, and a guest with these disks."""
    plain = cluster({"a": 0.6, "b": 0.1}, {"vm": ("a", 0.3)})
    nodes = {
        A: replace(plain.nodes[A], storages=source),
        B: replace(plain.nodes[B], storages=target),
    }
    return replace(
        plain, nodes=nodes, guests={VM: replace(plain.guests[VM], disks=disks)}
    )


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        pytest.param((SHARED,), (SHARED,), None, id="both have it"),
        pytest.param(
            (SHARED,), (), RejectionReason.STORAGE_MISSING, id="it is missing"
        ),
        pytest.param(None, (), RejectionReason.STORAGE_MISSING, id="source unknown"),
        pytest.param((SHARED,), None, None, id="target unknown"),
        pytest.param((), (), None, id="not listed for the source either"),
    ],
)
def test_target_without_a_storage_of_the_guest_is_rejected(
    source: Storages, target: Storages, reason: RejectionReason | None
) -> None:
    snapshot = with_storages(source, target, Disk(storage="ceph"))

    rejection = check([MOVE], snapshot, DEFAULT_LIMITS)

    assert (rejection and rejection.reason) is reason


def test_stopped_guest_is_not_relocated_to_a_node_without_its_storage() -> None:
    snapshot = with_storages((SHARED,), (), Disk(storage="ceph"))
    stopped = replace(snapshot.guests[VM], state=GuestState.STOPPED)

    rejection = check(
        [Relocation(VM, A, B)], replace(snapshot, guests={VM: stopped}), DEFAULT_LIMITS
    )

    assert rejection is not None
    assert rejection.reason is RejectionReason.STORAGE_MISSING


COPYING = Limits(migrate_local_disks=True)
FULL = RejectionReason.INSUFFICIENT_STORAGE


def local(free: int | None, name: str = "zfs") -> tuple[Storage, ...]:
    """Return a local storage with *free* GiB."""
    return (Storage(id=name, shared=False, free=None if free is None else free * GIB),)


@pytest.mark.parametrize(
    ("free", "size", "reason"),
    [
        (30, 30, None),
        (29, 30, FULL),
        (None, 30, FULL),
        (30, None, FULL),
    ],
)
def test_copy_needs_known_space_for_its_known_size(
    free: int | None, size: int | None, reason: RejectionReason | None
) -> None:
    disk = Disk(storage="zfs", size=None if size is None else size * GIB)
    snapshot = with_storages(local(0), local(free), disk)

    rejection = check([MOVE], snapshot, COPYING)

    assert (rejection and rejection.reason) is reason


def test_local_disk_is_copied_only_if_the_limits_allow_it() -> None:
    snapshot = with_storages(local(0), local(50), Disk(storage="zfs", size=GIB))

    rejection = check([MOVE], snapshot, DEFAULT_LIMITS)

    assert rejection is not None
    assert rejection.reason is RejectionReason.LOCAL_DISKS


def test_copies_in_progress_and_copies_that_start_together_count() -> None:
    # 30 GiB are free: one copy of 20 GiB fits, two do not.
    disk = Disk(storage="zfs", size=20 * GIB)
    one = with_storages(local(0), local(30), disk)
    other = replace(one.guests[VM], id=GuestId("other"))
    both = replace(one, guests={**one.guests, other.id: other})
    arriving = replace(other, migrating_to=B)
    in_flight = replace(one, guests={**one.guests, other.id: arriving})
    together = [MOVE, LiveMigration(other.id, A, B)]

    rejections = [
        check([MOVE], both, COPYING),
        check(together, both, COPYING),
        check([MOVE], in_flight, COPYING),
    ]

    assert [each and each.reason for each in rejections] == [None, FULL, FULL]


def test_copy_to_a_shared_storage_counts_with_those_of_other_targets() -> None:
    disk = Disk(storage="zfs", size=20 * GIB, target_storage="nfs")
    shared = (Storage(id="nfs", shared=True, free=30 * GIB),)
    one = with_storages(local(0), shared, disk)
    c = NodeId("c")
    nodes = {**one.nodes, c: replace(one.nodes[B], id=c)}
    arriving = replace(one.guests[VM], id=GuestId("other"), migrating_to=c)
    busy = replace(one, nodes=nodes, guests={**one.guests, arriving.id: arriving})

    assert check([MOVE], one, COPYING) is None
    rejection = check([MOVE], busy, COPYING)
    assert rejection is not None
    assert rejection.reason is FULL


def test_target_without_the_storage_of_the_copy_is_rejected() -> None:
    disk = Disk(storage="zfs", size=GIB, target_storage="lvm")

    there = check([MOVE], with_storages(local(0), local(9, "lvm"), disk), COPYING)
    elsewhere = check([MOVE], with_storages(local(0), local(9), disk), COPYING)

    assert there is None
    assert elsewhere is not None
    assert elsewhere.reason is RejectionReason.STORAGE_MISSING
