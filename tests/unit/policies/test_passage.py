"""Moves in any order become a plan that is safe in every interleaving."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

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
    NodeAffinity,
    NodeId,
    Plan,
    Resources,
    Rule,
    Snapshot,
)
from opendrs.policies.passage import Detours, Journey, Passage, passage
from opendrs.policies.passage.scene import Leg, Scene
from opendrs.policies.passage.waits import interleaved
from opendrs.rules import compile_rules
from oracles.passage import faults
from oracles.placement import breaks, placement
from oracles.worst import ancestors, unsafe

ALL = Limits(memory_headroom=0.0)
FAR = 10.0**15  # bytes that may go astray: all there are


def scene(nodes: dict[str, float], at: str, *rules: Rule) -> Snapshot:
    """Return guests of 0.3 each, or as told; *at* is like "x:a y:b:0.5"."""
    parts = [each.split(":") for each in at.split()]
    guests = {p[0]: (p[1], float(p[2]) if len(p) > 2 else 0.3) for p in parts}
    return cluster({**nodes}, {**guests}, rules)


def journey(snapshot: Snapshot, way: str, value: float = 1.0) -> Journey:
    """Return who goes where; *way* is like "x b" or "x,y b"."""
    names, target = way.split()
    who = tuple(snapshot.guests[GuestId(name)] for name in names.split(","))
    return Journey(who, NodeId(target), value, why="because")


def through(snapshot: Snapshot, *ways: str, detours: float = FAR) -> Passage:
    journeys = [journey(snapshot, way) for way in ways]
    return passage(
        journeys, snapshot, compile_rules(snapshot), ALL, Detours(memory=detours)
    )


def plan_of(snapshot: Snapshot, *ways: str) -> Plan:
    """Return the plan for journeys that are in order."""
    journeys = [journey(snapshot, way) for way in ways]
    scene = Scene(snapshot, compile_rules(snapshot), ALL)
    return interleaved([Leg(each, scene) for each in journeys], scene)


def ways(journeys: Sequence[Journey]) -> list[str]:
    return [f"{','.join(g.id for g in each.guests)} {each.target}" for each in journeys]


def waits(plan: Plan) -> dict[str, tuple[str, ...]]:
    return {step.id: step.after for step in plan.steps}


def test_no_journeys_are_no_plan() -> None:
    nobody = scene({"a": 0.0}, "")

    assert through(nobody) == Passage(EMPTY_PLAN, (), (), ())
    assert plan_of(nobody) == EMPTY_PLAN


def test_who_makes_room_goes_first() -> None:
    snapshot = scene({"a": 0.9, "b": 0.9, "c": 0.0}, "x:a y:b")

    found = through(snapshot, "x b", "y c")

    assert ways(found.made) == ["y c", "x b"]
    assert found.given_up == ()


def test_who_must_be_apart_goes_first() -> None:
    apart = AntiAffinity(guests=guest_ids("x", "y"))
    snapshot = scene({"a": 0.3, "b": 0.3, "c": 0.0}, "x:a y:b", apart)

    assert ways(through(snapshot, "x b", "y c").made) == ["y c", "x b"]


def test_two_that_change_places_need_a_third() -> None:
    snapshot = scene({"a": 0.9, "b": 0.9, "c": 0.0}, "x:a:0.6 y:b:0.5")

    found = through(snapshot, "x b", "y a")

    # The smaller one steps aside.
    assert ways(found.made) == ["y c", "x b", "y a"]
    assert found.made[0].why == "waits on c until a has room for it"
    assert found.made[2].why == "because"


def test_a_detour_keeps_to_the_rules() -> None:
    snapshot = scene(
        {"a": 0.9, "b": 0.9, "c": 0.3, "d": 0.0},
        "x:a:0.6 y:b:0.5 z:c",
        AntiAffinity(guests=guest_ids("y", "z")),
        NodeAffinity(guests=guest_ids("x"), nodes={NodeId(n): 1 for n in "ab"}),
    )

    assert "y d" in ways(through(snapshot, "x b", "y a").made)


def test_nobody_waits_where_a_stranger_is_expected() -> None:
    apart = AntiAffinity(guests=guest_ids("y", "v"))
    snapshot = scene(
        {"a": 0.9, "b": 0.9, "c": 0.9, "d": 0.0},
        "x:a:0.6 y:b:0.5 u:c:0.6 v:d:0.2",
        apart,
    )

    found = through(snapshot, "x b", "y a", "v c")

    assert "y d" not in ways(found.made)


def test_without_a_detour_the_least_valuable_is_given_up() -> None:
    snapshot = scene({"a": 0.9, "b": 0.9}, "x:a:0.6 y:b:0.5")
    journeys = [journey(snapshot, "x b", 2.0), journey(snapshot, "y a", 1.0)]

    found = passage(journeys, snapshot, compile_rules(snapshot), ALL)

    assert found.made == ()
    assert ways(found.given_up) == ["y a", "x b"]


def test_no_detour_transfers_more_than_may_be() -> None:
    snapshot = scene({"a": 0.9, "b": 0.9, "c": 0.0}, "x:a:0.6 y:b:0.5")

    assert through(snapshot, "x b", "y a", detours=49 * GIB).made == ()
    assert len(through(snapshot, "x b", "y a", detours=50 * GIB).made) == 3


def test_who_comes_from_several_nodes_arrives_together() -> None:
    together = Affinity(guests=guest_ids("x", "y"))
    snapshot = scene({"a": 0.9, "b": 0.9, "c": 0.6, "d": 0.0}, "x:a y:b z:c", together)

    found = through(snapshot, "x,y c", "z d")
    plan = found.plan

    assert [step.action for step in plan.steps] == [
        Migration(GuestId("z"), NodeId("c"), NodeId("d")),
        Migration(GuestId("x"), NodeId("a"), NodeId("c")),
        Migration(GuestId("y"), NodeId("b"), NodeId("c")),
    ]
    assert waits(plan) == {"1": (), "2": ("1",), "3": ("1",)}


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
    found = through(snapshot, "x b", "y a")

    plan = found.plan

    assert waits(plan) == {"1": (), "2": ("1",), "3": ("2",)}


@st.composite
def upheavals(draw: st.DrawFn) -> tuple[Snapshot, list[Journey]]:
    """Draw a cluster with little memory to spare, and where all should end."""
    names = "abcd"[: draw(st.integers(2, 4))]
    sizes = draw(st.lists(st.sampled_from([2, 3, 5, 6]), min_size=3, max_size=8))
    before = _placed(draw, sizes, names)
    after = _placed(draw, sizes[: len(before)], names)
    before = before[: len(after)]  # for the others there is no place in the end
    guests = [
        guest(f"g{i}", where, size / 10)
        for i, (size, where) in enumerate(zip(sizes, before, strict=False))
    ]
    rules = draw(st.lists(_rules(len(guests)), max_size=2)) if guests[1:] else []
    used = {
        name: sum(s for s, w in zip(sizes, before, strict=False) if w == name) / 10
        for name in names
    }
    snapshot = replace(
        cluster({**used}, {}, rules), guests={each.id: each for each in guests}
    )
    return snapshot, [
        Journey((each,), NodeId(where), float(draw(st.integers(0, 3))), "")
        for each, where in zip(guests, after, strict=True)
        if each.node != where
    ]


def _placed(draw: st.DrawFn, sizes: Sequence[int], names: str) -> list[str]:
    """Draw a node with room for each guest, until there is none."""
    free = dict.fromkeys(names, 10)
    places: list[str] = []
    for size in sizes:
        roomy = [name for name in names if free[name] >= size]
        if not roomy:
            break
        places.append(draw(st.sampled_from(roomy)))
        free[places[-1]] -= size
    return places


def _rules(count: int) -> st.SearchStrategy[Rule]:
    some = st.frozensets(
        st.sampled_from([GuestId(f"g{i}") for i in range(count)]),
        min_size=2,
        max_size=3,
    )
    return st.builds(AntiAffinity, guests=some)


@settings(max_examples=400)
@given(upheavals(), st.sampled_from([0.0, FAR]))
def test_every_way_through_keeps_rules_and_memory(
    upheaval: tuple[Snapshot, list[Journey]], detours: float
) -> None:
    snapshot, journeys = upheaval
    rules = compile_rules(snapshot)
    found = passage(journeys, snapshot, rules, ALL, Detours(memory=detours))

    plan = found.plan

    event(f"detours: {len(found.made) + len(found.given_up) - len(journeys)}")
    event(f"given up: {len(found.given_up)}")
    assert faults(snapshot, plan, ALL) == []
    assert unsafe(snapshot, plan, ALL) == []


@given(upheavals(), st.sampled_from([0.0, FAR]))
def test_all_arrive_or_are_given_up(
    upheaval: tuple[Snapshot, list[Journey]], detours: float
) -> None:
    snapshot, journeys = upheaval
    found = passage(
        journeys, snapshot, compile_rules(snapshot), ALL, Detours(memory=detours)
    )

    goals = {each.guests[0].id: each.target for each in journeys}
    lost = {each.guests[0].id for each in found.given_up}
    last = {each.guests[0].id: each.target for each in found.made}
    for name in goals.keys() - lost:
        assert last[name] == goals[name]
    if detours == 0.0:
        assert not lost & last.keys()


@given(upheavals())
def test_nothing_is_given_up_where_all_can_step_aside(
    upheaval: tuple[Snapshot, list[Journey]],
) -> None:
    snapshot, journeys = upheaval
    spare = cluster({f"spare{i}": 0.0 for i in range(len(journeys))}, {}).nodes
    wide = replace(snapshot, rules=(), nodes={**snapshot.nodes, **spare})

    found = passage(journeys, wide, compile_rules(wide), ALL)

    assert found.given_up == ()


@given(upheavals())
def test_no_wait_is_told_that_another_implies(
    upheaval: tuple[Snapshot, list[Journey]],
) -> None:
    snapshot, journeys = upheaval
    rules = compile_rules(snapshot)
    found = passage(journeys, snapshot, rules, ALL)

    plan = found.plan

    implied = ancestors(plan)
    for step in plan.steps:
        further = [implied[earlier] for earlier in step.after]
        assert not set(step.after) & set().union(*further)


@given(upheavals())
def test_no_rule_is_broken_in_the_end_that_was_kept(
    upheaval: tuple[Snapshot, list[Journey]],
) -> None:
    snapshot, journeys = upheaval
    rules = compile_rules(snapshot)
    found = passage(journeys, snapshot, rules, ALL)

    after = snapshot.after(*(m for each in found.made for m in each.moves))

    assert breaks(after, placement(after)) <= breaks(snapshot, placement(snapshot))
