"""Disks in the configuration of guests of Proxmox VE, and which can be moved."""

from __future__ import annotations

import pytest

from opendrs.platforms.proxmox.configured_disks import disk_storages, parse_disks

GIB = 1 << 30


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("scsi0", "local:100/vm-100-disk-0.raw,size=1M", ("local", 1 << 20)),
        (
            "virtio12",
            "file=ceph-1:vm-1-disk-0,cache=none,size=32G",
            ("ceph-1", 32 * GIB),
        ),
        ("rootfs", "shared1:110/vm-110-disk-0.raw,size=4G", ("shared1", 4 * GIB)),
        (
            "mp0",
            "volume=fast:1/vm-1-disk-1.raw,mp=/data,size=1.5T",
            ("fast", 1536 * GIB),
        ),
        ("efidisk0", "zfs:vm-1-disk-2,efitype=4m,size=528K", ("zfs", 528 << 10)),
        ("tpmstate0", "zfs:vm-1-disk-3,size=4194304", ("zfs", 4 << 20)),
        ("unused0", "local:303/vm-303-disk-0.raw", ("local", None)),
        ("sata1", "local:1/disk.raw,size=many", ("local", None)),
    ],
)
def test_disk_has_its_storage_and_size(
    key: str, value: str, expected: tuple[str, int | None]
) -> None:
    (disk,) = parse_disks({key: value})

    assert (disk.storage, disk.size) == expected


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ide2", "local:iso/debian.iso,media=cdrom,size=600M"),
        ("ide2", "none,media=cdrom"),
        ("scsi0", "/dev/disk/by-id/x,size=1G"),
        ("mp0", "/srv/data,mp=/data"),
        ("scsihw", "virtio-scsi-single"),
        ("net0", "virtio=BC:24:11:00:01:00,bridge=vmbr0"),
        ("scsi0", 5),
        ("vmstate", "local:305/vm-305-state-suspend.raw"),
    ],
)
def test_what_is_no_disk_on_a_storage_is_left_out(key: str, value: object) -> None:
    assert parse_disks({key: value}) == ()


CONFIGURATION = {
    "efidisk0": "zfs:vm-1-disk-2,efitype=4m,size=528K",
    "ide2": "zfs:vm-1-cloudinit,media=cdrom,size=4M",
    "mp0": "zfs:1/vm-1-disk-5,mp=/data,size=1G",
    "mp1": "/srv/data,mp=/srv",
    "rootfs": "zfs:1/vm-1-disk-4,size=1G",
    "scsi0": "zfs:vm-1-disk-0,size=1G",
    "scsi1": "/dev/disk/by-id/x,size=1G",
    "tpmstate0": "zfs:vm-1-disk-3,size=4M",
    "unused0": "old:vm-1-disk-1",
}


def test_disks_that_can_be_moved_are_named_by_their_keys() -> None:
    disks = parse_disks(CONFIGURATION)

    names = {disk.name for disk in disks} - {None}
    assert names == {"mp0", "rootfs", "scsi0"}
    assert len(disks) == len(names) + 3  # efidisk0, tpmstate0 and unused0 stay


@pytest.mark.parametrize(
    "further", [{"parent": "before-update"}, {"protection": 1}, {"protection": "1"}]
)
def test_disks_of_a_guest_with_snapshots_or_protection_have_no_name(
    further: dict[str, object],
) -> None:
    disks = parse_disks(CONFIGURATION | further)

    assert {disk.name for disk in disks} == {None}


def test_guest_without_protection_can_move_its_disks() -> None:
    (disk,) = parse_disks({"scsi0": "zfs:x,size=1G", "protection": 0})

    assert disk.name == "scsi0"


def test_storages_of_all_disks_are_known_by_their_keys() -> None:
    storages = disk_storages(CONFIGURATION | {"parent": "before-update"})

    assert storages["scsi0"] == "zfs"
    assert storages["unused0"] == "old"
    assert storages.keys().isdisjoint({"ide2", "mp1", "scsi1"})
