"""Limits of parallel migrations."""

from __future__ import annotations

import pytest

from opendrs.guard import RejectionReason, check_concurrency
from opendrs.model import (
    DEFAULT_LIMITS,
    Action,
    GuestId,
    Limits,
    LiveMigration,
    Network,
    NodeId,
    PowerOff,
    Snapshot,
)
from support.builders import cluster


def migrating(**moving: str) -> Snapshot:
    """Return five nodes with a guest on each, and the guests that are moving."""
    return cluster(
        dict.fromkeys("abcde", 0.3),
        {f"vm_{name}": (name, 0.1) for name in "abcde"},
        moving=moving,
    )


def move(source: str, target: str) -> LiveMigration:
    return LiveMigration(GuestId(f"vm_{source}"), NodeId(source), NodeId(target))


def rejection_reason(
    snapshot: Snapshot, *actions: Action, limits: Limits = DEFAULT_LIMITS
) -> RejectionReason | None:
    rejection = check_concurrency(actions, snapshot, limits)
    return rejection.reason if rejection else None


def test_concurrency_without_running_migrations_is_allowed() -> None:
    assert rejection_reason(migrating(), move("a", "b")) is None


@pytest.mark.parametrize("endpoints", [("a", "e"), ("e", "a")])
def test_node_at_migration_limit_rejects_migration(
    endpoints: tuple[str, str],
) -> None:
    busy = migrating(vm_b="a", vm_c="a")

    assert (
        rejection_reason(busy, move(*endpoints)) is RejectionReason.NODE_MIGRATION_LIMIT
    )
    assert rejection_reason(busy, move("d", "e")) is None


def test_cluster_at_migration_limit_rejects_migration() -> None:
    busy = migrating(vm_a="b", vm_c="d")
    few = Limits(max_parallel_migrations=2)

    assert (
        rejection_reason(busy, move("e", "a"), limits=few)
        is RejectionReason.CLUSTER_MIGRATION_LIMIT
    )
    assert rejection_reason(busy, move("e", "a")) is None


def test_group_larger_than_limit_runs_alone() -> None:
    pair = (
        LiveMigration(GuestId("x"), NodeId("a"), NodeId("b")),
        LiveMigration(GuestId("y"), NodeId("a"), NodeId("b")),
    )
    one = Limits(max_migrations_per_node=1, max_parallel_migrations=1)

    assert rejection_reason(migrating(), *pair, limits=one) is None
    assert (
        rejection_reason(migrating(vm_c="a"), *pair, limits=one)
        is RejectionReason.NODE_MIGRATION_LIMIT
    )
    assert (
        rejection_reason(migrating(vm_c="d"), *pair, limits=one)
        is RejectionReason.CLUSTER_MIGRATION_LIMIT
    )


RACK = Network(name="rack", nodes=(NodeId("a"), NodeId("b")), max_parallel_migrations=1)
RACKS = Limits(max_migrations_per_node=9, max_parallel_migrations=9, networks=(RACK,))


@pytest.mark.parametrize("endpoints", [("a", "e"), ("e", "b")])
def test_network_at_migration_limit_rejects_migration(
    endpoints: tuple[str, str],
) -> None:
    across = migrating(vm_c="a")

    assert (
        rejection_reason(across, move(*endpoints), limits=RACKS)
        is RejectionReason.NETWORK_MIGRATION_LIMIT
    )
    assert rejection_reason(across, move("a", "b"), limits=RACKS) is None
    assert rejection_reason(across, move("d", "e"), limits=RACKS) is None
    assert rejection_reason(migrating(vm_a="b"), move(*endpoints), limits=RACKS) is None


def test_group_larger_than_network_limit_runs_alone() -> None:
    pair = (move("a", "e"), move("b", "e"))

    assert rejection_reason(migrating(), *pair, limits=RACKS) is None
    assert (
        rejection_reason(migrating(vm_c="a"), *pair, limits=RACKS)
        is RejectionReason.NETWORK_MIGRATION_LIMIT
    )


def test_network_with_bandwidth_only_does_not_limit_migrations() -> None:
    slow = Network(name="rack", nodes=RACK.nodes, bandwidth=1e9)
    limits = Limits(networks=(slow,))

    assert rejection_reason(migrating(vm_c="a"), move("b", "e"), limits=limits) is None


def test_rejection_detail_counts_running_migrations_of_network() -> None:
    rejection = check_concurrency([move("a", "e")], migrating(vm_c="a"), RACKS)

    assert rejection is not None
    assert rejection.detail == "rack: 1 migration in progress, limit is 1"


def test_rejection_detail_counts_running_migrations_of_node() -> None:
    rejection = check_concurrency(
        [move("a", "e")], migrating(vm_b="a", vm_c="a"), DEFAULT_LIMITS
    )

    assert rejection is not None
    assert rejection.detail == "a: 2 migrations in progress, limit is 2"


def test_power_off_is_not_limited_by_running_migrations() -> None:
    few = Limits(max_parallel_migrations=1)

    assert (
        rejection_reason(migrating(vm_a="b"), PowerOff(NodeId("e")), limits=few) is None
    )
