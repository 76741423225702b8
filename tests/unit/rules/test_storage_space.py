"""Free space of storages, and nodes that are infeasible for the disks of guests."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest

from opendrs.model import (
    DEFAULT_LIMITS,
    GIB,
    Disk,
    GuestId,
    NodeId,
    Snapshot,
    Storage,
)
from opendrs.rules import (
    FeasibilityChecker,
    available_space,
    compile_rules,
    released_space,
    required_space,
    space_shortage,
)
from support.builders import cluster

A, B, C = (NodeId(name) for name in "abc")
X, Y = GuestId("x"), GuestId("y")


def with_space(free: Mapping[NodeId, int | None], *disks: Disk) -> Snapshot:
    """Return nodes with *free* GiB on a local storage, and a guest with *disks*."""
    plain = cluster({"a": 0.2, "b": 0.2, "c": 0.2}, {"x": ("a", 0.1), "y": ("a", 0.1)})
    nodes = {
        name: replace(node, storages=_storages(free[name]) if name in free else ())
        for name, node in plain.nodes.items()
    }
    guests = {**plain.guests, X: replace(plain.guests[X], disks=disks)}
    return replace(plain, nodes=nodes, guests=guests)


def _storages(free: int | None) -> tuple[Storage, ...]:
    size = None if free is None else free * GIB
    return (Storage(id="zfs", shared=False, free=size),)


def disk(size: int | None, target: str | None = None) -> Disk:
    return Disk(
        storage="zfs",
        size=None if size is None else size * GIB,
        target_storage=target,
    )


def infeasible_nodes(snapshot: Snapshot) -> dict[NodeId, str]:
    checker = FeasibilityChecker(snapshot, compile_rules(snapshot), DEFAULT_LIMITS)
    return checker.infeasible_nodes((snapshot.guests[X],))


def test_nodes_without_the_storage_or_its_space_are_infeasible() -> None:
    assert infeasible_nodes(with_space({A: 0, B: 29}, disk(30))) == {
        B: "insufficient space on zfs: 1.0 GiB short",
        C: "node has no storage zfs",
    }
    assert infeasible_nodes(with_space({A: 0, B: 30, C: 30}, disk(30))) == {}


def test_unknown_size_or_unknown_space_is_infeasible() -> None:
    unknown_size = infeasible_nodes(with_space({A: 0, B: 30, C: 30}, disk(None)))
    unknown_space = infeasible_nodes(with_space({A: 0, B: None, C: 30}, disk(10)))

    assert set(unknown_size) == {B, C}
    assert unknown_space == {B: "free space of zfs is unknown"}


def test_copies_in_progress_occupy_their_target_in_full() -> None:
    snapshot = with_space({A: 0, B: 50, C: 50}, disk(30))
    guest = snapshot.guests[X]
    arriving = replace(guest, migrating_to=B)
    busy = replace(snapshot, guests={**snapshot.guests, X: arriving})

    space = available_space(busy)

    assert space[B] == {"zfs": 20 * GIB}
    assert space[C] == {"zfs": 50 * GIB}


@pytest.mark.parametrize(
    ("size", "target", "required", "released"),
    [
        (30, None, {"zfs": 30 * GIB}, {"zfs": 30 * GIB}),
        (30, "lvm", {"lvm": 30 * GIB}, {"zfs": 30 * GIB}),
        (None, None, {"zfs": math.inf}, {"zfs": 0}),
    ],
)
def test_space_is_required_where_the_copy_goes_and_freed_where_the_disk_is(
    size: int | None,
    target: str | None,
    required: dict[str, float],
    released: dict[str, float],
) -> None:
    snapshot = with_space({A: 0}, disk(size, target))
    guest = snapshot.guests[X]

    assert required_space([guest], snapshot.nodes) == required
    assert released_space(guest, snapshot.nodes[A]) == released


def test_shortage_names_the_first_storage_that_is_too_full() -> None:
    required = {"lvm": 3.0 * GIB, "zfs": 2.0 * GIB}

    assert space_shortage(required, {"lvm": 3.0 * GIB, "zfs": 2.0 * GIB}) is None
    assert space_shortage(required, {"lvm": 3.0 * GIB, "zfs": 1.0 * GIB}) == (
        "insufficient space on zfs: 1.0 GiB short"
    )
