"""Available memory of nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from opendrs.model import (
    GIB,
    Allocation,
    Guest,
    GuestId,
    GuestState,
    Limits,
    Node,
    NodeId,
    NodeLimits,
    Resources,
    Snapshot,
    Usage,
)
from opendrs.rules import (
    AvailableMemory,
    available_memory,
    required_memory,
    usable_memory,
)
from support.builders import cluster, guest, node

A, B = NodeId("a"), NodeId("b")
PLAIN = Limits(memory_headroom=0.25, memory_overcommit=1.5)


def vm(node_name: str = "a", **changes: Any) -> Guest:  # noqa: ANN401
    """Return a guest that uses 2 GiB of at most 8."""
    memory = {"limit": Resources(1, 8 * GIB), "usage": Usage(0.5, 2 * GIB)}
    return guest("vm", node_name, 0.1, **{**memory, **changes})


def cluster_of(*guests: Guest, a: Node | None = None) -> Snapshot:
    empty = cluster({"a": 0.5, "b": 0.5}, {})
    nodes = {**empty.nodes, A: a or empty.nodes[A]}
    return replace(empty, nodes=nodes, guests={each.id: each for each in guests})


def test_available_memory_excludes_headroom() -> None:
    # By hand: of 100 GiB 75 may be used, and 50 are.
    assert available_memory(cluster_of(), PLAIN)[A].measured == 25 * GIB


def test_available_committed_memory_includes_overcommit() -> None:
    # By hand: 150 GiB may be promised, and 8 are.
    assert available_memory(cluster_of(vm()), PLAIN)[A].committed == 142 * GIB


def test_stopped_guest_commits_no_memory() -> None:
    stopped = vm(state=GuestState.STOPPED)

    assert available_memory(cluster_of(stopped), PLAIN)[A].committed == 150 * GIB


def test_migrating_guest_counts_on_both_nodes() -> None:
    available = available_memory(cluster_of(vm("a", migrating_to=B)), PLAIN)

    assert available[A] == AvailableMemory(25 * GIB, 142 * GIB)
    assert available[B] == AvailableMemory(23 * GIB, 142 * GIB)


def test_available_memory_of_overfull_node_is_negative() -> None:
    full = node("a", 0.9)

    assert available_memory(cluster_of(a=full), PLAIN)[A].measured == -15 * GIB


def test_node_without_capacity_has_unknown_available_memory() -> None:
    unmeasured = node("a", 0.5, capacity=None)

    assert available_memory(cluster_of(a=unmeasured), PLAIN)[A] == AvailableMemory(
        None, None
    )


def test_unmeasured_usage_leaves_committed_memory_known() -> None:
    unmeasured = node("a", 0.5, usage=Usage(1.0, None))

    assert available_memory(cluster_of(a=unmeasured), PLAIN)[A] == AvailableMemory(
        None, 150 * GIB
    )


def test_guest_without_limit_and_usage_makes_committed_memory_unknown() -> None:
    unknown = vm(limit=None, usage=Usage())

    assert available_memory(cluster_of(unknown), PLAIN)[A] == AvailableMemory(
        25 * GIB, None
    )
    assert available_memory(cluster_of(unknown), PLAIN)[B] == AvailableMemory(
        25 * GIB, 150 * GIB
    )


def test_arriving_guest_of_unknown_usage_makes_target_unknown() -> None:
    arriving = vm("a", migrating_to=B, usage=Usage(1.0, None))

    assert available_memory(cluster_of(arriving), PLAIN)[B].measured is None


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, AvailableMemory(2 * GIB, 8 * GIB, 1000)),
        ({"limit": None}, AvailableMemory(2 * GIB, 2 * GIB, 500)),
        (  # without limit
            {"limit": Resources(1, 0)},
            AvailableMemory(2 * GIB, 2 * GIB, 1000),
        ),
        ({"limit": Resources(0, GIB)}, AvailableMemory(2 * GIB, GIB, 500)),
        ({"usage": Usage(1.0, None)}, AvailableMemory(None, 8 * GIB, 1000)),
        ({"limit": None, "usage": Usage()}, AvailableMemory(None, None, None)),
    ],
)
def test_required_memory_is_usage_and_limit(
    changes: dict[str, Any], expected: AvailableMemory
) -> None:
    assert required_memory([vm(**changes)]) == expected


def test_required_memory_of_group_is_the_sum() -> None:
    assert required_memory([vm(), vm()]) == AvailableMemory(4 * GIB, 16 * GIB, 2000)
    unmeasured = required_memory([vm(), vm(usage=Usage())])
    assert unmeasured == AvailableMemory(None, 16 * GIB, 2000)


def test_plus_is_bounded_by_maximum() -> None:
    most = AvailableMemory(10, 20)

    assert AvailableMemory(5, 9).plus(AvailableMemory(4, 2), most) == AvailableMemory(
        9, 11
    )
    assert AvailableMemory(5, 9).plus(AvailableMemory(7, 30), most) == most
    assert AvailableMemory(None, 9).plus(
        AvailableMemory(1, None), most
    ) == AvailableMemory(None, None)


def test_usable_memory_follows_limits() -> None:
    assert usable_memory(node("a", 0.9), PLAIN) == AvailableMemory(75 * GIB, 150 * GIB)


def test_minus_is_unknown_when_either_is_unknown() -> None:
    left = AvailableMemory(5, 9, 7).minus(AvailableMemory(7, 2, 4))

    assert left == AvailableMemory(-2, 7, 3)
    unknown = AvailableMemory(None, 9, 7).minus(AvailableMemory(7, None, None))
    assert unknown == AvailableMemory(None, None, None)


def test_committed_cpu_counts_limits_within_cores_times_overcommit() -> None:
    # By hand: (10 - 2) cores, 1.5 times, are 12; the guests have 1 and 1.
    limits = replace(PLAIN, cpu_overcommit=1.5, reserved_cpu=2)
    snapshot = cluster_of(vm(), replace(vm(), id=GuestId("other"), migrating_to=B))

    available = available_memory(snapshot, limits)

    assert available[A].millicores == 10_000
    assert available[B].millicores == 11_000
    assert available_memory(snapshot, PLAIN)[A].has_unlimited_cpu


def test_guest_of_unknown_cpu_closes_only_nodes_that_limit_it() -> None:
    unknown = vm(limit=None, usage=Usage(None, 2 * GIB))
    limits = replace(PLAIN, overrides=(NodeLimits(nodes=(A,), cpu_overcommit=1.0),))

    left = {
        name: available.minus(required_memory([unknown]))
        for name, available in available_memory(cluster_of(), limits).items()
    }

    assert left[A].millicores is None
    assert left[B].has_unlimited_cpu


def test_reserved_memory_is_neither_used_nor_committed() -> None:
    # By hand: of 100 GiB 60 may be used and 60 * 1.5 committed.
    limits = replace(PLAIN, reserved_memory="40 GiB")

    assert usable_memory(node("a", 0.1), limits) == AvailableMemory(60 * GIB, 90 * GIB)
    small = replace(PLAIN, reserved_memory="10 %")  # the headroom is larger: 25 GiB
    assert usable_memory(node("a", 0.1), small) == AvailableMemory(75 * GIB, 135 * GIB)


def test_platform_allocation_limits_what_is_committed() -> None:
    # By hand, as OpenStack Placement: (100 - 20) * 1.25 GiB and (10 - 2) * 4 cores.
    allocation = Allocation(
        cpu_ratio=4.0, memory_ratio=1.25, reserved_cpu=2, reserved_memory=20 * GIB
    )
    one = node("a", 0.1, allocation=allocation)

    usable = usable_memory(one, PLAIN)

    assert usable == AvailableMemory(75 * GIB, 100 * GIB, 32_000)
    stricter = replace(PLAIN, memory_overcommit=0.5, cpu_overcommit=1.0)
    assert usable_memory(one, stricter) == AvailableMemory(75 * GIB, 50 * GIB, 10_000)


def test_last_override_of_a_node_that_sets_a_limit_counts() -> None:
    limits = replace(
        PLAIN,
        cpu_overcommit=1.0,
        overrides=(
            NodeLimits(labels=("ssd",), cpu_overcommit=2.0, reserved_memory="50 %"),
            NodeLimits(groups=("rack",), memory_headroom=0.1),
            NodeLimits(nodes=(A,), cpu_overcommit=3.0),
        ),
    )
    labels = frozenset({"ssd"})
    groups = frozenset({"rack"})

    assert usable_memory(node("b", 0.1), limits).millicores == 10_000
    assert usable_memory(node("b", 0.1, labels=labels), limits) == AvailableMemory(
        50 * GIB, 75 * GIB, 20_000
    )
    assert usable_memory(node("b", 0.1, groups=groups), limits) == AvailableMemory(
        90 * GIB, 150 * GIB, 10_000
    )
    assert usable_memory(node("a", 0.1, labels=labels), limits).millicores == 30_000
