"""Plans of all policies where nodes have thresholds of network traffic."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

import pytest

from opendrs.arrays import MobilityFilter, SelectionState, best_by_imbalance
from opendrs.metrics import ImbalanceMetric, LoadModel, imbalance, node_loads
from opendrs.model import FurtherLoad, LiveMigration, Snapshot
from opendrs.policies.optimize import Optimize
from opendrs.ports import Outcome
from properties.test_plan_interleavings import (
    LIMITS,
    SENSITIVE_POLICIES,
    plan_of,
    random_cluster,
)
from properties.test_small_clusters import LIMITS as TINY_LIMITS
from properties.test_small_clusters import tiny_cluster
from support.oracles.further_loads import network_deviations
from support.oracles.interleavings import unsafe_states
from support.simulated_cluster import SimulatedCluster, outcomes

NETWORK = FurtherLoad(name="network", weight=1.0, threshold=0.6)
LIMITED = replace(LIMITS, loads=(NETWORK,))
FILTER = MobilityFilter(load_model=LoadModel.DYNAMIC, allow_cold_migration=False)


def with_network(snapshot: Snapshot, seed: int, *, measured: bool = False) -> Snapshot:
    """Return *snapshot* with drawn network traffic, in MB/s.

    Unless all is *measured*, some nodes have no capacity or are not measured, and some
    guests are not measured.
    """
    random = Random(seed)  # noqa: S311 - drawn, not a secret
    gap = 0.0 if measured else 0.1
    guests = {
        name: replace(guest, loads={"network": float(random.choice((0, 5, 20, 80)))})
        for name, guest in snapshot.guests.items()
    }
    nodes = {}
    for name, node in snapshot.nodes.items():
        used = sum(g.loads["network"] for g in guests.values() if g.node == name)
        total = used + random.randint(0, 20)
        capacity = max(total / random.uniform(0.2, 0.9), 100.0)
        nodes[name] = replace(
            node,
            loads={} if random.random() < gap else {"network": total},
            load_capacities={} if random.random() < gap else {"network": capacity},
        )
    guests = {
        name: replace(guest, loads={}) if random.random() < gap else guest
        for name, guest in guests.items()
    }
    return replace(snapshot, nodes=nodes, guests=guests)


@pytest.mark.parametrize("name", SENSITIVE_POLICIES)
def test_no_interleaving_exceeds_a_threshold(name: str) -> None:
    policy = replace(SENSITIVE_POLICIES[name], limits=LIMITED)  # type: ignore[type-var]
    steps = 0
    for seed in range(8):
        snapshot = with_network(random_cluster(seed), seed)
        plan = policy.decide(snapshot, policy.initial_memory()).plan
        steps += len(plan.steps)
        assert unsafe_states(snapshot, plan, LIMITED) == [], seed
        report = SimulatedCluster(snapshot, LIMITED).execute(*plan.steps)
        assert set(outcomes(report)) <= {Outcome.DONE}, seed
    assert steps or name == "pressure"


def test_plans_without_thresholds_would_exceed_them() -> None:
    snapshots = [with_network(random_cluster(seed), seed) for seed in range(8)]

    defects = [
        unsafe_states(each, plan_of("balance", each), LIMITED) for each in snapshots
    ]

    assert any(defects)


@pytest.mark.parametrize("name", SENSITIVE_POLICIES)
def test_loads_that_are_not_configured_change_no_plan(name: str) -> None:
    for seed in range(3):
        plain = random_cluster(seed)
        assert plan_of(name, with_network(plain, seed)) == plan_of(name, plain), seed


def test_best_move_has_the_least_imbalance_of_all_moves() -> None:
    loads, found = (replace(NETWORK, weight=1.5),), 0
    for seed in range(6):
        snapshot = with_network(random_cluster(seed, pairs=False), seed)
        limits = replace(LIMITS, loads=loads)
        state = SelectionState(snapshot, limits, FILTER, loads)
        best = best_by_imbalance(state.arrays, ImbalanceMetric.CV)
        values = [
            imbalance(
                [
                    load.mean
                    for load in node_loads(
                        snapshot.apply(LiveMigration(guest.id, guest.node, target)),
                        LoadModel.DYNAMIC,
                        loads,
                    ).values()
                ],
                ImbalanceMetric.CV,
            )
            for index, (guest,) in enumerate(state.cluster.groups)
            for node, target in enumerate(state.nodes)
            if state.feasible_mask(index)[node]
        ]
        found += best is not None
        assert (best is None) == (not values), seed
        if best is not None:
            assert best.imbalance == pytest.approx(min(values), rel=1e-9), seed
    assert found


def deviation(snapshot: Snapshot) -> float:
    """Return the quadratic mean of the deviations of CPU, memory and network."""
    squares = [each**2 for each in network_deviations(snapshot)]
    for kind in ("cpu", "memory"):
        used = [getattr(node.usage, kind) for node in snapshot.nodes.values()]
        size = [getattr(node.capacity, kind) for node in snapshot.nodes.values()]
        mean = sum(used) / sum(size)
        squares += [
            (one / total / mean - 1) ** 2 for one, total in zip(used, size, strict=True)
        ]
    return math.sqrt(sum(squares) / len(squares))


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("budget", ["2 migrations", "knee"])
def test_headline_metrics_and_bound_are_one_measure(seed: int, budget: str) -> None:
    limits = replace(TINY_LIMITS, loads=(NETWORK,))
    snapshot = with_network(tiny_cluster(seed), seed)
    policy = Optimize(budget=budget, threshold=0.0, min_improvement=0.0, limits=limits)

    decision = policy.decide(snapshot, None)

    assert unsafe_states(snapshot, decision.plan, limits) == []
    before, after = decision.before["rms_imbalance"], decision.after["rms_imbalance"]
    assert f"{before:.3f}" in decision.detail
    if decision.plan.steps:
        assert f"{before:.3f} → {after:.3f}" in decision.detail
    for note in decision.notes:
        if note.startswith("distance from the optimum"):
            reached = float(note.split(": ")[2].split()[0])
            assert reached == pytest.approx(after, abs=1e-4)


def test_guest_that_is_not_measured_blocks_no_other_guest() -> None:
    snapshot = with_network(tiny_cluster(73), 73)
    limits = replace(TINY_LIMITS, loads=(NETWORK,))
    policy = Optimize(threshold=0.0, min_improvement=0.0, limits=limits)

    decision = policy.decide(snapshot, None)

    assert any(not guest.loads for guest in snapshot.guests.values())
    assert decision.plan.steps
    assert unsafe_states(snapshot, decision.plan, limits) == []


@pytest.mark.parametrize("seed", range(20))
def test_optimize_measures_and_bounds_all_balanced_loads(seed: int) -> None:
    is_measured = seed % 2 == 0
    snapshot = with_network(tiny_cluster(seed), seed, measured=is_measured)
    limits = replace(TINY_LIMITS, loads=(NETWORK,))
    policy = Optimize(
        budget="2 migrations", threshold=0.0, min_improvement=0.0, limits=limits
    )

    decision = policy.decide(snapshot, None)

    after = snapshot.apply(*(step.action for step in decision.plan.steps))
    assert unsafe_states(snapshot, decision.plan, limits) == []
    notes = [note for note in decision.notes if "distance from the optimum" in note]
    for note in notes:
        assert "defect" not in note
        reached = float(note.split(": ")[2].split()[0])
        # Guests of unmeasured nodes add to the load that is known.
        assert not is_measured or reached == pytest.approx(deviation(after), abs=1e-4)
    assert notes or not decision.plan.steps
