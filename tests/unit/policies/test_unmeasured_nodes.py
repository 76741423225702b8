"""Nodes without metrics: neither source nor target, and named by each policy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from opendrs.arrays import SkipReason
from opendrs.metrics import LoadModel
from opendrs.model import (
    EMPTY_PLAN,
    GIB,
    Affinity,
    AntiAffinity,
    GuestId,
    NodeAffinity,
    NodeId,
    NodeState,
    PowerOff,
    Snapshot,
    Usage,
)
from opendrs.policies import AutoRebalance, Balance, DecisionReason, Policy
from opendrs.policies.consolidation import Consolidate
from opendrs.policies.drain import Drain
from opendrs.policies.first_repair import decide
from opendrs.policies.optimize import Optimize, Repair
from support.builders import cluster, guest_ids

A, B, C, D = (NodeId(name) for name in "abcd")
GUESTS = {f"g{i}": ("a", 0.2) for i in range(1, 5)}
PILED = cluster({"a": 0.8, "b": 0.0, "c": None}, {**GUESTS, "x": ("c", 0.2)})
BALANCING: tuple[Policy[Any], ...] = (Balance(), AutoRebalance(hold=0), Optimize())


def targets(policy: Policy[Any], snapshot: Snapshot) -> set[str]:
    plan = policy.decide(snapshot, policy.initial_memory()).plan
    return {step.action.target for step in plan.steps}  # type: ignore[union-attr]


def with_usage(snapshot: Snapshot, name: NodeId, usage: Usage) -> Snapshot:
    node = replace(snapshot.nodes[name], usage=usage)
    return replace(snapshot, nodes={**snapshot.nodes, name: node})


@pytest.mark.parametrize("policy", BALANCING, ids=lambda each: each.name)
@pytest.mark.parametrize("usage", [Usage(), Usage(None, 20 * GIB), Usage(2.0, None)])
def test_others_are_balanced_and_the_node_is_named(
    policy: Policy[Any], usage: Usage
) -> None:
    decision = policy.decide(with_usage(PILED, C, usage), policy.initial_memory())

    assert decision.reason is DecisionReason.IMPROVES_BALANCE
    assert {step.action.target for step in decision.plan.steps} == {B}  # type: ignore[union-attr]
    assert decision.unmeasured == (C,)
    assert "nodes.c.usage" in decision.notes[0]
    skipped = decision.skipped[GuestId("x")]
    assert skipped.reason is SkipReason.NODE_NOT_MEASURED
    assert decision.before["highest_memory"] == pytest.approx(0.8)


@pytest.mark.parametrize("policy", BALANCING, ids=lambda each: each.name)
def test_a_balanced_cluster_names_the_node_too(policy: Policy[Any]) -> None:
    even = cluster({"a": 0.4, "b": 0.4, "c": None}, {"g1": ("a", 0.2)})

    decision = policy.decide(even, policy.initial_memory())

    assert decision.reason is DecisionReason.BALANCED
    assert decision.unmeasured == (C,)
    assert "c" in decision.notes[0]


@pytest.mark.parametrize("policy", BALANCING, ids=lambda each: each.name)
def test_with_one_measured_node_there_is_no_decision(policy: Policy[Any]) -> None:
    blind = with_usage(PILED, B, Usage())

    decision = policy.decide(blind, policy.initial_memory())

    assert decision.reason is DecisionReason.METRICS_MISSING
    assert decision.plan == EMPTY_PLAN


@pytest.mark.parametrize("policy", BALANCING, ids=lambda each: each.name)
def test_an_unmeasured_node_in_maintenance_is_no_second_node(
    policy: Policy[Any],
) -> None:
    closed = replace(PILED.nodes[B], state=NodeState.MAINTENANCE, usage=Usage())
    snapshot = replace(PILED, nodes={**PILED.nodes, B: closed})

    decision = policy.decide(snapshot, policy.initial_memory())

    assert decision.reason is DecisionReason.METRICS_MISSING


@pytest.mark.parametrize("policy", BALANCING, ids=lambda each: each.name)
def test_a_guest_does_not_leave_its_group_on_an_unmeasured_node(
    policy: Policy[Any],
) -> None:
    together = Affinity(guests=guest_ids("g1", "g2", "x"), name="together")
    apart = Affinity(guests=guest_ids("g1", "g2"), name="pair")
    # The use of memory is known, which would suffice to place guests there.
    snapshot = with_usage(PILED, C, Usage(None, 20 * GIB))

    split = replace(snapshot, rules=(together,))
    assert targets(policy, split) <= {B}
    assert targets(policy, replace(snapshot, rules=(apart,))) <= {B}


def test_a_limit_that_is_unknown_leaves_its_node_out() -> None:
    unlimited = replace(PILED.guests[GuestId("x")], limit=None)
    known = with_usage(PILED, C, Usage(2.0, 20 * GIB))
    snapshot = replace(known, guests={**known.guests, unlimited.id: unlimited})

    decision = Balance(load_model=LoadModel.STATIC).decide(snapshot, None)

    assert decision.reason is DecisionReason.IMPROVES_BALANCE
    assert decision.unmeasured == (C,)
    assert "guests.x.limit" in decision.notes[0]
    assert {step.action.target for step in decision.plan.steps} == {B}  # type: ignore[union-attr]


def test_a_rule_with_a_guest_on_the_node_is_repaired_elsewhere() -> None:
    apart = AntiAffinity(guests=guest_ids("g1", "g2", "x"), name="apart")

    decision = Repair().decide(replace(PILED, rules=(apart,)), None)

    assert decision.reason is DecisionReason.REPAIRS_RULES
    assert [step.action.target for step in decision.plan.steps] == [B]  # type: ignore[union-attr]
    assert decision.unmeasured == (C,)


def test_a_rule_that_only_the_node_could_hold_stays_violated() -> None:
    away = NodeAffinity(guests=guest_ids("g1"), nodes={C: 0}, name="on c")

    decision = Repair().decide(replace(PILED, rules=(away,)), None)

    assert decision.reason is DecisionReason.NO_CANDIDATE
    assert decision.unmeasured == (C,)


def test_a_repair_before_a_policy_names_the_node() -> None:
    apart = AntiAffinity(guests=guest_ids("g1", "g2"), name="apart")

    decision = decide(Balance(), replace(PILED, rules=(apart,)), None)

    assert decision.repair_first
    assert decision.unmeasured == (C,)


def test_a_drain_passes_over_the_node() -> None:
    closed = replace(PILED.nodes[A], state=NodeState.MAINTENANCE)
    nodes = {**PILED.nodes, A: closed, D: replace(PILED.nodes[B], id=D)}

    decision = Drain().decide(replace(PILED, nodes=nodes), None)

    assert decision.reason is DecisionReason.DRAINS_NODES
    assert len(decision.plan.steps) == len(GUESTS)
    assert {step.action.target for step in decision.plan.steps} == {B, D}  # type: ignore[union-attr]
    assert decision.unmeasured == (C,)


def test_an_empty_unmeasured_node_stays_on() -> None:
    nodes = {"a": 0.3, "b": 0.0, "c": None, "d": 0.0}
    snapshot = cluster(nodes, {"g1": ("a", 0.3)})
    policy = Consolidate(manage_power=True)

    decision = policy.decide(snapshot, policy.initial_memory())

    off = [step.action for step in decision.plan.steps]
    assert off == [PowerOff(B), PowerOff(D)]
    assert decision.unmeasured == (C,)
