"""Nodes in maintenance are drained as far as possible, by every policy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from opendrs.model import (
    Affinity,
    GuestId,
    LiveMigration,
    Mobility,
    NodeId,
    NodeState,
    Pin,
    Snapshot,
    Usage,
)
from opendrs.policies import BUILT_IN_POLICIES, DecisionReason, Policy, decide
from opendrs.policies.optimize import Optimize, Repair
from support.builders import cluster, guest_ids, node

A, B, C = map(NodeId, "abc")
EVERY = pytest.mark.parametrize("name", BUILT_IN_POLICIES)


def maintained(usage_of_b: float = 0.3) -> Snapshot:
    """Return a cluster with node a in maintenance, which two guests cannot leave."""
    snapshot = cluster(
        {"a": 0.4, "b": usage_of_b, "c": 0.2},
        {"free": ("a", 0.2), "pinned": ("a", 0.1), "stuck": ("a", 0.1)},
        [Pin(guests=guest_ids("pinned"))],
    )
    stuck = replace(
        snapshot.guests[GuestId("stuck")],
        mobility=Mobility.NONE,
        mobility_detail="passthrough device",
    )
    return replace(
        snapshot,
        nodes={**snapshot.nodes, A: node("a", 0.4, state=NodeState.MAINTENANCE)},
        guests={**snapshot.guests, stuck.id: stuck},
    )


def policy_of(name: str) -> Policy[Any]:
    return BUILT_IN_POLICIES[name]()


@EVERY
def test_guest_that_can_leave_a_node_in_maintenance_migrates(name: str) -> None:
    policy = policy_of(name)

    decision = decide(policy, maintained(), policy.initial_memory())

    (step,) = decision.plan.steps
    assert decision.reason is DecisionReason.REPAIRS_RULES
    assert step.action.guest == "free"  # type: ignore[union-attr]
    assert_remaining_are_explained(decision.notes)


@EVERY
def test_guests_that_cannot_leave_are_explained_in_each_decision(name: str) -> None:
    policy = policy_of(name)
    drained = maintained().apply(LiveMigration(GuestId("free"), A, C))

    decision = decide(policy, drained, policy.initial_memory())

    assert_remaining_are_explained(decision.notes)


@EVERY
def test_guest_without_a_feasible_node_is_explained(name: str) -> None:
    policy = policy_of(name)
    full = maintained(usage_of_b=0.9)
    full = replace(full, nodes={**full.nodes, C: node("c", 0.9)})

    decision = decide(policy, full, policy.initial_memory())

    moved = {getattr(step.action, "guest", None) for step in decision.plan.steps}
    assert "free" not in moved
    assert any("free: no feasible node" in note for note in decision.notes)


@EVERY
def test_node_in_maintenance_without_metrics_is_named(name: str) -> None:
    policy = policy_of(name)
    snapshot = maintained()
    unknown = replace(snapshot.nodes[A], usage=Usage())
    snapshot = replace(snapshot, nodes={**snapshot.nodes, A: unknown})

    decision = decide(policy, snapshot, policy.initial_memory())

    assert any(note.startswith("not drained: a:") for note in decision.notes)


def test_guests_that_another_plan_might_migrate_are_counted_beyond_the_first() -> None:
    # By hand: one migration is allowed, and every other node is feasible.
    guests = {f"g{n:02}": ("a", 0.02) for n in range(15)}
    snapshot = cluster({"a": 0.3, "b": 0.1, "c": 0.1, "d": 0.1}, guests)
    closed = node("a", 0.3, state=NodeState.MAINTENANCE)
    snapshot = replace(snapshot, nodes={**snapshot.nodes, A: closed})

    decision = Repair(budget="1 migrations").decide(snapshot, None)

    (note,) = (each for each in decision.notes if "maintenance of a" in each)
    assert note.startswith("maintenance of a: 14 guests remain: ")
    assert "could migrate to b, c, d" in note
    assert note.endswith("; 4 further guests")


@pytest.mark.parametrize("further", [0, 12])
def test_what_remains_on_a_drained_node_is_no_imbalance(further: int) -> None:
    # By hand: with x, b has as much as a; with y, half of it. The balanced load of
    # three nodes is no reason to leave x on c. With further guests, fewer placements
    # are compared than there are.
    guests = {"v": ("a", 0.6), "w": ("b", 0.2), "x": ("c", 0.4), "y": ("c", 0.1)}
    guests |= {f"g{n}": ("c", 0.001) for n in range(further)}
    snapshot = cluster({"a": 0.6, "b": 0.2, "c": 0.52}, guests)
    closed = node("c", 0.52, state=NodeState.MAINTENANCE)
    snapshot = replace(snapshot, nodes={**snapshot.nodes, C: closed})

    decision = Optimize(budget="1 migrations").decide(snapshot, None)

    assert [step.action for step in decision.plan.steps] == [
        LiveMigration(GuestId("x"), C, B)
    ]


def test_imbalance_of_a_drain_counts_what_will_leave_the_node() -> None:
    # x leaves c, and the pinned y stays: the balanced load of a and b is 0.4. They
    # deviate by 0 and -0.5 before, and not at all after.
    guests = {"v": ("a", 0.4), "w": ("b", 0.2), "x": ("c", 0.2), "y": ("c", 0.1)}
    stays = Pin(guests=guest_ids("y"))
    snapshot = cluster({"a": 0.4, "b": 0.2, "c": 0.3}, guests, [stays])
    closed = node("c", 0.3, state=NodeState.MAINTENANCE)
    snapshot = replace(snapshot, nodes={**snapshot.nodes, C: closed})

    decision = Optimize().decide(snapshot, None)

    assert len(decision.plan.steps) == 1
    assert decision.before["rms_imbalance"] == pytest.approx(0.125**0.5)
    assert decision.after["rms_imbalance"] == pytest.approx(0.0, abs=1e-9)


def test_a_rule_that_guests_keep_violated_counts_as_a_violated_rule() -> None:
    # By hand: one migration either repairs the affinity, or drains y of x and y, so
    # that both rules stay violated: x cannot leave c.
    snapshot = cluster(
        {"a": 0.4, "b": 0.1, "c": 0.2},
        {"v": ("a", 0.2), "w": ("b", 0.1), "x": ("c", 0.1), "y": ("c", 0.1)},
        [Affinity(guests=guest_ids("v", "w")), Pin(guests=guest_ids("v", "x"))],
    )
    closed = node("c", 0.2, state=NodeState.MAINTENANCE)
    snapshot = replace(snapshot, nodes={**snapshot.nodes, C: closed})

    decision = Optimize(budget="1 migrations").decide(snapshot, None)

    assert [step.action for step in decision.plan.steps] == [
        LiveMigration(GuestId("w"), B, A)
    ]


def test_guest_that_can_leave_without_its_group_has_a_feasible_node() -> None:
    # By hand: the group of v, w, x, y is on b and c, and v stays on b. Of w, x and y,
    # which take 60 GiB, b can hold only one with v. Two migrations are not allowed.
    snapshot = cluster(
        {"a": 0.6, "b": 0.6, "c": 0.6},
        {"u": ("a", 0.6), "v": ("b", 0.6)} | dict.fromkeys("wxy", ("c", 0.2)),
        [Affinity(guests=guest_ids("v", "w", "x", "y")), Pin(guests=guest_ids("v"))],
    )
    closed = node("c", 0.6, state=NodeState.MAINTENANCE)
    snapshot = replace(snapshot, nodes={**snapshot.nodes, C: closed})

    decision = Optimize(budget="1 migrations").decide(snapshot, None)

    (note,) = (each for each in decision.notes if "maintenance of c: " in each)
    assert "could migrate to a, b, but no plan" in note


def test_rule_with_the_origin_of_a_drain_is_none_if_it_is_of_another_kind() -> None:
    # A snapshot file may name any origin; an affinity has no node to leave.
    apart = Affinity(guests=guest_ids("g1", "g2"), origin="node state", name="gather")
    snapshot = cluster(
        {"a": 0.9, "b": 0.9}, {"g1": ("a", 0.9), "g2": ("b", 0.9)}, [apart]
    )

    decision = Repair().decide(snapshot, None)

    assert any("gather" in each for each in decision.notes)


def assert_remaining_are_explained(notes: tuple[str, ...]) -> None:
    (note,) = (each for each in notes if "maintenance of a" in each)
    assert note.startswith("maintenance of a: 2 guests cannot leave: ")
    for guest, detail in (("pinned", "pin of pinned"), ("stuck", "passthrough device")):
        assert f"{guest}: not migrated: " in note
        assert detail in note, guest
    assert not any("repaired" in each for each in notes)
