"""Moves that are in order stay so, and every way through them is safe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hypothesis import event, given, settings
from hypothesis import strategies as st

from builders import cluster, guest, guest_ids
from opendrs.model import (
    EMPTY_PLAN,
    Affinity,
    AntiAffinity,
    GuestId,
    Migration,
    NodeId,
    PowerOff,
    PowerOn,
    Rule,
    Snapshot,
    Usage,
)
from opendrs.policies.passage import Journey, Passage, Switch, in_turn
from opendrs.policies.units import Selection
from opendrs.policies.units import units as find_units
from opendrs.rules import Targets, compile_rules
from opendrs.scoring import UsageMode
from oracles.passage import faults
from oracles.worst import ancestors, unsafe
from upheavals import ALL, Upheaval, journey, scene, upheavals, waits, ways

A, B = NodeId("a"), NodeId("b")
WOKEN = Switch(B, "it is needed")
EMPTIED = Switch(A, "nobody is on it")


def turns(
    snapshot: Snapshot,
    journeys: Sequence[Journey],
    wake: Sequence[Switch] = (),
    sleep: Sequence[Switch] = (),
) -> Passage:
    rules = compile_rules(snapshot)
    return in_turn(journeys, snapshot, rules, ALL, wake=wake, sleep=sleep)


def ordered(
    snapshot: Snapshot,
    *moves: str,
    wake: Sequence[Switch] = (),
    sleep: Sequence[Switch] = (),
) -> Passage:
    """Return the way for moves like "x b" that are made one after another."""
    return turns(snapshot, [journey(snapshot, each) for each in moves], wake, sleep)


def test_no_moves_are_no_plan() -> None:
    way = ordered(scene({"a": 0.0}, ""))

    assert (way.plan, way.made, way.notes) == (EMPTY_PLAN, (), ())


def test_moves_stay_in_their_order_whatever_their_size() -> None:
    snapshot = scene({"a": 0.9, "b": 0.0}, "x:a:0.3 y:a:0.1 z:a:0.5")

    way = ordered(snapshot, "x b", "z b", "y b")

    assert way.actions == tuple(Migration(GuestId(name), A, B) for name in "xzy")
    assert waits(way.plan) == {"1": (), "2": (), "3": ()}
    assert {step.why for step in way.plan.steps} == {"because"}


def test_a_move_waits_for_those_before_it_that_make_room() -> None:
    snapshot = scene({"a": 0.9, "b": 0.9, "c": 0.0}, "x:a y:b")

    assert waits(ordered(snapshot, "y c", "x b").plan) == {"1": (), "2": ("1",)}


def test_who_comes_too_early_is_given_up_and_named() -> None:
    snapshot = scene({"a": 0.9, "b": 0.9, "c": 0.0}, "x:a y:b")

    way = ordered(snapshot, "x b", "y c")

    assert ways(way.made) == ["y c"]
    assert ways(way.given_up) == ["x b"]
    assert way.notes == (
        "given up, because there is no safe way: x stay where they are",
    )


def test_who_relied_on_one_that_is_given_up_is_given_up_too() -> None:
    snapshot = scene({"a": 0.9, "b": 0.9, "c": 0.9, "d": 0.0}, "x:a y:b z:c")

    assert ways(ordered(snapshot, "y c", "x b", "z d").given_up) == ["y c", "x b"]


def test_nobody_makes_a_detour() -> None:
    snapshot = scene({"a": 0.9, "b": 0.9, "c": 0.0}, "x:a:0.6 y:b:0.5")

    way = ordered(snapshot, "x b", "y a")

    assert (way.made, way.detours) == ((), ())
    assert ways(way.given_up) == ["x b", "y a"]


def test_nobody_comes_while_one_is_there_from_whom_it_must_be_apart() -> None:
    apart = AntiAffinity(guests=guest_ids("x", "y"))
    snapshot = scene({"a": 0.3, "b": 0.3, "c": 0.0}, "x:a y:b", apart)

    assert ways(ordered(snapshot, "x b", "y c").given_up) == ["x b"]
    assert waits(ordered(snapshot, "y c", "x b").plan) == {"1": (), "2": ("1",)}


def test_what_is_not_measured_stays() -> None:
    snapshot = scene({"a": 0.9, "b": 0.0}, "x:a y:a")
    dark = replace(snapshot.guests[GuestId("x")], usage=Usage(), limit=None)
    snapshot = replace(snapshot, guests={**snapshot.guests, dark.id: dark})

    way = ordered(snapshot, "x b", "y b")

    assert (ways(way.given_up), ways(way.made)) == (["x b"], ["y b"])


def test_guests_that_move_as_one_share_their_waits() -> None:
    pair = Affinity(guests=guest_ids("x", "w"))
    snapshot = scene({"a": 0.9, "b": 0.6, "c": 0.0}, "x:a w:a y:b", pair)

    plan = ordered(snapshot, "y c", "w,x b").plan

    assert waits(plan) == {"1": (), "2": ("1",), "3": ("1",)}


def test_arrivals_wait_for_a_node_to_wake_and_its_sleep_for_all_who_leave() -> None:
    snapshot = scene({"a": 0.6, "b": 0.0}, "x:a y:a")

    way = ordered(snapshot, "x b", "y b", wake=[WOKEN], sleep=[EMPTIED])

    assert way.actions == (
        PowerOn(B),
        Migration(GuestId("x"), A, B),
        Migration(GuestId("y"), A, B),
        PowerOff(A),
    )
    assert waits(way.plan) == {"1": (), "2": ("1",), "3": ("1",), "4": ("2", "3")}
    assert [step.why for step in way.plan.steps[::3]] == [WOKEN.why, EMPTIED.why]


def test_a_node_where_nobody_is_is_put_to_sleep_at_once() -> None:
    assert waits(ordered(scene({"a": 0.0}, ""), sleep=[EMPTIED]).plan) == {"1": ()}


def test_no_node_is_woken_for_those_who_stay_nor_put_to_sleep_under_them() -> None:
    snapshot = scene({"a": 0.9, "b": 0.9}, "x:a y:a:0.1")

    way = ordered(snapshot, "x b", wake=[WOKEN], sleep=[EMPTIED])

    assert way.plan == EMPTY_PLAN
    assert ways(way.given_up) == ["x b"]


@dataclass(frozen=True)
class Walk:
    """A cluster, and moves that are open one after another."""

    snapshot: Snapshot
    journeys: tuple[Journey, ...]


@st.composite
def walks(draw: st.DrawFn, *, seeming: bool = True) -> Walk:
    """Draw a cluster with little memory to spare, and moves that suit it.

    Args:
        draw: What draws.
        seeming: Whether guests may seem to use more than their node does.
    """
    names = "abcd"[: draw(st.integers(2, 4))]
    sizes = draw(st.lists(st.integers(1, 4), min_size=3, max_size=7))
    guests = [
        guest(f"g{i}", draw(st.sampled_from(names)), size / 10)
        for i, size in enumerate(sizes)
    ]
    some = st.sets(st.sampled_from([each.id for each in guests]), min_size=2)
    kinds: st.SearchStrategy[type[Affinity | AntiAffinity]] = st.sampled_from(
        [Affinity, AntiAffinity, AntiAffinity]
    )
    rules: list[Rule] = [
        draw(kinds)(guests=frozenset(draw(some)))
        for _ in range(draw(st.integers(0, 3)))
    ]
    used = {
        name: sum(sizes[i] for i, g in enumerate(guests) if g.node == name) / 10
        for name in names
    }
    part = draw(st.sampled_from([1.0, 0.5])) if seeming else 1.0
    snapshot = cluster({name: part * load for name, load in used.items()}, {}, rules)
    snapshot = replace(snapshot, guests={each.id: each for each in guests})
    return Walk(snapshot, _walk(draw, snapshot))


def _walk(draw: st.DrawFn, snapshot: Snapshot) -> tuple[Journey, ...]:
    rules = compile_rules(snapshot)
    selection = Selection(mode=UsageMode.DYNAMIC, relocate=True)
    waiting = list(find_units(snapshot, rules, ALL, selection).movable.values())
    journeys: list[Journey] = []
    while waiting:
        unit = waiting.pop(draw(st.integers(0, len(waiting) - 1)))
        targets = Targets(snapshot, rules, ALL).open(unit)
        if targets:
            journeys.append(Journey(unit, draw(st.sampled_from(targets)), "because"))
            snapshot = snapshot.after(*journeys[-1].moves)
    return tuple(journeys)


@settings(max_examples=200)
@given(walks())
def test_every_state_on_the_way_keeps_rules_and_memory(walk: Walk) -> None:
    way = turns(walk.snapshot, walk.journeys)

    event(f"longest chain of waits: {longest(way)}")
    event(f"given up: {len(way.given_up)}")
    assert faults(walk.snapshot, way.plan, ALL) == []


@settings(max_examples=100)
@given(walks(seeming=False))
def test_what_can_be_made_one_by_one_is_made_in_that_order(walk: Walk) -> None:
    way = turns(walk.snapshot, walk.journeys)

    assert way.made == walk.journeys
    assert way.actions == tuple(m for each in walk.journeys for m in each.moves)
    assert unsafe(walk.snapshot, way.plan, ALL) == []


@settings(max_examples=100)
@given(upheavals())
def test_of_moves_in_any_order_those_that_can_are_made(upheaval: Upheaval) -> None:
    way = turns(upheaval.snapshot, upheaval.journeys)

    event(f"given up: {len(way.given_up)} of {len(upheaval.journeys)}")
    kept = [each for each in upheaval.journeys if each not in way.given_up]
    assert way.made == tuple(kept)
    assert faults(upheaval.snapshot, way.plan, ALL) == []
    assert unsafe(upheaval.snapshot, way.plan, ALL) == []


@given(walks())
def test_steps_of_one_unit_share_their_waits(walk: Walk) -> None:
    way = turns(walk.snapshot, walk.journeys)

    after = {step.action: step.after for step in way.plan.steps}
    for each in way.made:
        assert len({after[move] for move in each.moves}) == 1


@given(walks())
def test_no_wait_is_told_that_another_implies(walk: Walk) -> None:
    plan = turns(walk.snapshot, walk.journeys).plan

    implied = ancestors(plan)
    for step in plan.steps:
        further = [implied[earlier] for earlier in step.after]
        assert not set(step.after) & set().union(*further)


def longest(way: Passage) -> int:
    """Return how many steps wait for one another at most."""
    depth: dict[str, int] = {}
    for step in way.plan.steps:
        depth[step.id] = 1 + max((depth[earlier] for earlier in step.after), default=0)
    return max(depth.values(), default=0)
