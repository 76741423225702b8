"""The budget says "wait" where the review says "no"."""

from __future__ import annotations

import pytest

from builders import cluster
from opendrs.guard import Refusal, room_for
from opendrs.model import (
    DEFAULT_LIMITS,
    Action,
    GuestId,
    Limits,
    Migration,
    Network,
    NodeId,
    PowerOff,
    Snapshot,
)


def under_way(**moving: str) -> Snapshot:
    """Return five nodes with a guest on each, and the guests that are moving."""
    return cluster(
        dict.fromkeys("abcde", 0.3),
        {f"vm_{name}": (name, 0.1) for name in "abcde"},
        moving=moving,
    )


def move(source: str, target: str) -> Migration:
    return Migration(GuestId(f"vm_{source}"), NodeId(source), NodeId(target))


def verdict(
    fresh: Snapshot, *unit: Action, limits: Limits = DEFAULT_LIMITS
) -> Refusal | None:
    found = room_for(unit, fresh, limits)
    return found.refusal if found else None


def test_there_is_room_while_nothing_moves() -> None:
    assert verdict(under_way(), move("a", "b")) is None


@pytest.mark.parametrize("asked", [("a", "e"), ("e", "a")])
def test_a_node_gives_and_receives_only_so_many_guests_at_once(
    asked: tuple[str, str],
) -> None:
    busy = under_way(vm_b="a", vm_c="a")

    assert verdict(busy, move(*asked)) is Refusal.NODE_BUSY
    assert verdict(busy, move("d", "e")) is None


def test_the_cluster_moves_only_so_many_guests_at_once() -> None:
    busy = under_way(vm_a="b", vm_c="d")
    few = Limits(moves_at_once=2)

    assert verdict(busy, move("e", "a"), limits=few) is Refusal.CLUSTER_BUSY
    assert verdict(busy, move("e", "a")) is None


def test_a_unit_too_large_for_the_limit_runs_alone() -> None:
    pair = (
        Migration(GuestId("x"), NodeId("a"), NodeId("b")),
        Migration(GuestId("y"), NodeId("a"), NodeId("b")),
    )
    one = Limits(moves_per_node=1, moves_at_once=1)

    assert verdict(under_way(), *pair, limits=one) is None
    assert verdict(under_way(vm_c="a"), *pair, limits=one) is Refusal.NODE_BUSY
    assert verdict(under_way(vm_c="d"), *pair, limits=one) is Refusal.CLUSTER_BUSY


RACK = Network(name="rack", nodes=(NodeId("a"), NodeId("b")), moves=1)
RACKS = Limits(moves_per_node=9, moves_at_once=9, networks=(RACK,))


@pytest.mark.parametrize("asked", [("a", "e"), ("e", "b")])
def test_a_network_is_crossed_by_only_so_many_guests_at_once(
    asked: tuple[str, str],
) -> None:
    across = under_way(vm_c="a")

    assert verdict(across, move(*asked), limits=RACKS) is Refusal.NETWORK_BUSY
    assert verdict(across, move("a", "b"), limits=RACKS) is None
    assert verdict(across, move("d", "e"), limits=RACKS) is None
    assert verdict(under_way(vm_a="b"), move(*asked), limits=RACKS) is None


def test_a_unit_too_large_for_a_network_crosses_it_alone() -> None:
    pair = (move("a", "e"), move("b", "e"))

    assert verdict(under_way(), *pair, limits=RACKS) is None
    assert verdict(under_way(vm_c="a"), *pair, limits=RACKS) is Refusal.NETWORK_BUSY


def test_a_network_that_is_only_slow_stops_nobody() -> None:
    slow = Network(name="rack", nodes=RACK.nodes, bandwidth=1e9)
    limits = Limits(networks=(slow,))

    assert verdict(under_way(vm_c="a"), move("b", "e"), limits=limits) is None


def test_says_what_crosses_a_network() -> None:
    found = room_for([move("a", "e")], under_way(vm_c="a"), RACKS)

    assert found is not None
    assert found.detail == "1 moves over rack under way, of at most 1"


def test_says_what_is_under_way() -> None:
    found = room_for([move("a", "e")], under_way(vm_b="a", vm_c="a"), DEFAULT_LIMITS)

    assert found is not None
    assert found.detail == "2 moves from or to a under way, of at most 2"


def test_putting_a_node_to_sleep_takes_no_room() -> None:
    few = Limits(moves_at_once=1)

    assert verdict(under_way(vm_a="b"), PowerOff(NodeId("e")), limits=few) is None
