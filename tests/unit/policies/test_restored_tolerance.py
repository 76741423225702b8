"""Failures that are made tolerated again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from opendrs.guard import check
from opendrs.model import (
    Limits,
    LiveMigration,
    NodeAffinity,
    NodeId,
    NodeState,
    Pin,
    Snapshot,
)
from opendrs.policies import Balance, DecisionReason, first_repair
from opendrs.policies.optimize import Optimize, Repair
from opendrs.rules import HOLD_ORIGIN
from support.builders import cluster, guest_ids
from support.oracles.tolerated_failures import intolerated_failures
from unit.placement.test_reserves import drawn, in_racks

ANY_NODE = Limits(memory_headroom=0.0, tolerated_failures=1)
ANY_RACK = Limits(memory_headroom=0.0, tolerated_domain="rack")


def fragmented() -> Snapshot:
    """Return a cluster in which no other node has memory for the largest guest.

    If b fails, vm2 of 0.6 needs a node: a and c have 0.5 left each. With vm1 of 0.3 on
    c, a has 0.8 left.
    """
    return cluster(
        {"a": 0.5, "b": 0.6, "c": 0.5},
        {"vm1": ("a", 0.3), "vm2": ("b", 0.6), "vm3": ("a", 0.2), "vm4": ("c", 0.5)},
    )


def test_repair_moves_one_guest_so_that_a_failure_is_tolerated() -> None:
    decision = Repair(limits=ANY_NODE).decide(fragmented(), None)

    assert decision.reason is DecisionReason.RESTORES_TOLERANCE
    after = fragmented().apply(*(step.action for step in decision.plan.steps))
    assert not intolerated_failures(after, ANY_NODE)
    assert len(decision.plan.steps) == 1
    assert decision.detail.startswith("guests without a node after a failure 1 → 0")


def test_repair_makes_a_rack_tolerated() -> None:
    snapshot = in_racks(fragmented(), {"a": "r1", "b": "r2", "c": "r3"})

    decision = Repair(limits=ANY_RACK).decide(snapshot, None)

    after = snapshot.apply(*(step.action for step in decision.plan.steps))
    assert not intolerated_failures(after, ANY_RACK)


def test_repair_moves_several_guests_where_one_does_not_suffice() -> None:
    # vm2 of 0.7 needs two of the guests of 0.2 to leave a, for c and d.
    snapshot = cluster(
        {"a": 0.6, "b": 0.7, "c": 0.75, "d": 0.75},
        {
            "vm1": ("a", 0.2),
            "vm3": ("a", 0.2),
            "vm5": ("a", 0.2),
            "vm2": ("b", 0.7),
            "vm4": ("c", 0.25),
            "vm6": ("d", 0.25),
            "vm7": ("c", 0.25),
            "vm8": ("d", 0.25),
            "vm9": ("c", 0.25),
            "vm10": ("d", 0.25),
        },
    )

    decision = Repair(limits=ANY_NODE).decide(snapshot, None)

    after = snapshot.apply(*(step.action for step in decision.plan.steps))
    assert len(intolerated_failures(after, ANY_NODE)) < len(
        intolerated_failures(snapshot, ANY_NODE)
    )


def test_optimize_makes_a_failure_tolerated_before_it_balances() -> None:
    decision = Optimize(limits=ANY_NODE).decide(fragmented(), None)

    assert decision.reason is DecisionReason.RESTORES_TOLERANCE


def test_repair_within_a_budget_of_no_migration_restores_nothing() -> None:
    decision = Repair(limits=ANY_NODE, budget="0 migrations").decide(fragmented(), None)

    assert not decision.plan.steps


def test_other_policies_decide_after_the_repair_of_tolerance() -> None:
    repair = first_repair(Balance(limits=ANY_NODE), fragmented(), None)

    assert repair is not None
    assert repair.reason is DecisionReason.RESTORES_TOLERANCE


@pytest.mark.parametrize(
    ("limits", "overcommit", "seeds"),
    [(ANY_NODE, 0.5, (5, 6, 8)), (ANY_RACK, 0.6, (2, 9, 10))],
)
def test_repairs_of_drawn_clusters_make_nothing_worse(
    limits: Limits, overcommit: float, seeds: Sequence[int]
) -> None:
    restored = 0
    for seed in seeds:
        snapshot = drawn(seed)
        tight = replace(limits, memory_overcommit=overcommit)
        before = intolerated_failures(snapshot, tight)
        decision = Repair(limits=tight).decide(snapshot, None)
        for step in decision.plan.steps:
            assert check([step.action], snapshot, tight) is None
            snapshot = snapshot.apply(step.action)
        after = intolerated_failures(snapshot, tight)
        assert after <= before
        restored += len(after) < len(before)
    assert restored


def test_guest_with_a_failed_migration_is_not_moved_for_tolerance() -> None:
    snapshot = fragmented()
    (step,) = Repair(limits=ANY_NODE).decide(snapshot, None).plan.steps
    assert isinstance(step.action, LiveMigration)
    pin = Pin(guests=frozenset({step.action.guest}), name="held", origin=HOLD_ORIGIN)

    held = Repair(limits=ANY_NODE).decide(replace(snapshot, rules=(pin,)), None)

    assert held.reason is DecisionReason.RESTORES_TOLERANCE
    (other,) = held.plan.steps
    assert isinstance(other.action, LiveMigration)
    assert other.action.guest != step.action.guest


def test_optimize_makes_a_failure_tolerated_if_no_rule_can_be_repaired() -> None:
    snapshot = fragmented()
    off = replace(snapshot.nodes[NodeId("a")], id=NodeId("d"), state=NodeState.OFFLINE)
    rule = NodeAffinity(guests=guest_ids("vm4"), nodes={off.id: 0})
    nodes = {**snapshot.nodes, off.id: off}

    decision = Optimize(limits=ANY_NODE).decide(
        replace(snapshot, nodes=nodes, rules=(rule,)), None
    )

    assert decision.reason is DecisionReason.RESTORES_TOLERANCE
