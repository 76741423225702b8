"""Steps wait where they must, and for no more than that."""

from __future__ import annotations

from dataclasses import replace

from builders import guest_ids
from opendrs.model import (
    GIB,
    AntiAffinity,
    GuestId,
    Limits,
    NodeId,
    Plan,
    Resources,
    Snapshot,
)
from opendrs.policies.passage.rooms import Rooms
from opendrs.policies.passage.scene import Leg, Scene
from opendrs.policies.passage.waits import interleaved
from opendrs.rules import compile_rules
from upheavals import ALL, journey, scene, through, waits


def plan_of(snapshot: Snapshot, *ways: str) -> Plan:
    """Return the plan for journeys that are in order."""
    here = Scene(snapshot, compile_rules(snapshot), ALL)
    return interleaved([Leg(journey(snapshot, way), here) for way in ways], Rooms(here))


def test_steps_with_room_for_all_wait_for_nothing() -> None:
    snapshot = scene({"a": 0.9, "b": 0.4}, "x:a y:a")

    assert waits(plan_of(snapshot, "x b", "y b")) == {"1": (), "2": ()}


def test_promised_memory_is_waited_for_too() -> None:
    snapshot = scene({"a": 0.3, "b": 0.3, "c": 0.0}, "x:a y:b")
    large = replace(snapshot.guests[GuestId("y")], limit=Resources(1, 90 * GIB))
    snapshot = replace(snapshot, guests={**snapshot.guests, large.id: large})

    assert waits(plan_of(snapshot, "y c", "x b")) == {"1": (), "2": ("1",)}


def test_a_step_waits_for_no_more_room_than_it_needs() -> None:
    snapshot = scene({"a": 0.9, "b": 0.9, "c": 0.0}, "x:a y:b z:b")

    # y makes room for x; what z does is of no concern.
    assert waits(plan_of(snapshot, "y c", "z c", "x b")) == {
        "1": (),
        "2": (),
        "3": ("1",),
    }


def test_who_needs_more_room_waits_for_who_came_with_less() -> None:
    snapshot = scene({"a": 0.9, "b": 0.9, "c": 0.0}, "x:a w:a y:b z:b")

    # Should w not wait for x, then x would have to wait for z as well.
    assert waits(plan_of(snapshot, "y c", "z c", "x b", "w b")) == {
        "1": (),
        "2": (),
        "3": ("1",),
        "4": ("2", "3"),
    }


def test_who_must_be_apart_is_waited_for_by_those_alone() -> None:
    apart = AntiAffinity(guests=guest_ids("x", "y"))
    snapshot = scene({"a": 0.6, "b": 0.3, "c": 0.0}, "x:a z:a y:b", apart)

    assert waits(plan_of(snapshot, "y c", "x b", "z b")) == {
        "1": (),
        "2": ("1",),
        "3": (),
    }


def test_the_second_half_of_a_detour_waits_for_the_first() -> None:
    snapshot = scene({"a": 0.9, "b": 0.9, "c": 0.0}, "x:a:0.6 y:b:0.5")
    plan = through(snapshot, "x b", "y a").plan

    assert waits(plan) == {"1": (), "2": ("1",), "3": ("2",)}


def test_no_step_waits_for_who_leaves_when_others_free_enough() -> None:
    snapshot = scene({"a": 0.9, "b": 0.9, "c": 0.0}, "x:a:0.5 y:b:0.1 z:b:0.4")

    # y has left sooner, but without z that is not enough, and with z not needed.
    assert waits(plan_of(snapshot, "y c", "z c", "x b")) == {
        "1": (),
        "2": (),
        "3": ("2",),
    }


def test_an_arrival_waits_only_for_those_it_leaves_no_room_for() -> None:
    nodes = {"a": 0.9, "b": 0.9, "c": 0.4, "d": 0.0}
    snapshot = scene(nodes, "x:a:0.1 y:b:0.5 v:a:0.3 w:a:0.3")

    # v waits for y, and so has room to spare for w; x has none.
    assert waits(plan_of(snapshot, "y d", "x b", "v b", "w c")) == {
        "1": (),
        "2": (),
        "3": ("1", "2"),
        "4": (),
    }


def test_a_guest_that_only_waited_somewhere_frees_what_it_took() -> None:
    snapshot = scene({"a": 0.9, "b": 0.9, "c": 0.3}, "x:a:0.6 y:b:0.5 z:a:0.3")
    here = Scene(snapshot, compile_rules(snapshot), ALL)
    aside, rest = journey(snapshot, "y a").by_way_of(NodeId("c"))

    plan = interleaved(
        [
            Leg(aside, here, aside=True),
            Leg(journey(snapshot, "x b"), here),
            Leg(rest, here, second=True),
            Leg(journey(snapshot, "z c"), here),
        ],
        Rooms(here),
    )

    assert waits(plan) == {"1": (), "2": ("1",), "3": ("2",), "4": ("3",)}


def test_who_comes_takes_from_what_others_could_spare() -> None:
    nodes = {"a": 0.9, "b": 0.5, "c": 0.0}
    snapshot = scene(nodes, "x:a:0.2 y:a:0.2 z:b:0.4 w:a:0.2")

    # With x alone w would have had room, and with y alone too.
    assert waits(plan_of(snapshot, "x b", "y b", "z c", "w b")) == {
        "1": (),
        "2": (),
        "3": (),
        "4": ("1", "2", "3"),
    }


def test_who_only_passes_frees_all_it_took_whatever_the_node_seemed_to_use() -> None:
    nodes = {"a": 0.9, "b": 0.2, "c": 0.0, "d": 0.0}
    snapshot = scene(nodes, "y:b:0.5 z:a:0.4 x:a:0.7")
    rich = Limits(memory_headroom=0.0, memory_overbooking=10.0)
    here = Scene(snapshot, compile_rules(snapshot), rich)
    aside, rest = journey(snapshot, "z d").by_way_of(NodeId("b"))

    plan = interleaved(
        [
            Leg(journey(snapshot, "y c"), here),
            Leg(aside, here, aside=True),
            Leg(rest, here, second=True),
            Leg(journey(snapshot, "x b"), here),
        ],
        Rooms(here),
    )

    # b uses less than y: y frees 0.2, too little for x; z frees the 0.4 it took.
    assert waits(plan)["4"] == ("3",)
