"""Moves in any order find a way through."""

from __future__ import annotations

from dataclasses import replace

from builders import cluster, guest_ids
from opendrs.model import (
    EMPTY_PLAN,
    GIB,
    Affinity,
    AntiAffinity,
    GuestId,
    Migration,
    Mobility,
    NodeAffinity,
    NodeId,
    NodeState,
    Usage,
)
from opendrs.policies.passage import Detours, Passage
from upheavals import found, journey, scene, through, waits, ways


def test_no_journeys_are_no_plan() -> None:
    nobody = scene({"a": 0.0}, "")

    assert through(nobody) == Passage(EMPTY_PLAN, (), (), ())


def test_who_makes_room_goes_first() -> None:
    snapshot = scene({"a": 0.9, "b": 0.9, "c": 0.0}, "x:a y:b")

    way = through(snapshot, "x b", "y c")

    assert ways(way.made) == ["y c", "x b"]
    assert way.given_up == ()


def test_who_must_be_apart_goes_first() -> None:
    apart = AntiAffinity(guests=guest_ids("x", "y"))
    snapshot = scene({"a": 0.3, "b": 0.3, "c": 0.0}, "x:a y:b", apart)

    assert ways(through(snapshot, "x b", "y c").made) == ["y c", "x b"]


def test_two_that_change_places_need_a_third() -> None:
    snapshot = scene({"a": 0.9, "b": 0.9, "c": 0.0}, "x:a:0.6 y:b:0.5")

    way = through(snapshot, "x b", "y a")

    # The smaller one steps aside.
    assert ways(way.made) == ["y c", "x b", "y a"]
    assert way.made[0].why == "waits on c until a has room for it"
    assert way.made[2].why == "because"


def test_a_detour_keeps_to_the_rules() -> None:
    snapshot = scene(
        {"a": 0.9, "b": 0.9, "c": 0.3, "d": 0.0},
        "x:a:0.6 y:b:0.5 z:c",
        AntiAffinity(guests=guest_ids("y", "z")),
        NodeAffinity(guests=guest_ids("x"), nodes={NodeId(n): 1 for n in "ab"}),
    )

    assert "y d" in ways(through(snapshot, "x b", "y a").made)


def test_who_must_be_apart_comes_when_the_one_who_waits_there_has_left() -> None:
    apart = AntiAffinity(guests=guest_ids("y", "v"))
    nodes = {"a": 0.9, "b": 0.9, "c": 0.9, "d": 0.5}
    snapshot = scene(nodes, "x:a:0.6 y:b:0.5 v:c:0.6 w:d:0.2", apart)

    way = through(snapshot, "x b", "y a", "v d", "w c")

    # Of all four only y finds room somewhere in the beginning: on d.
    assert ways(way.detours) == ["y d", "w a"]
    assert ways(way.made).index("y a") < ways(way.made).index("v d")


def test_nobody_waits_with_one_from_whom_it_must_be_apart() -> None:
    apart = AntiAffinity(guests=guest_ids("y", "v"))
    snapshot = scene(
        {"a": 0.9, "b": 0.9, "c": 0.4, "d": 0.1}, "x:a:0.6 y:b:0.5 v:d:0.1", apart
    )

    # d has more to spare, but v is there.
    assert ways(through(snapshot, "x b", "y a").detours) == ["y c"]


def test_nobody_waits_on_a_node_that_does_not_suit_it() -> None:
    snapshot = scene({"a": 0.9, "b": 0.9, "c": 0.0, "d": 0.1}, "x:a:0.6 y:b:0.5")
    other = replace(snapshot.nodes[NodeId("c")], state=NodeState.MAINTENANCE)
    snapshot = replace(snapshot, nodes={**snapshot.nodes, other.id: other})

    assert ways(through(snapshot, "x b", "y a").detours) == ["y d"]


