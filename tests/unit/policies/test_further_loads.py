"""Further loads in the decisions of policies, on small clusters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from opendrs.arrays import SkipReason
from opendrs.model import (
    AntiAffinity,
    FurtherLoad,
    GuestId,
    Limits,
    NodeId,
    Snapshot,
)
from opendrs.policies import AutoRebalance, Balance, DecisionReason
from opendrs.policies.optimize import Optimize
from opendrs.policies.optimize.objective import Goal
from support.builders import cluster, partly_compared

A, B = NodeId("a"), NodeId("b")
BALANCED = Limits(loads=(FurtherLoad(name="network", weight=1.0),))
# CPU and memory are even; of the traffic, node a has 800 MB/s of 1,000.
TRAFFIC = {"a": 800.0, "b": 100.0, "c": 150.0}
OF_GUESTS = {"g1": 400.0, "g2": 300.0, "g3": 50.0, "g4": 50.0}
PLAIN = cluster(
    {"a": 0.3, "b": 0.3, "c": 0.3},
    {"g1": ("a", 0.1), "g2": ("a", 0.1), "g3": ("b", 0.1), "g4": ("c", 0.1)},
)
UNEVEN = replace(
    PLAIN,
    nodes={
        name: replace(
            node,
            loads={"network": TRAFFIC[name]},
            load_capacities={"network": 1000.0},
        )
        for name, node in PLAIN.nodes.items()
    },
    guests={
        name: replace(guest, loads={"network": OF_GUESTS[name]})
        for name, guest in PLAIN.guests.items()
    },
)


def with_node(name: NodeId, **changes: object) -> Snapshot:
    node = replace(UNEVEN.nodes[name], **changes)  # type: ignore[arg-type]
    return replace(UNEVEN, nodes={**UNEVEN.nodes, name: node})


def test_balance_counts_a_further_load_with_its_weight() -> None:
    decision = Balance(limits=BALANCED).decide(UNEVEN, None)

    # Mean loads (0.6 + network) / 3: 0.4667, 0.2333, 0.25. Their mean is 0.3167, their
    # standard deviation 0.1063, and the CV 0.3356.
    assert decision.before["imbalance"] == pytest.approx(0.3356, abs=1e-4)
    assert decision.before["highest_network"] == pytest.approx(0.8)
    assert decision.reason is DecisionReason.IMPROVES_BALANCE
    assert decision.after["network_imbalance"] < decision.before["network_imbalance"]


def test_load_without_weight_moves_nothing() -> None:
    limited = Limits(loads=(FurtherLoad(name="network", threshold=0.9),))

    for limits in (Limits(), limited):
        decision = Balance(limits=limits).decide(UNEVEN, None)
        assert decision.reason is DecisionReason.BALANCED
        assert "network_imbalance" not in decision.before


def test_auto_rebalance_does_not_weigh_further_loads() -> None:
    policy = AutoRebalance(hold=0, threshold=0.0, margin=0.0)
    plain = policy.decide(UNEVEN, policy.initial_memory())
    weighted = replace(policy, limits=BALANCED)

    assert weighted.decide(UNEVEN, policy.initial_memory()) == plain


def test_optimize_moves_guests_from_a_node_above_the_threshold() -> None:
    limited = Limits(loads=(FurtherLoad(name="network", threshold=0.45),))

    decision = Optimize(limits=limited).decide(UNEVEN, None)

    # Node a is above by 0.8 - 0.45.
    assert decision.reason is DecisionReason.RELIEVES_OVERLOAD
    assert decision.before["overfull_loads"] == pytest.approx(0.35)
    assert decision.after["overfull_loads"] == 0


def test_optimize_measures_the_deviation_of_a_further_load() -> None:
    decision = Optimize(limits=BALANCED).decide(UNEVEN, None)

    # The balanced load is 0.35; the deviations 1.2857, -0.7143 and -0.5714 have the
    # mean square 0.8299. CPU and memory deviate by 0: the root of 0.8299 / 3 is 0.526.
    assert "0.526 → " in decision.detail
    assert decision.after["network_imbalance"] < decision.before["network_imbalance"]


def test_guests_of_nodes_without_a_capacity_do_not_change_the_balanced_load() -> None:
    decision = Optimize(limits=BALANCED).decide(partly_compared(), None)

    # Before, CPU and memory deviate by 0.5, -0.5 and 0, the traffic by 0, -0.5 and 0.5:
    # the root of 1.5 / 9. Guest g1 migrates to b: CPU and memory are even, and the
    # traffic deviates by 0, -0.25 and 0.5: the root of 0.3125 / 9.
    assert [step.action.guest for step in decision.plan.steps] == ["g1"]  # type: ignore[union-attr]
    assert "0.408 → 0.186;" in decision.detail
    assert any("): 0.1863 with this plan" in note for note in decision.notes)
    assert decision.before["rms_imbalance"] == pytest.approx(0.40825, abs=1e-5)
    assert decision.after["rms_imbalance"] == pytest.approx(0.18634, abs=1e-5)


@pytest.mark.parametrize("priorities", [(Goal.REPAIR,), (Goal.CONTENTION, Goal.REPAIR)])
def test_further_load_counts_without_the_goal_balance(
    priorities: tuple[Goal, ...],
) -> None:
    apart = AntiAffinity(guests=frozenset({GuestId("g1"), GuestId("g2")}))
    snapshot = replace(partly_compared(), rules=(apart,))

    decision = Optimize(priorities=priorities, limits=BALANCED).decide(snapshot, None)

    assert decision.reason is DecisionReason.REPAIRS_RULES
    assert "0.408 → " in decision.detail


@pytest.mark.parametrize(
    "policy", [Balance(limits=BALANCED), Optimize(limits=BALANCED)]
)
def test_unmeasured_node_is_no_target_and_named(policy: Balance | Optimize) -> None:
    decision = policy.decide(with_node(B, loads={}), None)

    targets = {step.action.target for step in decision.plan.steps}  # type: ignore[union-attr]
    assert targets
    assert B not in targets
    assert any("no targets: b (nodes.b.loads)" in note for note in decision.notes)


@pytest.mark.parametrize(
    "policy", [Balance(limits=BALANCED), Optimize(limits=BALANCED)]
)
def test_unmeasured_guest_is_skipped(policy: Balance | Optimize) -> None:
    g1 = GuestId("g1")
    unknown = replace(UNEVEN.guests[g1], loads={})
    snapshot = replace(UNEVEN, guests={**UNEVEN.guests, g1: unknown})

    decision = policy.decide(snapshot, None)

    assert decision.skipped[g1].reason is SkipReason.METRICS_MISSING
    assert g1 not in {step.action.guest for step in decision.plan.steps}  # type: ignore[union-attr]


def test_node_without_capacity_is_not_compared() -> None:
    snapshot = with_node(A, load_capacities={})

    decision = Balance(limits=BALANCED).decide(snapshot, None)

    # Node a has the mean of CPU and memory, 0.3; b 0.2333 and c 0.25. The CV is 0.1085:
    # mean 0.2611, deviations 0.0389, -0.0278, -0.0111.
    assert decision.before["imbalance"] == pytest.approx(0.1085, abs=1e-4)
    assert decision.before["highest_network"] == pytest.approx(0.15)


def test_load_that_no_node_has_a_capacity_of_does_not_count() -> None:
    wrong = Limits(loads=(FurtherLoad(name="netwrok", weight=1.0, threshold=0.1),))

    decision = Optimize(limits=wrong).decide(UNEVEN, None)

    assert decision.reason is DecisionReason.BALANCED
    assert "netwrok load not counted: no node has a capacity of it" in decision.notes
