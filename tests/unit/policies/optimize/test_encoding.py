"""Demand and migration cost of move groups."""

from __future__ import annotations

from dataclasses import replace

import pytest

from opendrs.arrays import ClusterArrays
from opendrs.metrics import LoadModel
from opendrs.model import (
    DEFAULT_LIMITS,
    GIB,
    Disk,
    Limits,
    Mobility,
    NodeId,
    Storage,
    Usage,
)
from opendrs.planning import ASSUMED_BANDWIDTH
from opendrs.policies.optimize.movable_groups import EncodedGroup
from opendrs.policies.optimize.movable_guests import MovableGuests
from opendrs.rules import compile_rules
from support.builders import cluster, guest, node

A = NodeId("a")


def movable_guests(
    *groups: EncodedGroup, limits: Limits = DEFAULT_LIMITS
) -> MovableGuests:
    """Return the guests of *groups* on nodes with a local storage."""
    storages = (Storage(id="zfs", shared=False, free=100 * GIB),)
    nodes = {NodeId(name): node(name, 0.5, storages=storages) for name in "ab"}
    guests = {each.id: each for group in groups for each in group.guests}
    snapshot = replace(cluster({}, {}), nodes=nodes, guests=guests)
    arrays = ClusterArrays(snapshot, compile_rules(snapshot), limits)
    return MovableGuests(groups, arrays, LoadModel.DYNAMIC)


def test_movable_guests_of_a_group_are_summed() -> None:
    pair = EncodedGroup((guest("x", "a", 0.1), guest("y", "a", 0.3)), A)
    single = EncodedGroup((guest("z", "a", 0.5),), A)

    found = movable_guests(pair, single)

    assert found.demand[:, 0].tolist() == [4.0, 5.0]
    assert found.demand[:, 1:].tolist() == [[40.0 * GIB] * 2, [50.0 * GIB] * 2]
    assert found.transfer.tolist() == [40.0, 50.0]
    assert found.guest_count.tolist() == [2.0, 1.0]
    assert found.migration_cost.tolist() == [40.5, 50.25]


def test_movable_guests_displaced_guest_adds_no_cost_elsewhere() -> None:
    torn = EncodedGroup((guest("x", "a", 0.1), guest("y", "b", 0.3)), A)

    found = movable_guests(torn)

    assert found.displaced_count == 1
    assert found.gather_transfer.tolist() == [30.0]
    assert found.transfer.tolist() == [10.0]
    assert found.guest_count.tolist() == [1.0]
    assert found.migration_cost.tolist() == [10.25]


def test_movable_guests_dirty_and_cold_migrations_cost_more() -> None:
    # By hand, with B = 125e6 bytes/s: half of it is written again, so 20 GiB for 10.
    # The last round stops the guest for 0.3 s, or 0.034925 GiB, which counts ten times:
    # 20 + 9 x 0.034925 + 0.25. A cold migration stops it for all of 10 GiB.
    busy = guest("x", "a", 0.1, dirty_rate=ASSUMED_BANDWIDTH / 2)
    stopped = guest("y", "a", 0.1, mobility=Mobility.COLD)

    found = movable_guests(EncodedGroup((busy,), A), EncodedGroup((stopped,), A))

    assert found.migration_cost.tolist() == pytest.approx([20.564321, 100.25])


def test_group_with_unknown_memory_is_unknown() -> None:
    dark = guest("x", "a", 0.1, usage=Usage(cpu=1.0), limit=None)
    group = EncodedGroup((dark, guest("y", "a", 0.1)), A)

    found = movable_guests(group, EncodedGroup((guest("z", "a", 0.1),), A))

    assert found.is_known.tolist() == [False, True]
    assert found.demand[0].tolist() == [1.0, 10.0 * GIB, 10.0 * GIB]


def test_movable_guests_empty_has_no_demand() -> None:
    found = movable_guests()

    assert found.demand.shape == (0, 3)
    assert found.is_known.shape == found.migration_cost.shape == (0,)


def test_movable_guests_copy_local_disks_once() -> None:
    # 10 GiB of memory of which half is written again, and a disk of 30 GiB.
    disks = (Disk(storage="zfs", size=30 * GIB),)
    busy = guest("x", "a", 0.1, dirty_rate=ASSUMED_BANDWIDTH / 2, disks=disks)
    limits = replace(DEFAULT_LIMITS, migrate_local_disks=True)

    found = movable_guests(EncodedGroup((busy,), A), limits=limits)

    assert found.transfer.tolist() == [40.0]
    assert found.migration_cost.tolist() == pytest.approx([50.564321])
    assert found.demand.tolist() == [[1.0, 10.0 * GIB, 10.0 * GIB, 30.0 * GIB]]
