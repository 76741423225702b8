"""Copies of disks on Proxmox VE: which ones the limits have decided about."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from opendrs.model import (
    MAX_AMOUNT,
    Disk,
    Guest,
    GuestId,
    Node,
    NodeId,
    Snapshot,
    Storage,
)
from opendrs.platforms.proxmox.disk_copies import (
    known_disks,
    undecided_copies,
    unseen_copies,
)
from opendrs.platforms.proxmox.preconditions import Preconditions
from opendrs.platforms.proxmox.tasks import ProxmoxTask
from support.builders import guest

A, B = NodeId("a"), NodeId("b")
LOCAL, CEPH = Disk(storage="local", size=5), Disk(storage="ceph", size=7)
STORAGES = (Storage(id="local", shared=False), Storage(id="ceph", shared=True))
ON_LOCAL = Preconditions(local_disks={"local:100/disk.raw": 5})
NOT_LOCAL = Preconditions()


@pytest.mark.parametrize(
    ("configured", "known", "expected"),
    [
        (None, None, None),
        (None, NOT_LOCAL, None),
        ((CEPH,), None, (CEPH,)),
        (None, ON_LOCAL, (LOCAL,)),
        ((CEPH,), ON_LOCAL, (CEPH, LOCAL)),
        ((LOCAL,), ON_LOCAL, (LOCAL,)),
        (
            None,
            Preconditions(local_disks={"local:disk": MAX_AMOUNT + 1}),
            (Disk(storage="local"),),
        ),
    ],
)
def test_disks_are_those_of_the_configuration_and_further_local_ones(
    configured: tuple[Disk, ...] | None,
    known: Preconditions | None,
    expected: tuple[Disk, ...] | None,
) -> None:
    assert known_disks(configured, known) == expected


@pytest.mark.parametrize(
    ("kind", "known", "configured", "storages", "count"),
    [
        ("qemu", ON_LOCAL, None, STORAGES, 0),
        ("qemu", ON_LOCAL, None, None, 1),
        ("qemu", ON_LOCAL, None, STORAGES[1:], 1),
        ("qemu", NOT_LOCAL, (LOCAL, CEPH), None, 0),
        ("qemu", None, (LOCAL,), None, 0),
        ("lxc", NOT_LOCAL, (LOCAL, CEPH), STORAGES, 0),
        ("lxc", NOT_LOCAL, (LOCAL, CEPH), None, 2),
        ("lxc", NOT_LOCAL, (CEPH,), (Storage(id="ceph"),), 1),
        ("lxc", NOT_LOCAL, None, None, 0),
    ],
)
def test_copies_are_undecided_if_their_storages_are_not_known_to_be_local(
    kind: str,
    known: Preconditions | None,
    configured: tuple[Disk, ...] | None,
    storages: tuple[Storage, ...] | None,
    count: int,
) -> None:
    node = Node(id=A, storages=storages)

    assert len(undecided_copies(kind, known, configured, node)) == count


@pytest.mark.parametrize(
    ("kind", "seen", "known", "now", "unseen"),
    [
        ("qemu", (LOCAL,), ON_LOCAL, None, []),
        ("qemu", (CEPH,), ON_LOCAL, None, ["local"]),
        ("qemu", None, ON_LOCAL, None, ["local"]),
        ("qemu", (CEPH,), NOT_LOCAL, None, []),
        ("lxc", (LOCAL,), NOT_LOCAL, (LOCAL, CEPH), []),
        ("lxc", (CEPH,), NOT_LOCAL, (LOCAL, CEPH), ["local"]),
        ("lxc", None, NOT_LOCAL, (CEPH,), []),
        ("lxc", None, NOT_LOCAL, (Disk(storage="new"),), ["new"]),
    ],
)
def test_copies_are_unseen_unless_the_snapshot_has_them_as_local(
    kind: str,
    seen: tuple[Disk, ...] | None,
    known: Preconditions,
    now: tuple[Disk, ...] | None,
    unseen: list[str],
) -> None:
    task = ProxmoxTask(GuestId("vm"), kind, 100, A, B)
    snapshot = snapshot_of(guest("vm", "a", 0.1, disks=seen))

    found = unseen_copies(task, known, now, snapshot)

    assert [each.split()[3] for each in found] == unseen


def test_copies_are_unseen_without_a_snapshot_of_the_guest_on_its_source() -> None:
    task = ProxmoxTask(GuestId("vm"), "qemu", 100, A, B)
    elsewhere = snapshot_of(guest("vm", "b", 0.1, disks=(LOCAL,)))

    assert unseen_copies(task, ON_LOCAL, None, None)
    assert unseen_copies(task, ON_LOCAL, None, snapshot_of())
    assert unseen_copies(task, ON_LOCAL, None, elsewhere)


def snapshot_of(*guests: Guest) -> Snapshot:
    """Return two nodes with both storages, and *guests*."""
    return Snapshot(
        taken_at=datetime(2026, 11, 27, tzinfo=UTC),
        nodes={name: Node(id=name, storages=STORAGES) for name in (A, B)},
        guests={each.id: each for each in guests},
    )