def test_without_a_detour_the_least_valuable_is_given_up() -> None:
    snapshot = scene({"a": 0.9, "b": 0.9}, "x:a:0.6 y:b:0.5")
    journeys = [journey(snapshot, "x b", 2.0), journey(snapshot, "y a", 1.0)]

    way = found(snapshot, journeys)

    assert way.made == ()
    assert ways(way.given_up) == ["y a", "x b"]


def test_no_detour_transfers_more_than_may_be() -> None:
    snapshot = scene({"a": 0.9, "b": 0.9, "c": 0.0}, "x:a:0.6 y:b:0.5")

    assert through(snapshot, "x b", "y a", detours=Detours(memory=49 * GIB)).made == ()
    assert (
        len(through(snapshot, "x b", "y a", detours=Detours(memory=50 * GIB)).made) == 3
    )


def test_who_comes_from_several_nodes_arrives_together() -> None:
    together = Affinity(guests=guest_ids("x", "y"))
    snapshot = scene({"a": 0.9, "b": 0.9, "c": 0.6, "d": 0.0}, "x:a y:b z:c", together)

    plan = through(snapshot, "x,y c", "z d").plan

    assert [step.action for step in plan.steps] == [
        Migration(GuestId("z"), NodeId("c"), NodeId("d")),
        Migration(GuestId("x"), NodeId("a"), NodeId("c")),
        Migration(GuestId("y"), NodeId("b"), NodeId("c")),
    ]
    assert waits(plan) == {"1": (), "2": ("1",), "3": ("1",)}


def test_who_is_nearest_in_size_steps_aside() -> None:
    nodes = {"a": 0.8, "b": 0.9, "c": 0.0}
    snapshot = scene(nodes, "x:a:0.6 y:b:0.3 z:b:0.5")

    way = through(snapshot, "x b", "y a", "z a")

    # With y aside, x could not come yet; with x aside, room would lie idle on a.
    assert ways(way.detours) == ["z c"]


def test_a_larger_guest_steps_aside_first_if_less_room_lies_idle_then() -> None:
    nodes = {"a": 0.9, "b": 0.9, "e": 0.9, "f": 0.9, "c": 0.0}
    snapshot = scene(nodes, "x:a:0.6 z:b:0.5 p:e:0.4 q:f:0.45")

    way = through(snapshot, "x b", "z a", "p f", "q e")

    # x needs a tenth more than z frees, and q a twentieth more than p.
    assert ways(way.detours) == ["z c", "p c"]


def test_several_step_aside_for_one_where_none_is_large_enough() -> None:
    nodes = {"a": 1.0, "b": 0.9, "c": 0.0}
    stays = NodeAffinity(guests=guest_ids("x"), nodes={NodeId(n): 1 for n in "ab"})
    snapshot = scene(nodes, "x:a:0.8 y:b:0.4 z:b:0.4", stays)

    way = through(snapshot, "x b", "y a", "z a")

    assert ways(way.detours) == ["y c", "z c"]
    assert way.given_up == ()


def test_no_more_guests_go_astray_than_may_do() -> None:
    nodes = {"a": 1.0, "b": 0.9, "c": 0.0}
    stays = NodeAffinity(guests=guest_ids("x"), nodes={NodeId(n): 1 for n in "ab"})
    snapshot = scene(nodes, "x:a:0.8 y:b:0.4 z:b:0.4", stays)

    way = through(snapshot, "x b", "y a", "z a", detours=Detours(moves=1))

    assert len(way.detours) == 1
    assert "x b" in ways(way.given_up)


def test_who_would_have_to_be_stopped_makes_no_detour() -> None:
    snapshot = scene({"a": 0.9, "b": 0.9, "c": 0.0}, "x:a:0.6 y:b:0.5")
    cold = replace(snapshot.guests[GuestId("y")], moves=Mobility.STOPPED)
    snapshot = replace(snapshot, guests={**snapshot.guests, cold.id: cold})

    assert ways(through(snapshot, "x b", "y a").detours) == ["x c"]


