"""Violations of strict rules that a plan can repair, and blockers of the others."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import event, given

from opendrs.metrics import LoadModel
from opendrs.model import (
    DEFAULT_LIMITS,
    Affinity,
    AntiAffinity,
    GuestId,
    Mobility,
    NodeAffinity,
    NodeId,
    Pin,
    Rule,
    Snapshot,
    Usage,
)
from opendrs.policies.optimize import Optimize
from opendrs.policies.optimize.objective import Goal
from opendrs.policies.optimize.repairs import UnresolvedViolation, unresolved_violations
from opendrs.rules import violation_change, violations
from support.builders import cluster, guest_ids
from support.strategies import snapshots

APART = AntiAffinity(guests=guest_ids("x", "y"), name="apart")
TOGETHER = Affinity(guests=guest_ids("x", "z"), name="together")
REPAIR = Optimize(priorities=(Goal.REPAIR,), budget="unlimited")
ON_B = NodeAffinity(guests=guest_ids("x"), nodes={NodeId("b"): 0}, name="on b")


def placed(*rules: Rule, full: float = 0.1) -> Snapshot:
    """Return x and y on node a, z on node b, of which *full* is in use."""
    return cluster(
        nodes={"a": 0.4, "b": full},
        guests={"x": ("a", 0.2), "y": ("a", 0.2), "z": ("b", 0.1)},
        rules=rules,
    )


def of_architectures(snapshot: Snapshot, **architectures: str) -> Snapshot:
    """Return *snapshot* with these architectures of its nodes."""
    nodes = {
        name: replace(node, architecture=architectures[name])
        for name, node in snapshot.nodes.items()
    }
    return replace(snapshot, nodes=nodes)


def found(snapshot: Snapshot) -> tuple[UnresolvedViolation, ...]:
    return unresolved_violations(violations(snapshot), snapshot, DEFAULT_LIMITS)


@pytest.mark.parametrize("rule", [APART, TOGETHER, ON_B], ids=str)
def test_repairable_violation_is_repaired_by_optimize(rule: Rule) -> None:
    snapshot = placed(rule)

    [result] = found(snapshot)

    decision = Optimize().decide(snapshot, None)
    actions = (step.action for step in decision.plan.steps)
    assert (result.repairable, result.detail) == (True, "")
    assert violations(snapshot.apply(*actions)) == ()


@pytest.mark.parametrize(
    ("snapshot", "detail"),
    [
        (
            placed(APART, Pin(guests=guest_ids("x", "y"), name="stay")),
            'apart: x, y: not migrated: pinned by the rule "stay"',
        ),
        (
            placed(ON_B, full=0.95),
            "on b: x: no feasible node: b: insufficient memory: 20.0 GiB short",
        ),
        (
            placed(TOGETHER, Pin(guests=guest_ids("x", "z"), name="stay")),
            'together: x, z: not migrated: pinned by the rule "stay"',
        ),
        (
            placed(AntiAffinity(guests=guest_ids("x", "y", "z"), name="three")),
            '"three": x, y, z must run on different nodes',
        ),
        (
            of_architectures(placed(TOGETHER), a="x86_64", b="aarch64"),
            "together: x, z: not migrated: its group is on nodes of different arch",
        ),
    ],
    ids=["pinned", "full", "pinned apart", "too few nodes", "architectures"],
)
def test_infeasible_repair_has_a_detail_and_stays_violated(
    snapshot: Snapshot, detail: str
) -> None:
    [result] = found(snapshot)

    decision = Optimize().decide(snapshot, None)
    actions = (step.action for step in decision.plan.steps)
    assert not result.repairable
    assert result.detail.startswith(detail)
    assert len(violations(snapshot.apply(*actions))) == 1


def test_violation_is_repairable_if_other_guests_can_leave() -> None:
    snapshot = cluster(
        nodes={"a": 0.4, "b": 0.85, "c": 0.0},
        guests={"x": ("a", 0.2), "big": ("b", 0.8)},
        rules=[ON_B],
    )

    [result] = found(snapshot)

    actions = (step.action for step in REPAIR.decide(snapshot, None).plan.steps)
    assert result.repairable
    assert violations(snapshot.apply(*actions)) == ()


def test_violation_is_repairable_against_a_preference() -> None:
    liked = NodeAffinity(guests=guest_ids("x"), nodes={NodeId("c"): 0}, strict=False)
    snapshot = cluster(
        nodes={"a": 0.4, "b": 0.0, "c": 0.0},
        guests={"x": ("a", 0.2), "y": ("a", 0.2)},
        rules=[APART, liked, Pin(guests=guest_ids("y"), name="stay")],
    )
    snapshot = of_architectures(snapshot, a="x86_64", b="x86_64", c="aarch64")

    [result] = found(snapshot)

    assert result.repairable


def test_violation_is_repairable_if_its_group_is_gathered() -> None:
    snapshot = cluster(
        nodes={"a": 0.4, "b": 0.1},
        guests={"x": ("a", 0.2), "z": ("b", 0.1)},
        rules=[ON_B, TOGETHER, Pin(guests=guest_ids("z"), name="stay")],
    )

    assert [each.repairable for each in found(snapshot)] == [True, True]


def test_immovable_guest_blocks_a_repair() -> None:
    snapshot = cluster(
        nodes={"a": 0.4, "b": 0.1},
        guests={"x": ("a", 0.2), "y": ("b", 0.1)},
        rules=[ON_B, APART, Pin(guests=guest_ids("y"), name="stay")],
    )

    [result] = found(snapshot)

    assert result.repairable is False
    assert result.detail.startswith("on b: x: ")


@given(snapshots(measured=True, settled=True))
def test_no_plan_makes_an_infeasible_repair(snapshot: Snapshot) -> None:
    impossible = [each.violation for each in found(snapshot) if not each.repairable]

    plan = REPAIR.decide(snapshot, None).plan

    event(f"{len(impossible)} impossible, {len(plan.steps)} steps")
    change = violation_change(
        snapshot, snapshot.apply(*(step.action for step in plan.steps))
    )
    violated = [each.rule for each in change.after]
    assert all(each.rule in violated for each in impossible)


def test_affinity_with_one_immovable_guest_is_repairable() -> None:
    snapshot = placed(TOGETHER)
    fixed = replace(snapshot.guests[GuestId("z")], mobility=Mobility.NONE)

    [result] = found(replace(snapshot, guests={**snapshot.guests, fixed.id: fixed}))

    assert result.repairable


def test_violation_without_metrics_is_not_evaluated() -> None:
    blind = cluster(
        nodes={"a": None, "b": 0.1},
        guests={"x": ("a", 0.2), "y": ("a", 0.2)},
        rules=[APART],
    )

    [result] = found(blind)
    assert (result.is_evaluated, result.repairable) == (False, None)
    assert result.detail.startswith("apart: ")
    assert "nodes.a.usage: cpu, memory" in result.detail


def test_static_load_model_needs_no_metrics() -> None:
    blind = cluster(
        nodes={"a": None, "b": None},
        guests={"x": ("a", 0.2), "y": ("a", 0.2)},
        rules=[APART],
    )
    nodes = {
        name: replace(node, usage=Usage(memory=0)) for name, node in blind.nodes.items()
    }
    snapshot = replace(blind, nodes=nodes)

    [result] = unresolved_violations(
        violations(snapshot), snapshot, DEFAULT_LIMITS, load_model=LoadModel.STATIC
    )

    assert result.repairable


def test_soft_rule_violations_are_not_evaluated() -> None:
    assert found(placed(replace(APART, strict=False))) == ()
