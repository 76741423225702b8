"""Moves of disks: the guest, the storages, the records and the groups."""

from __future__ import annotations

from dataclasses import replace

import pytest

from opendrs.errors import ModelError
from opendrs.model import (
    GIB,
    Disk,
    DiskMove,
    GuestId,
    Limits,
    NodeId,
    Snapshot,
    Storage,
    StorageGroup,
    action_as_text,
    action_from_text,
    path_of,
)
from support.builders import cluster, guest, node

A, B, VM = NodeId("a"), NodeId("b"), GuestId("vm")
MOVE = DiskMove(VM, A, "scsi0", "one", "two")


def lab(*, shared: bool, size: int | None = 30) -> Snapshot:
    """Return two nodes with 50 of 100 GiB free on both storages, and a guest."""
    storages = tuple(
        Storage(id=name, shared=shared, capacity=100 * GIB, free=50 * GIB)
        for name in ("one", "two")
    )
    disks = (
        Disk(storage="one", size=None if size is None else size * GIB, name="scsi0"),
        Disk(storage="one", size=GIB, name="scsi1"),
    )
    return replace(
        cluster({}, {}),
        nodes={name: node(name, 0.2, storages=storages) for name in (A, B)},
        guests={VM: guest("vm", "a", 0.1, disks=disks)},
    )


def free(snapshot: Snapshot) -> dict[NodeId, list[int | None]]:
    """Return the free GiB of both storages of each node."""
    return {
        name: [
            each.free if each.free is None else each.free // GIB
            for each in found.storages or ()
        ]
        for name, found in snapshot.nodes.items()
    }


def test_move_changes_the_storages_of_its_node() -> None:
    before = lab(shared=False)

    after = before.apply(MOVE)

    assert free(after) == {A: [80, 20], B: [50, 50]}
    moved, other = after.guests[VM].disks or ()
    assert (moved.storage, other.storage) == ("two", "one")
    assert after.guests[VM].node == A
    assert after.nodes[A].usage == before.nodes[A].usage
    assert before.transferred(MOVE) == 30 * GIB


def test_shared_storages_change_for_all_nodes() -> None:
    assert free(lab(shared=True).apply(MOVE)) == {A: [80, 20], B: [80, 20]}


def test_space_is_unknown_after_a_move_of_unknown_size() -> None:
    after = lab(shared=False, size=None).apply(MOVE)
    assert free(after)[A] == [None, None]


def test_moving_disk_is_named() -> None:
    during = lab(shared=False).with_in_flight(MOVE)

    moving = during.guests[VM].moving_disk

    assert moving is not None
    assert (moving.name, moving.storage, moving.moving_to) == ("scsi0", "one", "two")
    assert during.guests[VM].migrating_to is None
    assert during.apply(MOVE) == lab(shared=False).apply(MOVE)


@pytest.mark.parametrize(
    "move", [replace(MOVE, disk="scsi7"), replace(MOVE, source_storage="two")]
)
def test_move_of_a_disk_that_is_elsewhere_is_an_error(move: DiskMove) -> None:
    with pytest.raises(ModelError, match="expected on"):
        lab(shared=False).apply(move)


def test_move_is_restored_from_its_text() -> None:
    assert action_from_text(action_as_text(MOVE)) == MOVE
    assert path_of(MOVE) == ("vm (scsi0)", "one", "two")


def test_names_of_disks_are_unique_within_a_guest() -> None:
    twice = Disk(storage="one", name="scsi0")
    with pytest.raises(ModelError, match="same name"):
        guest("vm", "a", 0.1, disks=(twice, twice))
    unnamed = Disk(storage="one")
    assert guest("vm", "a", 0.1, disks=(unnamed, unnamed)).disks is not None


@pytest.mark.parametrize(
    ("storages", "threshold"),
    [((), 0.8), (("one",), 0.8), (("one", "one"), 0.8), (("one", "two"), 0.0)],
)
def test_group_that_can_move_nothing_is_an_error(
    storages: tuple[str, ...], threshold: float
) -> None:
    with pytest.raises(ModelError, match="expected"):
        StorageGroup(name="all", storages=storages, threshold=threshold)


def test_storage_in_two_groups_is_an_error() -> None:
    first = StorageGroup(name="first", storages=("one", "two"))
    second = StorageGroup(name="second", storages=("two", "three"))
    with pytest.raises(ModelError, match="storage two"):
        Limits(storage_groups=(first, second))
    with pytest.raises(ModelError, match="duplicate name"):
        Limits(
            storage_groups=(first, replace(second, name="first", storages=("a", "b")))
        )
