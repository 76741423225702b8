"""Available memory of nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from opendrs.model import (
    GIB,
    Guest,
    GuestState,
    Limits,
    Node,
    NodeId,
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
        ({}, AvailableMemory(2 * GIB, 8 * GIB)),
        ({"limit": None}, AvailableMemory(2 * GIB, 2 * GIB)),
        (
            {"limit": Resources(1, 0)},
            AvailableMemory(2 * GIB, 2 * GIB),
        ),  # without limit
        ({"usage": Usage(1.0, None)}, AvailableMemory(None, 8 * GIB)),
        ({"limit": None, "usage": Usage()}, AvailableMemory(None, None)),
    ],
)
def test_required_memory_is_usage_and_limit(
    changes: dict[str, Any], expected: AvailableMemory
) -> None:
    assert required_memory([vm(**changes)]) == expected


def test_required_memory_of_group_is_the_sum() -> None:
    assert required_memory([vm(), vm()]) == AvailableMemory(4 * GIB, 16 * GIB)
    assert required_memory([vm(), vm(usage=Usage())]) == AvailableMemory(None, 16 * GIB)


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
    assert AvailableMemory(5, 9).minus(AvailableMemory(7, 2)) == AvailableMemory(-2, 7)
    assert AvailableMemory(None, 9).minus(AvailableMemory(7, None)) == AvailableMemory(
        None, None
    )