def test_who_waits_does_so_where_most_room_is_to_spare() -> None:
    nodes = {"a": 0.9, "b": 0.9, "c": 0.2, "d": 0.3}
    snapshot = scene(nodes, "x:a:0.6 y:b:0.5 v:b:0.3")

    # Once v is on c, less is free there than on d.
    way = through(snapshot, "x b", "y a", "v c")

    assert ways(way.detours) == ["y d"]


def test_what_would_not_be_safe_in_the_end_is_given_up() -> None:
    snapshot = scene({"a": 0.9, "b": 0.5}, "x:a y:a z:a:0.2")
    journeys = [journey(snapshot, f"{name} b", value) for name, value in worth("xyz")]

    way = found(snapshot, journeys)

    assert ways(way.made) == ["z b", "y b"]
    assert ways(way.given_up) == ["x b"]


def worth(names: str) -> list[tuple[str, float]]:
    """Return names, each worth more than the one before."""
    return [(name, float(rank)) for rank, name in enumerate(names)]


def test_nobody_makes_a_detour_to_a_place_that_will_not_be_free() -> None:
    snapshot = scene({"a": 0.9, "b": 0.9, "c": 0.9, "d": 0.0}, "x:a y:b z:c")

    # z stays on c, so that y has no place there; nor has x, without that of y.
    way = through(snapshot, "x b", "y c")

    assert way.made == ()
    assert ways(way.given_up) == ["x b", "y c"]


def test_nobody_goes_where_one_stays_from_whom_it_must_be_apart() -> None:
    apart = AntiAffinity(guests=guest_ids("x", "y"))
    snapshot = scene({"a": 0.3, "b": 0.3, "c": 0.0}, "x:a y:b", apart)

    way = through(snapshot, "x b")

    assert ways(way.given_up) == ["x b"]


def test_nobody_goes_where_one_arrives_from_whom_it_must_be_apart() -> None:
    apart = AntiAffinity(guests=guest_ids("x", "y"))
    snapshot = cluster(
        {"a": 0.3, "b": 0.3, "c": 0.0},
        {"x": ("a", 0.3), "y": ("b", 0.3)},
        [apart],
        moving={"y": "c"},
    )

    assert ways(through(snapshot, "x c").given_up) == ["x c"]


def test_of_two_that_must_be_apart_the_more_valuable_arrives() -> None:
    apart = AntiAffinity(guests=guest_ids("x", "y"))
    snapshot = scene({"a": 0.3, "b": 0.3, "c": 0.0}, "x:a y:b", apart)
    journeys = [journey(snapshot, "x c", 1.0), journey(snapshot, "y c", 2.0)]

    way = found(snapshot, journeys)

    assert ways(way.made) == ["y c"]
    assert ways(way.given_up) == ["x c"]


def test_what_is_not_measured_is_not_moved_and_nobody_goes_there() -> None:
    snapshot = scene({"a": 0.9, "b": 0.0, "c": 0.0}, "x:a y:a")
    dark = replace(snapshot.guests[GuestId("x")], usage=Usage(), limit=None)
    veiled = replace(snapshot.nodes[NodeId("c")], usage=Usage())
    snapshot = replace(
        snapshot,
        guests={**snapshot.guests, dark.id: dark},
        nodes={**snapshot.nodes, veiled.id: veiled},
    )

    way = through(snapshot, "x b", "y c")

    assert way.made == ()
    assert sorted(ways(way.given_up)) == ["x b", "y c"]


def test_what_is_given_up_and_what_goes_astray_is_told() -> None:
    snapshot = scene(
        {"a": 0.9, "b": 0.9, "c": 0.0, "d": 0.9}, "x:a:0.6 y:b:0.5 z:a:0.2"
    )

    assert through(snapshot, "x b", "y a", "z d").notes == (
        (
            "by way of a third node, because they wait for one another: y "
            "(50.0 GiB besides)"
        ),
        "given up, because there is no safe way: z stay where they are",
    )
