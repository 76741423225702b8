"""Move groups: gathering of guests with a strict affinity, and skipped guests."""

from __future__ import annotations

from dataclasses import replace

from opendrs.arrays import MobilityFilter, SkipReason
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
    """Return a cluster in which x and y violate an affinity rule."""

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


def reasons_of(groups: MovableGroups) -> dict[str, SkipReason]:
    return {guest: each.reason for guest, each in groups.skipped.items()}


def summary(groups: MovableGroups) -> list[tuple[list[str], str, bool]]:
    return [
        ([g.id for g in each.guests], each.home, each.is_free) for each in groups.groups
    ]


def test_group_is_gathered_on_the_most_balanced_node() -> None:
    # By hand: x to b leaves 0.3 and 0.6 of 0.45 each, y to a 0.7 and 0.2.
    snapshot = cluster(
        nodes={"a": 0.6, "b": 0.3},
        guests={"x": ("a", 0.3), "y": ("b", 0.1), "z": ("b", 0.2), "w": ("a", 0.3)},
        rules=(TOGETHER,),
    )

    groups = found(snapshot)

    assert [each.home for each in groups.groups if len(each.guests) == 2] == ["b"]


def test_group_is_gathered_where_most_of_its_memory_is() -> None:
    groups = found(scattered())

    assert summary(groups) == [(["x", "y"], "a", True), (["z"], "b", True)]
    assert [each.id for each in groups.groups[0].displaced] == ["y"]
    assert groups.groups[0].gather_transfer == 10.0  # a tenth of the 100 GiB of a node
    assert groups.skipped == {}


def test_group_is_gathered_where_a_rule_allows_it() -> None:
    only_b = NodeAffinity(guests=guest_ids("x"), nodes={NodeId("b"): 0})

    assert summary(found(scattered(only_b)))[0] == (["x", "y"], "b", True)


def test_group_is_gathered_on_the_node_of_an_immovable_guest() -> None:
    groups = found(staying(scattered(), "y"))

    assert summary(groups) == [(["x"], "b", False), (["z"], "b", True)]
    assert reasons_of(groups) == {"y": SkipReason.MOBILITY_NONE}


def test_group_stays_if_its_immovable_node_is_infeasible() -> None:
    groups = found(
        staying(
            scattered(NodeAffinity(guests=guest_ids("x"), nodes={NodeId("a"): 0})), "y"
        )
    )

    assert summary(groups) == [(["z"], "b", True)]
    assert reasons_of(groups)["x"] is SkipReason.NO_COMMON_NODE


def test_group_with_two_immovable_guests_stays() -> None:
    groups = found(staying(staying(scattered(), "y"), "x"))

    assert summary(groups) == [(["z"], "b", True)]


def test_group_with_immovable_guest_on_its_node_stays() -> None:
    snapshot = cluster(
        nodes={"a": 0.5, "b": 0.0},
        guests={"x": ("a", 0.3), "y": ("a", 0.1)},
        rules=(TOGETHER,),
    )

    groups = found(staying(snapshot, "y"))

    assert groups.groups == ()
    assert reasons_of(groups)["x"] is SkipReason.GROUP_MEMBER_SKIPPED
    mate = groups.skipped[GuestId("y")].detail
    assert groups.skipped[GuestId("x")].detail == f"it moves only with y: {mate}"


def test_movable_groups_over_budget_are_skipped() -> None:
    groups = found(scattered())

    assert len(groups.within(10.0, 1).groups) == 2
    for poorer in (groups.within(9.0, 1), groups.within(10.0, 0)):
        assert summary(poorer) == [(["z"], "b", True)]
        assert set(poorer.skipped) == {"x", "y"}
        assert set(reasons_of(poorer).values()) == {SkipReason.OVER_BUDGET}
