"""Dependencies of steps: necessary and minimal."""

from __future__ import annotations

from dataclasses import replace

from opendrs.arrays import ClusterArrays
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
from opendrs.planning.dependencies import add_dependencies
from opendrs.planning.moves import PendingMove
from opendrs.planning.state import FreeMemory
from opendrs.rules import compile_rules
from support.builders import guest_ids
from support.sequencing_cases import (
    NO_HEADROOM,
    dependencies,
    group_move,
    sequence_texts,
    small_cluster,
)


def plan_of(snapshot: Snapshot, *moves: str) -> Plan:
    """Return the plan for journeys that are in order."""
    here = ClusterArrays(snapshot, compile_rules(snapshot), NO_HEADROOM)
    return add_dependencies(
        [PendingMove(group_move(snapshot, move), here) for move in moves],
        FreeMemory(here),
        here.free_places,
    )


def test_steps_with_memory_for_all_have_no_dependencies() -> None:
    snapshot = small_cluster({"a": 0.9, "b": 0.4}, "x:a y:a")

    assert dependencies(plan_of(snapshot, "x b", "y b")) == {"1": (), "2": ()}


def test_step_depends_on_freed_committed_memory() -> None:
    snapshot = small_cluster({"a": 0.3, "b": 0.3, "c": 0.0}, "x:a y:b")
    large = replace(snapshot.guests[GuestId("y")], limit=Resources(1, 90 * GIB))
    snapshot = replace(snapshot, guests={**snapshot.guests, large.id: large})

    assert dependencies(plan_of(snapshot, "y c", "x b")) == {"1": (), "2": ("1",)}


def test_step_depends_on_no_more_departures_than_required() -> None:
    snapshot = small_cluster({"a": 0.9, "b": 0.9, "c": 0.0}, "x:a y:b z:b")

    # y makes room for x; what z does is of no concern.
    assert dependencies(plan_of(snapshot, "y c", "z c", "x b")) == {
        "1": (),
        "2": (),
        "3": ("1",),
    }


def test_larger_arrival_depends_on_smaller_arrival() -> None:
    snapshot = small_cluster({"a": 0.9, "b": 0.9, "c": 0.0}, "x:a w:a y:b z:b")

    # Should w not wait for x, then x would have to wait for z as well.
    assert dependencies(plan_of(snapshot, "y c", "z c", "x b", "w b")) == {
        "1": (),
        "2": (),
        "3": ("1",),
        "4": ("2", "3"),
    }


def test_only_anti_affine_guests_depend_on_departure() -> None:
    apart = AntiAffinity(guests=guest_ids("x", "y"))
    snapshot = small_cluster({"a": 0.6, "b": 0.3, "c": 0.0}, "x:a z:a y:b", apart)

    assert dependencies(plan_of(snapshot, "y c", "x b", "z b")) == {
        "1": (),
        "2": ("1",),
        "3": (),
    }


def test_the_second_half_of_a_detour_waits_for_the_first() -> None:
    snapshot = small_cluster({"a": 0.9, "b": 0.9, "c": 0.0}, "x:a:0.6 y:b:0.5")
    plan = sequence_texts(snapshot, "x b", "y a").plan

    assert dependencies(plan) == {"1": (), "2": ("1",), "3": ("2",)}


def test_step_does_not_depend_on_redundant_departure() -> None:
    snapshot = small_cluster({"a": 0.9, "b": 0.9, "c": 0.0}, "x:a:0.5 y:b:0.1 z:b:0.4")

    # y has left sooner, but without z that is not enough, and with z not needed.
    assert dependencies(plan_of(snapshot, "y c", "z c", "x b")) == {
        "1": (),
        "2": (),
        "3": ("2",),
    }


def test_arrival_depends_only_on_arrivals_without_enough_memory() -> None:
    nodes = {"a": 0.9, "b": 0.9, "c": 0.4, "d": 0.0}
    snapshot = small_cluster(nodes, "x:a:0.1 y:b:0.5 v:a:0.3 w:a:0.3")

    # v waits for y, and so has room to spare for w; x has none.
    assert dependencies(plan_of(snapshot, "y d", "x b", "v b", "w c")) == {
        "1": (),
        "2": (),
        "3": ("1", "2"),
        "4": (),
    }


def test_a_guest_that_only_waited_somewhere_frees_what_it_took() -> None:
    snapshot = small_cluster({"a": 0.9, "b": 0.9, "c": 0.3}, "x:a:0.6 y:b:0.5 z:a:0.3")
    here = ClusterArrays(snapshot, compile_rules(snapshot), NO_HEADROOM)
    detour, rest = group_move(snapshot, "y a").split_via(NodeId("c"))

    plan = add_dependencies(
        [
            PendingMove(detour, here, is_detour=True),
            PendingMove(group_move(snapshot, "x b"), here),
            PendingMove(rest, here, from_detour=True),
            PendingMove(group_move(snapshot, "z c"), here),
        ],
        FreeMemory(here),
        here.free_places,
    )

    assert dependencies(plan) == {"1": (), "2": ("1",), "3": ("2",), "4": ("3",)}


def test_arrival_uses_surplus_of_other_arrivals() -> None:
    nodes = {"a": 0.9, "b": 0.5, "c": 0.0}
    snapshot = small_cluster(nodes, "x:a:0.2 y:a:0.2 z:b:0.4 w:a:0.2")

    # With x alone w would have had room, and with y alone too.
    assert dependencies(plan_of(snapshot, "x b", "y b", "z c", "w b")) == {
        "1": (),
        "2": (),
        "3": (),
        "4": ("1", "2", "3"),
    }


def test_staged_guest_frees_exactly_what_it_reserved() -> None:
    nodes = {"a": 0.9, "b": 0.2, "c": 0.0, "d": 0.0}
    snapshot = small_cluster(nodes, "y:b:0.5 z:a:0.4 x:a:0.7")
    rich = Limits(memory_headroom=0.0, memory_overcommit=10.0)
    here = ClusterArrays(snapshot, compile_rules(snapshot), rich)
    detour, rest = group_move(snapshot, "z d").split_via(NodeId("b"))

    plan = add_dependencies(
        [
            PendingMove(group_move(snapshot, "y c"), here),
            PendingMove(detour, here, is_detour=True),
            PendingMove(rest, here, from_detour=True),
            PendingMove(group_move(snapshot, "x b"), here),
        ],
        FreeMemory(here),
        here.free_places,
    )

    # b uses less than y: y frees 0.2, too little for x; z frees the 0.4 it took.
    assert dependencies(plan)["4"] == ("3",)
