"""A move is said to repair a rule only if the plan does, and the move is part of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from opendrs.model import (
    Affinity,
    AntiAffinity,
    GuestId,
    MutualAntiAffinity,
    NodeAffinity,
    NodeId,
    NodeState,
    Rule,
    Snapshot,
)
from opendrs.policies.optimize.repaired_rules import MoveRepair, RepairedRules
from support.builders import cluster, guest_ids

RACKS = {"a": "r1", "b": "r1", "c": "r2", "d": "r2"}


def placed(rule: Rule, where: Mapping[str, str], drained: str = "") -> Snapshot:
    """Return four nodes in two racks with guests on *where*."""
    snapshot = cluster(
        nodes=dict.fromkeys(RACKS, 0.0),
        guests={name: (node, 0.0) for name, node in where.items()},
        rules=[rule],
    )
    nodes = {
        name: replace(
            node,
            labels=frozenset({f"rack={RACKS[name]}"}),
            state=NodeState.MAINTENANCE if name == drained else NodeState.ONLINE,
        )
        for name, node in snapshot.nodes.items()
    }
    return replace(snapshot, nodes=nodes)


def repair_by(
    name: str, rule: Rule, before: dict[str, str], after: dict[str, str]
) -> MoveRepair | None:
    """Return the repair of *rule* by the move of guest *name*."""
    repaired = RepairedRules(placed(rule, before), placed(rule, before | after))
    return repaired.repair_of([GuestId(name)])


APART = AntiAffinity(guests=guest_ids("x", "y", "z"))
TOGETHER = Affinity(guests=guest_ids("x", "y", "z"))
ON_A = NodeAffinity(guests=guest_ids("x", "y"), nodes={NodeId("a"): 0})
SIDES = MutualAntiAffinity(guests=guest_ids("x"), other_guests=guest_ids("y", "z"))
TWO_PER_RACK = AntiAffinity(
    guests=guest_ids("w", "x", "y", "z"), domain="rack", max_guests=2
)
ONE_RACK = NodeAffinity(
    guests=guest_ids("x", "y"),
    nodes={NodeId("a"): 0, NodeId("b"): 0},
    domain="rack",
)
ALL_ON_A = dict.fromkeys(("w", "x", "y", "z"), "a")


@pytest.mark.parametrize(
    ("rule", "before", "after"),
    [
        (APART, ALL_ON_A, {"x": "b", "y": "c"}),
        (TOGETHER, {"x": "a", "y": "b", "z": "b"}, {"x": "b"}),
        (ON_A, {"x": "b", "y": "a"}, {"x": "a"}),
        (SIDES, {"x": "a", "y": "a", "z": "a"}, {"x": "b"}),
        (TWO_PER_RACK, ALL_ON_A, {"x": "c", "y": "d"}),
        (ONE_RACK, {"x": "c", "y": "a"}, {"x": "b"}),
        (ONE_RACK, {"x": "a", "y": "c"}, {"x": "d"}),  # follows y into its rack
    ],
)
def test_a_move_repairs_a_rule_that_holds_after_the_plan(
    rule: Rule, before: dict[str, str], after: dict[str, str]
) -> None:
    repair = repair_by("x", rule, before, after)

    assert repair is not None
    assert repair.is_complete
    assert str(repair).startswith(f"repairs a violated rule: {rule} (before the plan: ")


@pytest.mark.parametrize(
    ("rule", "before", "after"),
    [
        (APART, ALL_ON_A, {"x": "b"}),
        (ON_A, {"x": "b", "y": "b"}, {"x": "a"}),
        (TWO_PER_RACK, ALL_ON_A, {"x": "c"}),
    ],
)
def test_a_move_reduces_the_violation_of_a_rule_that_remains_violated(
    rule: Rule, before: dict[str, str], after: dict[str, str]
) -> None:
    repair = repair_by("x", rule, before, after)

    assert repair is not None
    assert not repair.is_complete
    assert str(repair).startswith(f"reduces the violation of a rule: {rule} (before")


@pytest.mark.parametrize(
    ("rule", "before", "after"),
    [
        (APART, {"x": "a", "y": "a", "z": "a"}, {"x": "b", "y": "b", "z": "b"}),
        (TOGETHER, {"x": "a", "y": "b", "z": "b"}, {"x": "c"}),
        (ON_A, {"x": "b", "y": "b"}, {"x": "c", "y": "a"}),  # y alone reduces it
        (TWO_PER_RACK, ALL_ON_A, {"x": "b"}),  # in the same rack
        (TWO_PER_RACK, ALL_ON_A, {"x": "b", "y": "c", "z": "d"}),  # y, z repair it
        (ONE_RACK, {"x": "c", "y": "a"}, {"x": "d"}),
    ],
)
def test_a_move_repairs_no_rule_that_it_leaves_as_violated(
    rule: Rule, before: dict[str, str], after: dict[str, str]
) -> None:
    assert repair_by("x", rule, before, after) is None


def test_a_drain_is_named_before_another_repair() -> None:
    before = placed(ON_A, {"x": "b", "y": "a"}, drained="b")
    after = placed(ON_A, {"x": "a", "y": "a"}, drained="b")

    repair = RepairedRules(before, after).repair_of([GuestId("x")])

    assert str(repair) == "maintenance of b"
