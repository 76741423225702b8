"""Gates: no migration for balance while no node is loaded enough."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from opendrs.errors import ModelError
from opendrs.metrics import LoadModel
from opendrs.model import (
    EMPTY_PLAN,
    AntiAffinity,
    Limits,
    NodeId,
    NodeState,
    Resources,
    Snapshot,
    Usage,
)
from opendrs.policies import AutoRebalance, Balance, Decision, DecisionReason, Policy
from opendrs.policies.balance_gates import closed_gates
from opendrs.policies.optimize import Optimize
from opendrs.policies.optimize.objective import Goal
from opendrs.policies.threshold_rebalance import ThresholdRebalance
from support.builders import cluster, guest_ids

# Loads 60 %, 10 % and 10 % of cpu and memory: far from balanced.
UNEVEN = cluster(
    {"a": 0.6, "b": 0.1, "c": 0.1},
    {"g1": ("a", 0.15), "g2": ("a", 0.15), "g3": ("a", 0.15), "g4": ("a", 0.15)},
)
CLOSED = Limits(balance_above_cpu_load=0.6, balance_above_memory_load=0.7)
OPEN = Limits(balance_above_cpu_load=0.59, balance_above_memory_load=0.7)
A = NodeId("a")
BALANCING: dict[str, Policy[Any]] = {
    "auto-rebalance": AutoRebalance(hold=0),
    "balance": Balance(),
    "optimize": Optimize(iterations_per_group=10),
    "threshold-rebalance": ThresholdRebalance(load_model=LoadModel.DYNAMIC),
}


def decide(name: str, limits: Limits, snapshot: Snapshot = UNEVEN) -> Decision[Any]:
    policy = replace(BALANCING[name], limits=limits)  # type: ignore[type-var]
    return policy.decide(snapshot, policy.initial_memory())


@pytest.mark.parametrize("name", BALANCING)
def test_load_at_the_gates_gives_no_plan(name: str) -> None:
    decision = decide(name, CLOSED)

    assert decision.reason is DecisionReason.LOAD_BELOW_GATE
    assert decision.plan == EMPTY_PLAN
    assert decision.after == decision.before
    for figure in ("60.0%", "(a)", "70.0%"):
        assert figure in decision.detail


@pytest.mark.parametrize("name", BALANCING)
def test_one_node_above_one_gate_gives_the_plan_without_gates(name: str) -> None:
    decision = decide(name, OPEN)

    assert decision.plan.steps
    assert decision == decide(name, Limits())


def test_auto_rebalance_behind_closed_gates_keeps_its_memory() -> None:
    policy = AutoRebalance(hold=2, limits=CLOSED)

    first = policy.decide(UNEVEN, 0)
    second = policy.decide(UNEVEN, first.memory)

    assert first.reason is DecisionReason.HOLD_NOT_REACHED
    assert second.reason is DecisionReason.LOAD_BELOW_GATE
    assert second.memory == first.memory == 1


def test_balanced_cluster_is_reported_as_balanced() -> None:
    even = cluster({"a": 0.1, "b": 0.1}, {"g": ("a", 0.1)})

    for name in BALANCING:
        assert decide(name, CLOSED, even).reason is DecisionReason.BALANCED


@pytest.mark.parametrize(
    "limits",
    [Limits(balance_above_cpu_load=0.5), Limits(balance_above_memory_load=0.5)],
)
def test_single_gate_counts_its_resource_alone(limits: Limits) -> None:
    used = Usage(cpu=6.0, memory=UNEVEN.nodes[NodeId("b")].usage.memory)
    only_cpu = replace(
        UNEVEN,
        nodes={**UNEVEN.nodes, A: replace(UNEVEN.nodes[A], usage=used)},
    )

    detail = closed_gates(only_cpu, limits, LoadModel.DYNAMIC)

    assert (detail is None) is (limits.balance_above_cpu_load is not None)


def test_node_in_maintenance_or_without_metrics_opens_no_gate() -> None:
    gate = Limits(balance_above_cpu_load=0.5)
    node = UNEVEN.nodes[A]
    for changed in (
        replace(node, state=NodeState.MAINTENANCE),
        replace(node, usage=Usage()),
    ):
        snapshot = replace(UNEVEN, nodes={**UNEVEN.nodes, A: changed})
        assert closed_gates(snapshot, gate, LoadModel.DYNAMIC) is not None


def test_static_load_model_counts_the_limits_of_guests() -> None:
    gate = Limits(balance_above_memory_load=0.5)
    idle = replace(
        UNEVEN,
        nodes={
            name: replace(node, usage=Usage.of(Resources(0.0, 0)))
            for name, node in UNEVEN.nodes.items()
        },
    )

    assert closed_gates(idle, gate, LoadModel.DYNAMIC) is not None
    assert closed_gates(idle, gate, LoadModel.STATIC) is None  # 4 x 15 % of a


def test_optimize_behind_closed_gates_repairs_with_the_fewest_migrations() -> None:
    """The repaired guest goes to the node with the least load, and no other moves."""
    snapshot = cluster(
        {"a": 0.5, "b": 0.3, "c": 0.1},
        {f"g{n}": ("a", 0.1) for n in range(5)} | {"h": ("b", 0.1)},
        [AntiAffinity(guests=guest_ids("g0", "g1"))],
    )

    decision = decide("optimize", CLOSED, snapshot)

    (step,) = decision.plan.steps
    assert decision.reason is DecisionReason.REPAIRS_RULES
    assert step.action.guest in guest_ids("g0", "g1")  # type: ignore[union-attr]
    assert step.action.target == "c"  # type: ignore[union-attr]
    assert any("balance" in note and "50.0%" in note for note in decision.notes)


def test_optimize_with_balance_as_its_only_goal_does_nothing() -> None:
    policy = Optimize(priorities=(Goal.BALANCE,), limits=CLOSED)

    decision = policy.decide(UNEVEN, None)

    assert decision.reason is DecisionReason.LOAD_BELOW_GATE


def test_optimize_behind_closed_gates_drains_a_node_in_maintenance() -> None:
    node = replace(UNEVEN.nodes[A], state=NodeState.MAINTENANCE)
    snapshot = replace(UNEVEN, nodes={**UNEVEN.nodes, A: node})

    decision = decide("optimize", CLOSED, snapshot)

    assert len(decision.plan.steps) == 4


@pytest.mark.parametrize("value", [-0.1, 1.1, 80.0, float("nan")])
def test_gate_that_is_no_fraction_is_rejected(value: float) -> None:
    with pytest.raises(ModelError, match=r"^balance_above_cpu_load: expected"):
        Limits(balance_above_cpu_load=value)
    with pytest.raises(ModelError, match=r"^balance_above_memory_load: expected"):
        Limits(balance_above_memory_load=value)
