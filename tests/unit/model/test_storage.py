"""Disks that a migration copies, and the storages that it needs."""

from __future__ import annotations

import pytest

from opendrs.model import (
    Disk,
    Storage,
    local_disks,
    missing_storages,
    needed_storages,
)

LOCAL = Storage(id="zfs", shared=False)
SHARED = Storage(id="ceph", shared=True)
UNKNOWN = Storage(id="dir")
ON_LOCAL = Disk(storage="zfs", target_storage="lvm")
ON_SHARED = Disk(storage="ceph", target_storage="lvm")
ON_UNKNOWN = Disk(storage="dir")
DISKS = (ON_LOCAL, ON_SHARED, ON_UNKNOWN)
STORAGES = (LOCAL, SHARED, UNKNOWN)


def test_local_disks_are_those_on_storages_known_to_be_local() -> None:
    assert local_disks(DISKS, STORAGES) == (ON_LOCAL,)
    assert local_disks(None, STORAGES) == ()
    assert local_disks(DISKS, None) == ()


def test_copy_needs_the_target_storage_and_others_their_own() -> None:
    assert needed_storages(DISKS, STORAGES) == {"lvm", "ceph", "dir"}
    assert needed_storages(None, STORAGES) == frozenset()


def test_needed_storages_of_incomplete_lists() -> None:
    assert needed_storages(DISKS, None) == {"zfs", "ceph", "dir"}
    assert needed_storages(DISKS, (SHARED,)) == {"ceph"}


@pytest.mark.parametrize(
    ("storages", "missing"), [(None, set()), ((), {"ceph"}), ((SHARED,), set())]
)
def test_missing_storages_are_those_of_a_known_list(
    storages: tuple[Storage, ...] | None, missing: set[str]
) -> None:
    assert missing_storages(frozenset({"ceph"}), storages) == missing
