"""Who must be together travels together, and is gathered where it is not."""

from __future__ import annotations

from dataclasses import replace

from opendrs.arrays import MobilityFilter
from opendrs.metrics import LoadModel
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
from opendrs.policies.optimize.movable_groups import MovableGroups, movable_groups
from opendrs.rules import compile_rules
from support.builders import cluster, guest_ids

TOGETHER = Affinity(guests=guest_ids("x", "y"))
CHOSEN = MobilityFilter(load_model=LoadModel.DYNAMIC, allow_cold_migration=False)


def scattered(*rules: Rule) -> Snapshot:
    """Return a cluster in which x and y should be together and are not."""
    return cluster(
        nodes={"a": 0.5, "b": 0.3},
        guests={"x": ("a", 0.3), "y": ("b", 0.1), "z": ("b", 0.2)},
        rules=(TOGETHER, *rules),
    )


def staying(snapshot: Snapshot, name: str) -> Snapshot:
    guests = dict(snapshot.guests)
    guests[GuestId(name)] = replace(guests[GuestId(name)], mobility=Mobility.NONE)
    return replace(snapshot, guests=guests)


def found(snapshot: Snapshot) -> MovableGroups:
    return movable_groups(snapshot, compile_rules(snapshot), DEFAULT_LIMITS, CHOSEN)


def summary(groups: MovableGroups) -> list[tuple[list[str], str, bool]]:
    return [
        ([g.id for g in each.guests], each.home, each.is_free) for each in groups.groups
    ]


def test_guests_that_are_apart_are_gathered_where_nodes_are_loaded_evenly() -> None:
    # By hand: x to b leaves 0.3 and 0.6 of 0.45 each, y to a 0.7 and 0.2.
    snapshot = cluster(
        nodes={"a": 0.6, "b": 0.3},
        guests={"x": ("a", 0.3), "y": ("b", 0.1), "z": ("b", 0.2), "w": ("a", 0.3)},
        rules=(TOGETHER,),
    )

    groups = found(snapshot)

    assert [each.home for each in groups.groups if len(each.guests) == 2] == ["b"]


def test_as_evenly_they_are_gathered_where_most_of_their_memory_is() -> None:
    groups = found(scattered())

    assert summary(groups) == [(["x", "y"], "a", True), (["z"], "b", True)]
    assert [each.id for each in groups.groups[0].displaced] == ["y"]
    assert groups.groups[0].gather_transfer == 10.0  # a tenth of the 100 GiB of a node
    assert groups.skipped == {}


def test_they_are_gathered_where_a_rule_allows_it() -> None:
    only_b = NodeAffinity(guests=guest_ids("x"), nodes={NodeId("b"): 0})

    assert summary(found(scattered(only_b)))[0] == (["x", "y"], "b", True)


def test_they_are_gathered_where_one_of_them_cannot_leave() -> None:
    groups = found(staying(scattered(), "y"))

    assert summary(groups) == [(["x"], "b", False), (["z"], "b", True)]
    assert groups.skipped == {GuestId("y"): "it cannot move"}


def test_they_stay_where_one_cannot_leave_and_the_others_cannot_go() -> None:
    groups = found(
        staying(
            scattered(NodeAffinity(guests=guest_ids("x"), nodes={NodeId("a"): 0})), "y"
        )
    )

    assert summary(groups) == [(["z"], "b", True)]
    assert groups.skipped[GuestId("x")].startswith("it must be with y on b, and a rule")


def test_they_stay_where_two_of_them_cannot_leave_different_nodes() -> None:
    groups = found(staying(staying(scattered(), "y"), "x"))

    assert summary(groups) == [(["z"], "b", True)]


def test_guests_on_one_node_stay_with_one_that_cannot_move() -> None:
    snapshot = cluster(
        nodes={"a": 0.5, "b": 0.0},
        guests={"x": ("a", 0.3), "y": ("a", 0.1)},
        rules=(TOGETHER,),
    )

    groups = found(staying(snapshot, "y"))

    assert groups.groups == ()
    assert groups.skipped[GuestId("x")] == ("it moves only with y, and it cannot move")


def test_movable_groups_over_budget_are_skipped() -> None:
    groups = found(scattered())

    assert len(groups.within(10.0, 1).groups) == 2
    for poorer in (groups.within(9.0, 1), groups.within(10.0, 0)):
        assert summary(poorer) == [(["z"], "b", True)]
        assert set(poorer.skipped) == {"x", "y"}
