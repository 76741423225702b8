"""Who must be together travels together, and is gathered where it is not."""

from __future__ import annotations

from dataclasses import replace

from builders import cluster, guest_ids
from opendrs.model import (
    DEFAULT_LIMITS,
    Affinity,
    GuestId,
    Mobility,
    NodeAffinity,
    NodeId,
    Rule,
    Snapshot,
)
from opendrs.policies.optimising.parties import Parties, parties
from opendrs.policies.units import Selection
from opendrs.rules import compile_rules
from opendrs.scoring import UsageMode

TOGETHER = Affinity(guests=guest_ids("x", "y"))
CHOSEN = Selection(mode=UsageMode.DYNAMIC, relocate=False)


def torn(*rules: Rule) -> Snapshot:
    """Return a cluster in which x and y should be together and are not."""
    return cluster(
        nodes={"a": 0.5, "b": 0.3},
        guests={"x": ("a", 0.3), "y": ("b", 0.1), "z": ("b", 0.2)},
        rules=(TOGETHER, *rules),
    )


def staying(snapshot: Snapshot, name: str) -> Snapshot:
    guests = dict(snapshot.guests)
    guests[GuestId(name)] = replace(guests[GuestId(name)], moves=Mobility.NEVER)
    return replace(snapshot, guests=guests)


def found(snapshot: Snapshot) -> Parties:
    return parties(snapshot, compile_rules(snapshot), DEFAULT_LIMITS, CHOSEN)


def told(who: Parties) -> list[tuple[list[str], str, bool]]:
    return [([g.id for g in each.guests], each.home, each.free) for each in who.all]


def test_guests_that_are_apart_are_gathered_where_nodes_are_loaded_evenly() -> None:
    # By hand: x to b leaves 0.3 and 0.6 of 0.45 each, y to a 0.7 and 0.2.
    snapshot = cluster(
        nodes={"a": 0.6, "b": 0.3},
        guests={"x": ("a", 0.3), "y": ("b", 0.1), "z": ("b", 0.2), "w": ("a", 0.3)},
        rules=(TOGETHER,),
    )

    who = found(snapshot)

    assert [each.home for each in who.all if len(each.guests) == 2] == ["b"]


def test_as_evenly_they_are_gathered_where_most_of_their_memory_is() -> None:
    who = found(torn())

    assert told(who) == [(["x", "y"], "a", True), (["z"], "b", True)]
    assert [each.id for each in who.all[0].strays] == ["y"]
    assert who.all[0].gathering == 10.0  # a tenth of the 100 GiB of a node
    assert who.left_alone == {}


def test_they_are_gathered_where_a_rule_allows_it() -> None:
    only_b = NodeAffinity(guests=guest_ids("x"), nodes={NodeId("b"): 0})

    assert told(found(torn(only_b)))[0] == (["x", "y"], "b", True)


def test_they_are_gathered_where_one_of_them_cannot_leave() -> None:
    who = found(staying(torn(), "y"))

    assert told(who) == [(["x"], "b", False), (["z"], "b", True)]
    assert who.left_alone == {GuestId("y"): "it cannot move"}


def test_they_stay_where_one_cannot_leave_and_the_others_cannot_go() -> None:
    who = found(
        staying(torn(NodeAffinity(guests=guest_ids("x"), nodes={NodeId("a"): 0})), "y")
    )

    assert told(who) == [(["z"], "b", True)]
    assert who.left_alone[GuestId("x")].startswith("it must be with y on b, and a rule")


def test_they_stay_where_two_of_them_cannot_leave_different_nodes() -> None:
    who = found(staying(staying(torn(), "y"), "x"))

    assert told(who) == [(["z"], "b", True)]


def test_guests_on_one_node_stay_with_one_that_cannot_move() -> None:
    snapshot = cluster(
        nodes={"a": 0.5, "b": 0.0},
        guests={"x": ("a", 0.3), "y": ("a", 0.1)},
        rules=(TOGETHER,),
    )

    who = found(staying(snapshot, "y"))

    assert who.all == ()
    assert who.left_alone[GuestId("x")] == ("it moves only with y, and it cannot move")


def test_who_cannot_be_gathered_for_the_budget_is_left_alone() -> None:
    who = found(torn())

    assert len(who.within(10.0, 1).all) == 2
    for poorer in (who.within(9.0, 1), who.within(10.0, 0)):
        assert told(poorer) == [(["z"], "b", True)]
        assert set(poorer.left_alone) == {"x", "y"}
