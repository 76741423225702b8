"""Plans of all policies where nodes limit committed CPU and reserve resources.

What a node may give is calculated by the oracle, which shares nothing with the plans.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from opendrs.model import GIB, Allocation, Limits, NodeId, NodeLimits, Snapshot
from opendrs.policies import Decision
from opendrs.policies.optimize import Optimize
from opendrs.ports import Outcome
from properties.test_plan_interleavings import SENSITIVE_POLICIES, random_cluster
from properties.test_small_clusters import (
    LIMITS as TINY_LIMITS,
)
from properties.test_small_clusters import require_best, tiny_cluster
from support.drawn_cases import seeds
from support.oracles.interleavings import allowed_amounts, unsafe_states
from support.simulated_cluster import SimulatedCluster, outcomes

LIMITS = Limits(
    memory_headroom=0.0,
    memory_overcommit=9.0,
    max_migrations_per_node=9,
    max_parallel_migrations=9,
    cpu_overcommit=1.0,
    reserved_cpu="10 %",
    reserved_memory="2 GiB",
    overrides=(
        NodeLimits(labels=("dense",), cpu_overcommit=1.3, reserved_cpu=0),
        NodeLimits(nodes=(NodeId("a"),), cpu_overcommit=0.7),
    ),
)


def limited_cluster(seed: int) -> Snapshot:
    """Return a drawn cluster in which some nodes have no virtual cores to give."""
    random = Random(seed)  # noqa: S311 - drawn, not a secret
    snapshot = random_cluster(seed)
    guests = {
        name: replace(
            guest, limit=replace(guest.limit, cpu=random.choice((0, 1, 2, 4, 8)))
        )
        for name, guest in snapshot.guests.items()
        if guest.limit is not None
    }
    nodes = {
        name: replace(
            node,
            labels=frozenset(random.sample(["dense"], random.randint(0, 1))),
            allocation=Allocation(cpu_ratio=1.1, reserved_cpu=1)
            if random.random() < 0.2
            else node.allocation,
        )
        for name, node in snapshot.nodes.items()
    }
    return replace(snapshot, nodes=nodes, guests=guests)


def committed_cores(snapshot: Snapshot) -> Mapping[NodeId, float]:
    """Return the sum of the limits of the guests on each node."""
    cores = dict.fromkeys(snapshot.nodes, 0.0)
    for guest in snapshot.guests.values():
        assert guest.limit is not None
        cores[guest.node] += guest.limit.cpu or guest.usage.cpu or 0.0
    return cores


def cores_above(snapshot: Snapshot) -> Mapping[NodeId, float]:
    """Return the committed cores of each node above what it may give."""
    cores = committed_cores(snapshot)
    return {
        name: max(0.0, cores[name] - allowed_amounts(node, LIMITS)[2])
        for name, node in snapshot.nodes.items()
    }


def decide(name: str, snapshot: Snapshot) -> Decision[Any]:
    policy = replace(SENSITIVE_POLICIES[name], limits=LIMITS)  # type: ignore[type-var]
    return policy.decide(snapshot, policy.initial_memory())


def applied(snapshot: Snapshot, decision: Decision[Any]) -> Snapshot:
    return snapshot.apply(*(step.action for step in decision.plan.steps))


@pytest.mark.parametrize("name", SENSITIVE_POLICIES)
def test_no_interleaving_commits_more_cpu_than_nodes_may_give(name: str) -> None:
    steps = above = 0
    for seed in seeds(15, 30):
        snapshot = limited_cluster(seed)
        decision = decide(name, snapshot)
        steps += len(decision.plan.steps)
        before, after = cores_above(snapshot), cores_above(applied(snapshot, decision))
        above += sum(each > 0 for each in before.values())

        assert unsafe_states(snapshot, decision.plan, LIMITS) == [], seed
        assert all(after[each] <= before[each] + 1e-6 for each in after), seed
    assert steps
    assert above


@pytest.mark.parametrize("name", SENSITIVE_POLICIES)
def test_the_guard_rejects_no_step_where_cpu_is_limited(name: str) -> None:
    for seed in range(6):
        snapshot = limited_cluster(seed)
        plan = decide(name, snapshot).plan

        report = SimulatedCluster(snapshot, LIMITS).execute(*plan.steps)

        assert set(outcomes(report)) <= {Outcome.DONE}, seed


def test_optimize_repairs_overcommitted_cpu() -> None:
    repaired = 0
    for seed in seeds(15, 30):
        snapshot = limited_cluster(seed)
        before = sum(cores_above(snapshot).values())
        policy = Optimize(budget="unlimited", iterations_per_group=10, limits=LIMITS)
        decision = policy.decide(snapshot, None)
        after = sum(cores_above(applied(snapshot, decision)).values())

        repaired += before > 0 and after < before
        assert decision.before["overfull_cores"] == pytest.approx(before, abs=0.02)
        assert decision.after["overfull_cores"] == pytest.approx(after, abs=0.02)
    assert repaired > 10


@pytest.mark.parametrize("seed", seeds(40, 60))
def test_plans_of_tiny_clusters_with_limited_cpu_are_best(seed: int) -> None:
    """Each node takes so many guests of 4 cores; all placements are tried."""
    snapshot = tiny_cluster(seed)
    counts = Counter(guest.node for guest in snapshot.guests.values())
    most = max(2, *counts.values()) if len(counts) > 1 else counts.total()
    limits = replace(TINY_LIMITS, cpu_overcommit=4 * most / 64, reserved_memory=1 * GIB)
    fits = all(
        (node.usage.memory or 0) <= allowed_amounts(node, limits)[0]
        for node in snapshot.nodes.values()
    )
    if not fits:
        pytest.skip("a node is above the reserve from the beginning")

    require_best(snapshot, limits)
