"""Tolerated failures, additional guests and dispensable nodes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from opendrs.errors import ModelError, UnknownGuestError
from opendrs.model import (
    DEFAULT_LIMITS,
    GIB,
    AntiAffinity,
    Disk,
    GuestId,
    Limits,
    Mobility,
    Pin,
    Resources,
    Snapshot,
    Storage,
)
from opendrs.placement import (
    FailureTolerance,
    GuestSize,
    additional_guests,
    dispensable_nodes,
    failure_tolerance,
    median_size,
    size_like,
)
from support.builders import cluster, guest_ids

QUARTER = Resources(2.5, 25 * GIB)


def tolerance(snapshot: Snapshot, limits: Limits = DEFAULT_LIMITS) -> FailureTolerance:
    return failure_tolerance(snapshot, limits)


def filled(load: float, nodes: str = "abcd") -> Snapshot:
    """Return nodes with two guests each, which together are the load of a node."""
    guests = {f"{name}{i}": (name, load / 2) for name in nodes for i in (1, 2)}
    return cluster(dict.fromkeys(nodes, load), guests)


@pytest.mark.parametrize(("load", "tolerated"), [(0.2, 2), (0.6, 1), (0.9, 0)])
def test_tolerated_failures_by_load(load: float, tolerated: int) -> None:
    # Four nodes with two guests each. 0.6: three nodes take one more guest of 0.3 each,
    # two guests of one node fit, four of two nodes do not. 0.9: no guest fits.
    assert tolerance(filled(load)).tolerated == tolerated


def test_failure_that_is_not_tolerated_is_named_with_its_guests() -> None:
    snapshot = cluster({"a": 0.6, "b": 0.3, "c": 0.3}, {"big": ("a", 0.8)})

    found = tolerance(snapshot)

    assert found.tolerated == 0
    (failure,) = found.single
    assert (failure.nodes, failure.unplaced) == (("a",), ("big",))
    assert failure.is_proven
    assert "insufficient-memory (2 nodes)" in failure.detail


def test_pairs_that_are_not_tolerated_are_named() -> None:
    rule = AntiAffinity(guests=guest_ids("vm1", "vm2", "vm3"))
    guests = {"vm1": ("a", 0.1), "vm2": ("b", 0.1), "vm3": ("c", 0.1)}
    snapshot = cluster(dict.fromkeys("abcd", 0.1), guests, [rule])

    found = tolerance(snapshot)

    assert found.tolerated == 1
    assert found.evaluated_pairs == 6
    # Three guests on different nodes do not fit on two nodes, whichever these are.
    assert len(found.pairs) == 6


def test_search_finds_what_best_fit_does_not() -> None:
    # Best fit of 5, 4, 3, 3 into 8 and 7: 5 goes to 7, 4 to 8, 3 to 8, and the other 3
    # has no node. 5 + 3 into 8 and 4 + 3 into 7 is the only solution.
    sizes = {"vm1": 0.5, "vm2": 0.4, "vm3": 0.3, "vm4": 0.3}
    snapshot = cluster(
        {"a": 0.0, "b": 0.2, "c": 0.3}, {name: ("a", x) for name, x in sizes.items()}
    )
    limits = Limits(memory_headroom=0.0, memory_overcommit=9.0)

    assert not failure_tolerance(snapshot, limits).single


def test_single_node_tolerates_no_failure() -> None:
    assert tolerance(cluster({"a": 0.1}, {})).tolerated == 0


def test_guest_bound_to_its_node_does_not_count() -> None:
    snapshot = filled(0.2)
    bound = replace(snapshot.guests[GuestId("a1")], mobility=Mobility.NONE)

    found = tolerance(replace(snapshot, guests={**snapshot.guests, bound.id: bound}))

    assert found.bound == ("a1",)
    assert found.tolerated == 2


def test_additional_guests_by_memory_and_by_cpu() -> None:
    snapshot = cluster({"a": 0.4, "b": 0.5, "c": None}, {})
    limits = Limits(memory_headroom=0.0)

    by_memory = GuestSize(QUARTER, Resources(0.1, 25 * GIB))
    by_cpu = GuestSize(QUARTER, Resources(2.0, GIB))

    assert additional_guests(snapshot, by_memory, limits).nodes == (("a", 2), ("b", 2))
    assert additional_guests(snapshot, by_cpu, limits).nodes == (("a", 3), ("b", 2))


def test_guest_with_more_cores_than_a_node_does_not_fit() -> None:
    size = GuestSize(Resources(11, GIB), Resources(1, GIB))

    assert additional_guests(cluster({"a": 0.0}, {}), size, DEFAULT_LIMITS).count == 0


def test_median_size_ignores_guests_of_unknown_size() -> None:
    guests = {"vm1": ("a", 0.1), "vm2": ("a", 0.2), "vm3": ("a", 0.4)}
    snapshot = cluster({"a": 0.7}, {**guests, "vm4": ("a", None)})

    assert median_size(snapshot) == size_like(snapshot, GuestId("vm2"))
    assert median_size(cluster({"a": 0.1}, {"vm4": ("a", None)})) is None


def test_size_like_an_unknown_or_unmeasured_guest_is_an_error() -> None:
    snapshot = cluster({"a": 0.1}, {"vm1": ("a", None)})

    with pytest.raises(UnknownGuestError):
        size_like(snapshot, GuestId("vm2"))
    with pytest.raises(ModelError):
        size_like(snapshot, GuestId("vm1"))


def test_dispensable_nodes_are_drained_onto_the_others() -> None:
    # Guests of 0.1 on nodes of 1: eight fit on one node with 5 % headroom.
    found = dispensable_nodes(filled(0.2), DEFAULT_LIMITS)

    assert len(found.nodes) == 3
    assert found.migrations == 6


def test_nodes_with_pinned_or_unmeasured_guests_are_not_dispensable() -> None:
    snapshot = replace(filled(0.2, "ab"), rules=(Pin(guests=guest_ids("a1")),))
    unmeasured = cluster({"a": 0.1, "b": 0.0}, {"vm1": ("a", None)})

    assert dispensable_nodes(snapshot, DEFAULT_LIMITS).nodes == ("b",)
    assert dispensable_nodes(unmeasured, DEFAULT_LIMITS).nodes == ("b",)


def test_drained_nodes_leave_no_node_over_its_cores() -> None:
    # Each node uses 60 % of its cores: two of them need more than one has.
    snapshot = filled(0.6, "ab")
    idle = {
        name: replace(
            each, limit=Resources(1, GIB), usage=replace(each.usage, memory=1)
        )
        for name, each in snapshot.guests.items()
    }

    found = dispensable_nodes(replace(snapshot, guests=idle), DEFAULT_LIMITS)

    assert found.nodes == ()


def test_space_of_local_disks_limits_no_cpu() -> None:
    local = (Storage(id="zfs", shared=False, free=0),)
    plain = filled(0.2)
    disks = (Disk(storage="zfs", size=GIB),)
    nodes = {n: replace(node, storages=local) for n, node in plain.nodes.items()}
    guests = {n: replace(guest, disks=disks) for n, guest in plain.guests.items()}
    snapshot = replace(plain, nodes=nodes, guests=guests)
    size = GuestSize(QUARTER, QUARTER)
    copying = replace(DEFAULT_LIMITS, migrate_local_disks=True)

    count = additional_guests(snapshot, size, copying)

    assert count == additional_guests(plain, size, DEFAULT_LIMITS)
