"""Guests of Proxmox VE: order of requests, and disks in the configuration."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from opendrs.model import Disk
from opendrs.platforms.proxmox.guest_reader import PveGuestReader, parse_disks
from opendrs.platforms.proxmox.preconditions import Preconditions
from opendrs.platforms.proxmox.responses import ResourceRow

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
    storage, size = expected

    assert parse_disks({key: value}) == (Disk(storage=storage, size=size),)


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


class Requests:
    """Requests about guests, in the order of the calls."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, int]] = []

    def preconditions(
        self, node: str, kind: str, vmid: int, target: str | None
    ) -> Preconditions:
        del node, kind, target
        self.sent.append(("preconditions", vmid))
        return Preconditions()

    def configuration(self, node: str, kind: str, vmid: int) -> dict[str, object]:
        del node, kind
        self.sent.append(("disks", vmid))
        return {"scsi0": "local:disk,size=1G"}


def rows(*nodes: str) -> tuple[ResourceRow, ...]:
    """Return a running guest on each of *nodes*, with the numbers 1, 2, ..."""
    return tuple(
        ResourceRow(id=f"qemu/{n}", type="qemu", vmid=n, node=node, status="running")
        for n, node in enumerate(nodes, 1)
    )


def test_preconditions_of_all_guests_are_read_before_disks() -> None:
    requests = Requests()
    reader = PveGuestReader(requests)  # type: ignore[arg-type]

    with ThreadPoolExecutor(1) as pool:
        for _ in range(4):
            reader.read(pool, rows("a", "b", "silent"), {"a", "b"}, 1)

    assert requests.sent == [
        ("preconditions", 1),
        ("preconditions", 2),
        ("disks", 1),
        ("disks", 2),
    ]
    assert reader.disks.keys() == {1, 2}


def test_guest_that_is_gone_or_elsewhere_is_forgotten() -> None:
    reader = PveGuestReader(Requests())  # type: ignore[arg-type]

    with ThreadPoolExecutor(1) as pool:
        reader.read(pool, rows("a", "a"), {"a"}, 10)
        reader.read(pool, rows("b"), {"a"}, 10)

    assert reader.preconditions == {}
    assert reader.disks.keys() == {1}  # which move with their guest
