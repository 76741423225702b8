"""The guard's own check of the failures that the limits want tolerated."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from opendrs.guard import RejectionReason, check
from opendrs.guard.failures import find_intolerated_failure
from opendrs.model import (
    Affinity,
    AntiAffinity,
    DomainAffinity,
    GuestId,
    Limits,
    LiveMigration,
    NodeAffinity,
    NodeId,
    NodeState,
    PowerOff,
    Rule,
    Snapshot,
)
from support.builders import cluster, guest_ids
from support.oracles.tolerated_failures import intolerated_failures
from unit.placement.test_reserves import drawn, in_racks

ANY_NODE = Limits(memory_headroom=0.0, tolerated_failures=1)
ANY_RACK = Limits(memory_headroom=0.0, tolerated_domain="rack")


def move(guest: str, source: str, target: str) -> LiveMigration:
    return LiveMigration(GuestId(guest), NodeId(source), NodeId(target))


def uneven() -> Snapshot:
    """Return a cluster in which a has room for the largest guest, and no other node.

    If b fails, vm2 of 0.6 restarts on a, which has 0.8 left. With vm1 on a as well, a
    and c have 0.5 left each.
    """
    return cluster(
        {"a": 0.2, "b": 0.6, "c": 0.8},
        {"vm1": ("c", 0.3), "vm2": ("b", 0.6), "vm3": ("a", 0.2), "vm4": ("c", 0.5)},
    )


def test_guard_rejects_a_power_off_that_leaves_a_guest_without_a_node() -> None:
    # Without the empty node d, b has 0.3 left for vm1 of 0.6, and a 0.4 for vm2.
    snapshot = cluster(
        {"a": 0.6, "b": 0.7, "d": 0.0}, {"vm1": ("a", 0.6), "vm2": ("b", 0.7)}
    )

    rejection = check([PowerOff(NodeId("d"))], snapshot, ANY_NODE)

    assert rejection is not None
    assert rejection.reason is RejectionReason.FAILURE_NOT_TOLERATED
    assert (
        check(
            [PowerOff(NodeId("d"))], snapshot, replace(ANY_NODE, tolerated_failures=0)
        )
        is None
    )


def test_guard_rejects_a_migration_that_leaves_a_guest_without_a_node() -> None:
    rejection = check([move("vm1", "c", "a")], uneven(), ANY_NODE)

    assert rejection is not None
    assert rejection.reason is RejectionReason.FAILURE_NOT_TOLERATED
    assert "vm2" in rejection.detail
    assert "failure of b" in rejection.detail


def test_guard_accepts_a_migration_within_a_failure_that_is_not_tolerated() -> None:
    # Rack r1 has 1.1 of a node, c 0.8 left: that is so before and after.
    snapshot = in_racks(
        cluster(
            {"a": 0.6, "b": 0.5, "c": 0.2},
            {
                "vm1": ("a", 0.5),
                "vm2": ("b", 0.5),
                "vm3": ("a", 0.1),
                "vm4": ("c", 0.2),
            },
        ),
        {"a": "r1", "b": "r1", "c": "r2"},
    )

    assert check([move("vm3", "a", "b")], snapshot, ANY_RACK) is None


def test_guard_rejects_more_guests_without_a_node() -> None:
    # Before, vm1 and vm2 have no node if theirs fails; vm5 of 0.3 has one.
    before = cluster(
        {"a": 0.6, "b": 0.9},
        {"vm1": ("a", 0.6), "vm2": ("b", 0.6), "vm5": ("b", 0.3)},
    )
    # With vm3 on a, neither vm3 of 0.2 on b nor vm5 on a has room any more.
    after = cluster(
        {"a": 0.8, "b": 0.9},
        {
            "vm1": ("a", 0.6),
            "vm2": ("b", 0.6),
            "vm3": ("a", 0.2),
            "vm5": ("b", 0.3),
        },
    )

    detail = find_intolerated_failure(before, after, ANY_NODE)

    assert detail == "failure of a would not be tolerated: no node for vm1, vm3"


def test_guard_counts_the_migrations_in_progress_as_done() -> None:
    moving = cluster(
        {"a": 0.2, "b": 0.6, "c": 0.8},
        {"vm1": ("c", 0.3), "vm2": ("b", 0.6), "vm3": ("a", 0.2), "vm4": ("c", 0.5)},
        moving={"vm4": "a"},
    )

    # Once vm4 is on a, c is empty without vm1, and has room for vm2.
    assert check([move("vm1", "c", "a")], moving, ANY_NODE) is None


def test_guard_places_no_guest_on_nodes_in_maintenance() -> None:
    snapshot = cluster({"a": 0.6, "b": 0.6, "c": 0.0}, {"vm1": ("a", 0.6)})
    nodes = snapshot.nodes
    closed = replace(nodes[NodeId("c")], state=NodeState.MAINTENANCE)
    after = replace(snapshot, nodes={**nodes, NodeId("c"): closed})

    detail = find_intolerated_failure(snapshot, after, ANY_NODE)

    assert detail == "failure of a would not be tolerated: no node for vm1"


@pytest.mark.parametrize(
    "rule",
    [
        NodeAffinity(guests=guest_ids("vm1"), nodes={NodeId("a"): 0, NodeId("b"): 0}),
        AntiAffinity(guests=guest_ids("vm1", "vm3")),
        AntiAffinity(guests=guest_ids("vm1", "vm3"), domain="rack"),
        DomainAffinity(guests=guest_ids("vm1", "vm2"), domain="rack"),
        Affinity(guests=guest_ids("vm1", "vm4")),
    ],
)
def test_guard_obeys_strict_rules_like_a_plain_search(rule: Rule) -> None:
    snapshot = in_racks(
        cluster(
            {"a": 0.3, "b": 0.8, "c": 0.1, "d": 0.8},
            {
                "vm1": ("a", 0.2),
                "vm4": ("a", 0.1),
                "vm2": ("b", 0.8),
                "vm3": ("c", 0.1),
                "vm5": ("d", 0.8),
            },
            [rule],
        ),
        {"a": "r1", "b": "r1", "c": "r2", "d": "r3"},
    )
    nowhere = replace(snapshot, guests={}, rules=())

    found = find_intolerated_failure(nowhere, snapshot, ANY_NODE)

    assert bool(found) == bool(intolerated_failures(snapshot, ANY_NODE))


@pytest.mark.parametrize("seed", range(40))
def test_guard_finds_what_a_plain_search_finds(seed: int) -> None:
    snapshot, random = drawn(seed), Random(seed)  # noqa: S311 - drawn, not a secret
    limits = replace(
        random.choice((ANY_NODE, ANY_RACK)), memory_overcommit=random.choice((0.6, 1.0))
    )
    snapshot = replace(snapshot, guests=dict([*sorted(snapshot.guests.items())][:6]))
    nowhere = replace(snapshot, guests={}, rules=())

    found = find_intolerated_failure(nowhere, snapshot, limits)

    assert bool(found) == bool(intolerated_failures(snapshot, limits))
