"""Every way through a plan that its waits allow is safe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from builders import cluster, guest, guest_ids
from opendrs.model import (
    EMPTY_PLAN,
    GIB,
    Affinity,
    AntiAffinity,
    GuestId,
    Limits,
    Migration,
    NodeId,
    Plan,
    PowerOff,
    PowerOn,
    Resources,
    Rule,
    Snapshot,
    Usage,
)
from opendrs.policies.board import moves_of
from opendrs.policies.order import Choice, Switch, ordered
from opendrs.policies.units import Selection
from opendrs.policies.units import units as find_units
from opendrs.rules import Targets, compile_rules
from opendrs.scoring import UsageMode
from oracles.passage import faults

ALL = Limits(memory_headroom=0.0)
Way = tuple[str, str, str]


def plan_of(snapshot: Snapshot, *choices: Sequence[Way], limits: Limits = ALL) -> Plan:
    """Return the plan for choices of (guest, source, target)."""
    made = [
        Choice(
            tuple(
                Migration(GuestId(guest), NodeId(source), NodeId(target))
                for guest, source, target in moves
            ),
            why="",
        )
        for moves in choices
    ]
    return ordered(made, snapshot, compile_rules(snapshot), limits)


def waits(plan: Plan) -> dict[str, tuple[str, ...]]:
    return {step.id: step.after for step in plan.steps}


def scene(nodes: dict[str, float], at: str, *rules: Rule) -> Snapshot:
    """Return guests of 0.3 each; *at* is like "x:a y:b"."""
    places = dict(each.split(":") for each in at.split())
    return cluster(
        {**nodes}, {name: (node, 0.3) for name, node in places.items()}, rules
    )


def test_no_choices_are_no_plan() -> None:
    assert plan_of(scene({"a": 0.0}, "")) == EMPTY_PLAN


def test_steps_with_room_for_all_wait_for_nothing() -> None:
    snapshot = scene({"a": 0.9, "b": 0.0}, "x:a y:a z:a")

    plan = plan_of(snapshot, [("x", "a", "b")], [("y", "a", "b")])

    assert waits(plan) == {"1": (), "2": ()}


def test_a_step_waits_until_somebody_has_made_room() -> None:
    snapshot = scene({"a": 0.9, "b": 0.9, "c": 0.0}, "x:a y:b")

    plan = plan_of(snapshot, [("y", "b", "c")], [("x", "a", "b")])

    assert waits(plan) == {"1": (), "2": ("1",)}


def test_room_that_is_just_enough_is_enough() -> None:
    snapshot = scene({"a": 0.9, "b": 0.4}, "x:a y:a")

    plan = plan_of(snapshot, [("x", "a", "b")], [("y", "a", "b")])

    assert waits(plan) == {"1": (), "2": ()}


def test_a_step_waits_for_promised_memory_too() -> None:
    snapshot = scene({"a": 0.3, "b": 0.3, "c": 0.0}, "x:a y:b")
    large = replace(snapshot.guests[GuestId("y")], limit=Resources(1, 90 * GIB))
    snapshot = replace(snapshot, guests={**snapshot.guests, large.id: large})

    plan = plan_of(snapshot, [("y", "b", "c")], [("x", "a", "b")])

    assert waits(plan) == {"1": (), "2": ("1",)}


def test_a_step_waits_until_whom_it_must_be_apart_from_has_left() -> None:
    spread = AntiAffinity(guests=guest_ids("x", "y"))
    snapshot = scene({"a": 0.3, "b": 0.3, "c": 0.0}, "x:a y:b", spread)

    plan = plan_of(snapshot, [("y", "b", "c")], [("x", "a", "b")])

    assert waits(plan) == {"1": (), "2": ("1",)}


def test_later_arrivals_wait_for_the_same() -> None:
    nodes = {"a": 0.9, "b": 0.9, "c": 0.0}
    snapshot = scene(nodes, "x:a w:a y:b z:b")

    plan = plan_of(
        snapshot,
        [("y", "b", "c")],
        [("z", "b", "c")],
        [("x", "a", "b")],
        [("w", "a", "b")],
    )

    assert waits(plan) == {"1": (), "2": (), "3": ("1", "2"), "4": ("1", "2")}


def test_who_waits_for_somebody_to_leave_waits_for_those_who_came_before_as_well() -> (
    None
):
    """Or else they would have to count on it that somebody has left."""
    spread = AntiAffinity(guests=guest_ids("x", "y"))
    snapshot = scene({"a": 0.6, "b": 0.3, "c": 0.0}, "x:a z:a y:b", spread)

    plan = plan_of(snapshot, [("y", "b", "c")], [("z", "a", "b")], [("x", "a", "b")])

    assert waits(plan) == {"1": (), "2": (), "3": ("1", "2")}


def test_nobody_waits_for_those_who_leave_later_while_there_is_room() -> None:
    spread = (
        AntiAffinity(guests=guest_ids("x", "y")),
        AntiAffinity(guests=guest_ids("w", "y")),
    )
    snapshot = scene({"a": 0.6, "b": 0.4, "c": 0.0}, "x:a w:a y:b z:b", *spread)
    small = replace(snapshot.guests[GuestId("z")], usage=Usage(1.0, 10 * GIB))
    snapshot = replace(snapshot, guests={**snapshot.guests, small.id: small})

    plan = plan_of(
        snapshot,
        [("y", "b", "c")],
        [("x", "a", "b")],
        [("z", "b", "c")],
        [("w", "a", "b")],
    )

    assert waits(plan) == {"1": (), "2": ("1",), "3": (), "4": ("1",)}


def test_one_wave_after_another_waits_for_all_who_have_left() -> None:
    # On b are y with 0.5, z with 0.1, u with 0.2 and 0.1 that nobody asks about.
    sizes = {"y": 0.5, "z": 0.1, "u": 0.2, "x": 0.2, "w": 0.5, "v": 0.2}
    places = {name: ("b" if name in "yzu" else "a", sizes[name]) for name in sizes}
    snapshot = cluster({"a": 0.9, "b": 0.9, "c": 0.0}, {**places})

    plan = plan_of(
        snapshot,
        [("y", "b", "c")],
        [("x", "a", "b")],  # 0.9 - 0.5 + 0.2
        [("z", "b", "c")],
        [("w", "a", "b")],  # 0.6 - 0.1 + 0.5
        [("u", "b", "c")],
        [("v", "a", "b")],  # 1.0 - 0.2 + 0.2
    )

    assert waits(plan) == {
        "1": (),
        "2": ("1",),
        "3": (),
        "4": ("2", "3"),
        "5": (),
        "6": ("4", "5"),
    }


def test_waits_that_others_imply_are_not_told() -> None:
    nodes = {"a": 0.9, "b": 0.9, "c": 0.9, "d": 0.0}
    snapshot = scene(nodes, "v:c z:c y:b w:b x:a")

    plan = plan_of(
        snapshot,
        [("z", "c", "d")],
        [("v", "c", "d")],
        [("y", "b", "c")],
        [("w", "b", "c")],
        [("x", "a", "b")],  # waits for the two before, and so for the first two
    )

    assert waits(plan) == {
        "1": (),
        "2": (),
        "3": ("1", "2"),
        "4": ("1", "2"),
        "5": ("3", "4"),
    }


def test_a_wait_that_comes_round_again_is_told_once() -> None:
    sizes = {"y": 0.5, "w": 0.4, "z": 0.5, "x": 0.4}
    places = {"y": "b", "w": "b", "z": "c", "x": "a"}
    guests = {name: (places[name], sizes[name]) for name in sizes}
    snapshot = cluster({"a": 0.4, "b": 0.9, "c": 0.9, "d": 0.0}, {**guests})

    plan = plan_of(
        snapshot,
        [("y", "b", "d")],
        [("z", "c", "b")],
        [("w", "b", "c")],
        [("x", "a", "b")],  # y and w must have left, and w waits for y by way of z
    )

    assert waits(plan) == {"1": (), "2": ("1",), "3": ("2",), "4": ("3",)}


def test_guests_that_move_as_one_share_their_waits() -> None:
    pair = Affinity(guests=guest_ids("x", "w"))
    snapshot = scene({"a": 0.9, "b": 0.6, "c": 0.0}, "x:a w:a y:b", pair)

    plan = plan_of(snapshot, [("y", "b", "c")], [("w", "a", "b"), ("x", "a", "b")])

    assert waits(plan) == {"1": (), "2": ("1",), "3": ("1",)}


def test_steps_are_named_in_order_and_keep_their_why() -> None:
    snapshot = scene({"a": 0.3, "b": 0.0}, "x:a")
    choice = Choice((Migration(GuestId("x"), NodeId("a"), NodeId("b")),), why="because")

    (step,) = ordered([choice], snapshot, compile_rules(snapshot), ALL).steps

    assert (step.id, step.action, step.why) == ("1", choice.moves[0], "because")


@st.composite
def journeys(draw: st.DrawFn) -> tuple[Snapshot, list[Choice]]:
    """Draw a cluster with little memory to spare, and choices safe one by one."""
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
    snapshot = cluster({name: min(1.0, load) for name, load in used.items()}, {}, rules)
    snapshot = replace(snapshot, guests={each.id: each for each in guests})
    return snapshot, _walk(draw, snapshot)


def _walk(draw: st.DrawFn, snapshot: Snapshot) -> list[Choice]:
    rules = compile_rules(snapshot)
    selection = Selection(mode=UsageMode.DYNAMIC, relocate=True)
    waiting = list(find_units(snapshot, rules, ALL, selection).movable.values())
    choices: list[Choice] = []
    while waiting:
        unit = waiting.pop(draw(st.integers(0, len(waiting) - 1)))
        targets = Targets(snapshot, rules, ALL).open(unit)
        if targets:
            moves = moves_of(unit, draw(st.sampled_from(targets)))
            choices.append(Choice(moves, ""))
            for move in moves:
                snapshot = snapshot.after(move)
    return choices


@settings(max_examples=300)
@given(journeys())
def test_every_state_on_the_way_keeps_rules_and_memory(
    journey: tuple[Snapshot, list[Choice]],
) -> None:
    snapshot, choices = journey

    plan = ordered(choices, snapshot, compile_rules(snapshot), ALL)

    event(f"longest chain of waits: {longest(plan)}")
    assert faults(snapshot, plan, ALL) == []


@given(journeys())
def test_steps_of_one_unit_share_their_waits(
    journey: tuple[Snapshot, list[Choice]],
) -> None:
    snapshot, choices = journey

    plan = ordered(choices, snapshot, compile_rules(snapshot), ALL)

    after = {step.action: step.after for step in plan.steps}
    for choice in choices:
        assert len({after[move] for move in choice.moves}) == 1


@given(journeys())
def test_no_wait_is_told_that_another_implies(
    journey: tuple[Snapshot, list[Choice]],
) -> None:
    snapshot, choices = journey

    plan = ordered(choices, snapshot, compile_rules(snapshot), ALL)

    implied: dict[str, set[str]] = {}
    for step in plan.steps:
        further = [implied[earlier] for earlier in step.after]
        assert not set(step.after) & set().union(*further)
        implied[step.id] = {*step.after}.union(*further)


def longest(plan: Plan) -> int:
    """Return how many steps wait for one another at most."""
    depth: dict[str, int] = {}
    for step in plan.steps:
        depth[step.id] = 1 + max((depth[earlier] for earlier in step.after), default=0)
    return max(depth.values(), default=0)


@pytest.mark.parametrize("after", [(), ("1",)])
def test_the_judge_sees_a_step_that_does_not_wait(after: tuple[str, ...]) -> None:
    spread = AntiAffinity(guests=guest_ids("x", "y"))
    snapshot = scene({"a": 0.9, "b": 0.9, "c": 0.0}, "x:a y:b", spread)
    plan = plan_of(snapshot, [("y", "b", "c")], [("x", "a", "b")])
    first, second = plan.steps
    hasty = Plan(
        (first, replace(second, after=tuple(type(first.id)(s) for s in after)))
    )

    seen = {fault.split(" in ")[0] for fault in faults(snapshot, hasty, ALL)}

    wrong = {"['x', 'y'] break rule 0", "b is overfilled"}
    assert seen == (set() if after else wrong)


def test_arrivals_wait_for_a_node_to_wake_and_its_sleep_for_all_who_leave() -> None:
    snapshot = scene({"a": 0.6, "b": 0.0}, "x:a y:a")
    a, b = NodeId("a"), NodeId("b")
    choices = [Choice((Migration(GuestId(name), a, b),), why="") for name in ("x", "y")]

    plan = ordered(
        choices,
        snapshot,
        compile_rules(snapshot),
        ALL,
        wake=[Switch(b, "it is needed")],
        sleep=[Switch(a, "nobody is on it")],
    )

    assert [step.action for step in plan.steps] == [
        PowerOn(b),
        Migration(GuestId("x"), a, b),
        Migration(GuestId("y"), a, b),
        PowerOff(a),
    ]
    assert waits(plan) == {"1": (), "2": ("1",), "3": ("1",), "4": ("2", "3")}
    assert plan.steps[0].why == "it is needed"
