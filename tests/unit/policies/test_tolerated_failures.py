"""Failures that the limits want tolerated, in the plans of all policies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from opendrs.arrays import SkipReason
from opendrs.guard import check
from opendrs.metrics import LoadModel
from opendrs.model import Limits, PowerOff
from opendrs.policies import (
    BUILT_IN_POLICIES,
    AutoRebalance,
    Balance,
    Policy,
)
from opendrs.policies.consolidation import Consolidate
from opendrs.policies.optimize import Optimize, Repair
from opendrs.policies.pressure import PressureRelief
from opendrs.policies.threshold_rebalance import ThresholdRebalance
from support.builders import cluster
from support.oracles.tolerated_failures import intolerated_failures, newly_intolerated
from unit.guard.test_failures import uneven
from unit.placement.test_reserves import drawn, in_racks

ANY_NODE = Limits(memory_headroom=0.0, tolerated_failures=1)
ANY_RACK = Limits(memory_headroom=0.0, tolerated_domain="rack")
BOTH = pytest.mark.parametrize("limits", [ANY_NODE, ANY_RACK])

POLICIES: dict[str, Policy[Any]] = {
    "auto-rebalance": AutoRebalance(hold=0, threshold=0.0, margin=0.0),
    "balance": Balance(threshold=0.0, min_improvement=0.001),
    "consolidate": Consolidate(manage_power=True),
    "optimize": Optimize(
        budget="unlimited", min_improvement=0.0, iterations_per_group=10
    ),
    "repair": Repair(),
    "pressure": PressureRelief(
        interval=0.0, settle_time=0.0, min_uptime=0.0, memory_threshold=0.2
    ),
    "threshold-rebalance": ThresholdRebalance(
        threshold=0.01, max_migrations=50, load_model=LoadModel.DYNAMIC
    ),
}


def with_limits(name: str, limits: Limits) -> Policy[Any]:
    policy: Any = POLICIES[name]
    return replace(policy, limits=limits)  # type: ignore[no-any-return]


def test_every_built_in_policy_is_covered() -> None:
    assert POLICIES.keys() == BUILT_IN_POLICIES.keys()


def test_balance_keeps_the_memory_for_the_largest_guest() -> None:
    free = with_limits("balance", Limits(memory_headroom=0.0)).decide(uneven(), None)

    decision = with_limits("balance", ANY_NODE).decide(uneven(), None)

    assert free.plan.steps
    assert newly_intolerated(uneven(), free.plan, ANY_NODE)
    assert not newly_intolerated(uneven(), decision.plan, ANY_NODE)
    assert any(note.startswith("not planned, because fewer") for note in decision.notes)
    reasons = {each.reason for each in decision.skipped.values()}
    assert SkipReason.FAILURE_NOT_TOLERATED in reasons


def test_consolidate_powers_no_node_off_that_a_failure_needs() -> None:
    # All guests fit on one node, but then its failure needs a second one.
    snapshot = cluster(
        {"a": 0.2, "b": 0.2, "c": 0.2},
        {"vm1": ("a", 0.2), "vm2": ("b", 0.2), "vm3": ("c", 0.2)},
    )
    powered_off = {}
    for limits in (Limits(memory_headroom=0.0), ANY_NODE):
        policy = with_limits("consolidate", limits)
        plan = policy.decide(snapshot, policy.initial_memory()).plan
        powered_off[limits.tolerated_failures] = [
            step.action.node for step in plan.steps if isinstance(step.action, PowerOff)
        ]

    assert len(powered_off[0]) == 2
    assert len(powered_off[1]) == 1


def test_consolidate_moves_no_guest_off_a_node_that_stays_on() -> None:
    # Racks r1 and r2: one node of each is needed, so that no rack is left empty.
    snapshot = in_racks(
        cluster(
            {"a": 0.2, "b": 0.2, "c": 0.2},
            {"vm1": ("a", 0.2), "vm2": ("b", 0.2), "vm3": ("c", 0.2)},
        ),
        {"a": "r1", "b": "r1", "c": "r2"},
    )
    policy = with_limits("consolidate", ANY_RACK)

    plan = policy.decide(snapshot, policy.initial_memory()).plan

    after = snapshot.apply(*(step.action for step in plan.steps))
    on = {name for name, node in after.nodes.items() if node.online}
    assert on in ({"a", "c"}, {"b", "c"})
    assert {guest.node for guest in after.guests.values()} == on
    assert not intolerated_failures(after, ANY_RACK)


def test_decision_names_what_is_not_tolerated_already() -> None:
    snapshot = cluster({"a": 0.9, "b": 0.9}, {"vm1": ("a", 0.9), "vm2": ("b", 0.9)})

    decision = with_limits("balance", ANY_NODE).decide(snapshot, None)

    assert "failure of a is not tolerated: no node for vm1" in decision.notes


def test_limits_without_failures_change_no_decision() -> None:
    policy = with_limits("balance", Limits(memory_headroom=0.0))

    assert not any("failure" in note for note in policy.decide(uneven(), None).notes)


@BOTH
@pytest.mark.parametrize("name", POLICIES)
def test_plans_on_drawn_clusters_keep_what_is_tolerated(
    name: str, limits: Limits
) -> None:
    policy, steps = with_limits(name, limits), 0
    for seed in range(2 if name == "optimize" else 5):
        snapshot = drawn(seed)
        plan = policy.decide(snapshot, policy.initial_memory()).plan
        steps += len(plan.steps)

        assert not newly_intolerated(snapshot, plan, limits), seed
        for step in plan.steps:
            assert check([step.action], snapshot, limits) is None, seed
            snapshot = snapshot.apply(step.action)
    assert steps or name in {"pressure", "repair"}
