"""Nodes in maintenance: their guests violate a rule, which optimize repairs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from opendrs.guard import RejectionReason, check
from opendrs.model import (
    DEFAULT_LIMITS,
    GuestId,
    GuestState,
    Mobility,
    NodeAffinity,
    NodeId,
    NodeState,
    Snapshot,
    Usage,
)
from opendrs.policies import Balance, DecisionReason
from opendrs.policies.optimize import Optimize
from opendrs.policies.optimize.repairs import unresolved_violations
from opendrs.rules import drain_rules, new_violations, violations, with_drain_rule
from support.builders import cluster
from support.simulated_cluster import migration

A, B = NodeId("a"), NodeId("b")
VM1, VM2, VM3 = GuestId("vm1"), GuestId("vm2"), GuestId("vm3")


def in_maintenance(snapshot: Snapshot, *names: str) -> Snapshot:
    states = {
        NodeId(name): replace(snapshot.nodes[NodeId(name)], state=NodeState.MAINTENANCE)
        for name in names
    }
    return replace(snapshot, nodes={**snapshot.nodes, **states})


CLUSTER = cluster(
    {"a": 0.3, "b": 0.1, "c": 0.1},
    {"vm1": ("a", 0.1), "vm2": ("a", 0.1), "vm3": ("b", 0.1)},
)
DRAINING = in_maintenance(CLUSTER, "a")


def test_guests_on_node_in_maintenance_violate_a_strict_rule() -> None:
    found = violations(DRAINING)

    assert [(each.strict, each.guests, each.nodes) for each in found] == [
        (True, frozenset({VM1}), frozenset({A})),
        (True, frozenset({VM2}), frozenset({A})),
    ]
    assert violations(CLUSTER) == ()


def test_empty_node_in_maintenance_violates_nothing() -> None:
    empty = in_maintenance(CLUSTER, "c")

    assert violations(empty) == ()
    assert with_drain_rule(empty) is empty


def test_cluster_without_other_node_violates_nothing() -> None:
    assert violations(in_maintenance(CLUSTER, "a", "b", "c")) == ()


def test_rule_does_not_depend_on_nodes_that_are_powered_off() -> None:
    off = replace(DRAINING.nodes[B], state=NodeState.OFFLINE)

    powered_off = replace(DRAINING, nodes={**DRAINING.nodes, B: off})

    assert drain_rules(powered_off) == drain_rules(DRAINING)


def test_guests_on_excluded_node_violate_nothing() -> None:
    excluded = replace(DRAINING.nodes[B], state=NodeState.EXCLUDED)
    snapshot = replace(DRAINING, nodes={**DRAINING.nodes, B: excluded})

    decision = Optimize().decide(snapshot, None)

    after = snapshot.apply(*(step.action for step in decision.plan.steps))
    assert {name for each in violations(snapshot) for name in each.guests} == {VM1, VM2}
    assert {guest.id for guest in after.guests.values() if guest.node == B} == {VM3}
    assert violations(after) == ()


def test_cluster_with_excluded_nodes_alone_violates_nothing() -> None:
    excluded = {
        name: replace(node, state=NodeState.EXCLUDED)
        for name, node in DRAINING.nodes.items()
        if name != A
    }

    assert violations(replace(DRAINING, nodes={**DRAINING.nodes, **excluded})) == ()


def test_unmeasured_node_in_maintenance_has_no_rule() -> None:
    unmeasured = replace(DRAINING.nodes[A], usage=Usage(None, None))
    unknown = replace(DRAINING, nodes={**DRAINING.nodes, A: unmeasured})

    assert with_drain_rule(unknown) is unknown


def test_failure_of_one_node_in_maintenance_violates_nothing_new() -> None:
    before = in_maintenance(CLUSTER, "a", "b")
    off = replace(before.nodes[B], state=NodeState.OFFLINE)
    stopped = replace(before.guests[VM3], state=GuestState.STOPPED)

    after = replace(
        before,
        nodes={**before.nodes, B: off},
        guests={**before.guests, VM3: stopped},
    )

    assert new_violations(before, after) == ()


def test_first_guest_on_node_in_maintenance_is_a_new_violation() -> None:
    before = in_maintenance(CLUSTER, "c")

    (found,) = new_violations(before, before.apply(migration("vm3", "b", "c")))

    assert found.guests == {VM3}


def test_optimize_drains_node_in_maintenance() -> None:
    decision = Optimize().decide(DRAINING, None)

    after = DRAINING.apply(*(step.action for step in decision.plan.steps))
    assert decision.reason is DecisionReason.REPAIRS_RULES
    assert {guest.id for guest in after.guests.values() if guest.node == A} == set()
    assert violations(after) == ()


@pytest.mark.parametrize("draining", [("a",), ("a", "b")])
def test_no_guest_is_placed_on_node_in_maintenance(draining: tuple[str, ...]) -> None:
    snapshot = in_maintenance(CLUSTER, *draining)

    steps = Optimize().decide(snapshot, None).plan.steps

    assert steps
    for step in steps:
        assert check([step.action], snapshot, DEFAULT_LIMITS) is None


def test_guest_that_cannot_migrate_stays_and_is_named() -> None:
    fixed = replace(DRAINING.guests[VM1], mobility=Mobility.NONE)
    snapshot = replace(DRAINING, guests={**DRAINING.guests, VM1: fixed})

    decision = Optimize().decide(snapshot, None)

    after = snapshot.apply(*(step.action for step in decision.plan.steps))
    (remaining,) = unresolved_violations(violations(after), snapshot, DEFAULT_LIMITS)
    assert after.guests[VM1].node == A
    assert after.guests[VM2].node != A
    assert not remaining.repairable
    assert "vm1" in remaining.detail


def test_guest_that_must_stay_on_node_in_maintenance_stays() -> None:
    bound = NodeAffinity(guests=frozenset({VM1}), nodes={A: 0}, name="license")
    snapshot = replace(DRAINING, rules=(bound,))

    steps = Optimize().decide(snapshot, None).plan.steps

    moved = {step.action.guest for step in steps if hasattr(step.action, "guest")}
    assert VM1 not in moved
    assert VM2 in moved


def test_optimize_without_goal_repair_leaves_the_guests() -> None:
    policy = Optimize(priorities=tuple(set(Optimize().priorities) - {"repair"}))

    assert not policy.decide(DRAINING, None).plan.steps


def test_balance_leaves_the_guests() -> None:
    assert not Balance().decide(DRAINING, None).plan.steps


def test_guard_rejects_migration_to_node_in_maintenance() -> None:
    rejection = check([migration("vm3", "b", "a")], DRAINING, DEFAULT_LIMITS)

    assert rejection is not None
    assert rejection.reason is RejectionReason.TARGET_OFFLINE
