"""How much memory a node can still take in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from builders import cluster, guest, node
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
from opendrs.rules.room import Room, need, room, room_when_empty

A, B = NodeId("a"), NodeId("b")
PLAIN = Limits(memory_headroom=0.25, memory_overbooking=1.5)


def vm(where: str = "a", **changes: Any) -> Guest:  # noqa: ANN401
    """Return a guest that uses 2 GiB of at most 8."""
    memory = {"limit": Resources(1, 8 * GIB), "usage": Usage(0.5, 2 * GIB)}
    return guest("vm", where, 0.1, **{**memory, **changes})


def holding(*guests: Guest, a: Node | None = None) -> Snapshot:
    empty = cluster({"a": 0.5, "b": 0.5}, {})
    nodes = {**empty.nodes, A: a or empty.nodes[A]}
    return replace(empty, nodes=nodes, guests={each.id: each for each in guests})


def test_headroom_stays_free_of_measured_use() -> None:
    # By hand: of 100 GiB 75 may be used, and 50 are.
    assert room(holding(), PLAIN)[A].used == 25 * GIB


def test_memory_may_be_promised_as_often_as_the_operator_says() -> None:
    # By hand: 150 GiB may be promised, and 8 are.
    assert room(holding(vm()), PLAIN)[A].promised == 142 * GIB


def test_a_stopped_guest_is_promised_nothing() -> None:
    stopped = vm(state=GuestState.STOPPED)

    assert room(holding(stopped), PLAIN)[A].promised == 150 * GIB


def test_a_guest_on_the_way_takes_room_on_both_nodes() -> None:
    rooms = room(holding(vm("a", migrating_to=B)), PLAIN)

    assert rooms[A] == Room(25 * GIB, 142 * GIB)
    assert rooms[B] == Room(23 * GIB, 142 * GIB)


def test_room_is_less_than_nothing_on_a_node_that_is_too_full() -> None:
    full = node("a", 0.9)

    assert room(holding(a=full), PLAIN)[A].used == -15 * GIB


def test_a_node_without_capacity_has_no_room_that_is_known() -> None:
    blind = node("a", 0.5, capacity=None)

    assert room(holding(a=blind), PLAIN)[A] == Room(None, None)


def test_use_that_was_not_measured_leaves_only_the_promises_known() -> None:
    blind = node("a", 0.5, usage=Usage(1.0, None))

    assert room(holding(a=blind), PLAIN)[A] == Room(None, 150 * GIB)


def test_a_guest_of_whom_nothing_is_known_may_have_been_promised_anything() -> None:
    unknown = vm(limit=None, usage=Usage())

    assert room(holding(unknown), PLAIN)[A] == Room(25 * GIB, None)
    assert room(holding(unknown), PLAIN)[B] == Room(25 * GIB, 150 * GIB)


def test_a_guest_of_unknown_use_on_the_way_may_fill_its_target() -> None:
    arriving = vm("a", migrating_to=B, usage=Usage(1.0, None))

    assert room(holding(arriving), PLAIN)[B].used is None


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, Room(2 * GIB, 8 * GIB)),
        ({"limit": None}, Room(2 * GIB, 2 * GIB)),
        ({"limit": Resources(1, 0)}, Room(2 * GIB, 2 * GIB)),  # without limit
        ({"usage": Usage(1.0, None)}, Room(None, 8 * GIB)),
        ({"limit": None, "usage": Usage()}, Room(None, None)),
    ],
)
def test_a_guest_needs_what_it_uses_and_what_it_was_promised(
    changes: dict[str, Any], expected: Room
) -> None:
    assert need([vm(**changes)]) == expected


def test_guests_that_move_as_one_need_the_sum() -> None:
    assert need([vm(), vm()]) == Room(4 * GIB, 16 * GIB)
    assert need([vm(), vm(usage=Usage())]) == Room(None, 16 * GIB)


def test_no_more_is_free_again_than_there_is() -> None:
    most = Room(10, 20)

    assert Room(5, 9).plus(Room(4, 2), most) == Room(9, 11)
    assert Room(5, 9).plus(Room(7, 30), most) == most
    assert Room(None, 9).plus(Room(1, None), most) == Room(None, None)


def test_the_room_of_an_empty_node_is_what_the_operator_leaves() -> None:
    assert room_when_empty(node("a", 0.9), PLAIN) == Room(75 * GIB, 150 * GIB)


def test_what_is_left_is_unknown_where_either_is() -> None:
    assert Room(5, 9).minus(Room(7, 2)) == Room(-2, 7)
    assert Room(None, 9).minus(Room(7, None)) == Room(None, None)
