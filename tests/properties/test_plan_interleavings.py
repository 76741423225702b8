"""Plans of all policies on overloaded clusters are safe in every allowed order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from opendrs.metrics import LoadModel
from opendrs.model import (
    GIB,
    Affinity,
    AntiAffinity,
    Guest,
    Limits,
    Node,
    Plan,
    Resources,
    Rule,
    Snapshot,
    Usage,
)
from opendrs.policies import BUILT_IN_POLICIES, AutoRebalance, Balance, Policy
from opendrs.policies.consolidation import Consolidate
from opendrs.policies.consolidation.settings import DetectorKind
from opendrs.policies.optimize import Optimize, Repair
from opendrs.policies.pressure import PressureRelief
from opendrs.policies.threshold_rebalance import IncusVersion, ThresholdRebalance
from opendrs.ports import Outcome
from support.builders import cluster, guest, node
from support.drawn_cases import seeds
from support.oracles.interleavings import unsafe_states
from support.oracles.worst_case import unsafe_steps, without_dependency
from support.simulated_cluster import SimulatedCluster, outcomes

LIMITS = Limits(
    memory_headroom=0.0,
    memory_overcommit=9.0,
    max_migrations_per_node=9,
    max_parallel_migrations=9,
)
SENSITIVE_POLICIES: Mapping[str, Policy[Any]] = {
    "auto-rebalance": AutoRebalance(hold=0, threshold=0.0, margin=0.0, limits=LIMITS),
    "balance": Balance(threshold=0.0, min_improvement=0.001, limits=LIMITS),
    "consolidate": Consolidate(limits=LIMITS),
    "consolidate by loads": Consolidate(
        detector=DetectorKind.LAST_N_AVERAGE, averaging_window=1, limits=LIMITS
    ),
    "optimize": Optimize(
        budget="unlimited", min_improvement=0.0, iterations_per_group=10, limits=LIMITS
    ),
    "repair": Repair(limits=LIMITS),
    "pressure": PressureRelief(
        interval=0.0,
        settle_time=0.0,
        min_uptime=0.0,
        memory_threshold=0.5,
        limits=LIMITS,
    ),
    "threshold-rebalance": ThresholdRebalance(
        threshold=0.01, max_migrations=50, load_model=LoadModel.DYNAMIC, limits=LIMITS
    ),
    "threshold-rebalance as Incus": ThresholdRebalance(
        compatibility=IncusVersion.INCUS_7_0_2,
        threshold=0.01,
        max_migrations=50,
        load_model=LoadModel.DYNAMIC,
        limits=LIMITS,
    ),
}


def random_cluster(seed: int, *, pairs: bool = True) -> Snapshot:
    """Return a drawn cluster with little memory to spare, and load that is anywhere.

    Args:
        seed: What it is drawn by.
        pairs: Whether two guests must move together.
    """
    random = Random(seed)  # noqa: S311 - drawn, not a secret
    names = "abcdefgh"[: random.randint(4, 8)]
    guests = [
        guest(
            f"g{number:02}",
            random.choice(names),
            0,
            usage=Usage(random.randint(0, 40) / 10, random.randint(1, 40) * GIB),
            limit=Resources(10, 0),
        )
        for number in range(5 * len(names))
    ]
    nodes = [_node(name, guests, random.randint(5, 40)) for name in names]
    ids = [each.id for each in guests]
    kinds: list[type[AntiAffinity | Affinity]] = [AntiAffinity, AntiAffinity, Affinity]
    rules: list[Rule] = [
        kind(guests=frozenset(random.sample(ids, 2))) for kind in kinds[: 2 + pairs]
    ]
    return replace(
        cluster({}, {}, rules),
        nodes={each.id: each for each in nodes},
        guests={each.id: each for each in guests},
    )


def _node(name: str, guests: list[Guest], unused: int) -> Node:
    """Return a node with *unused* GiB more than its guests use."""
    there = [each for each in guests if each.node == name]
    used = Usage(
        sum(each.usage.cpu or 0.0 for each in there),
        sum(each.usage.memory or 0 for each in there),
    )
    capacity = Resources(max(16.0, used.cpu or 0.0), (used.memory or 0) + unused * GIB)
    return node(name, 0, capacity=capacity, usage=used)


def plan_of(name: str, snapshot: Snapshot) -> Plan:
    policy = SENSITIVE_POLICIES[name]
    return policy.decide(snapshot, policy.initial_memory()).plan


def dependency_count(plan: Plan) -> int:
    """Return the number of dependencies in *plan*."""
    return sum(len(step.depends_on) for step in plan.steps)


def test_every_built_in_policy_is_covered() -> None:
    assert {
        policy.name for policy in SENSITIVE_POLICIES.values()
    } == BUILT_IN_POLICIES.keys()


@pytest.mark.parametrize("name", SENSITIVE_POLICIES)
def test_every_interleaving_keeps_rules_and_memory(name: str) -> None:
    steps = 0
    for seed in seeds(20, 40):
        snapshot = random_cluster(seed)
        plan = plan_of(name, snapshot)
        steps += len(plan.steps)
        assert unsafe_states(snapshot, plan, LIMITS) == [], seed
        assert unsafe_steps(snapshot, plan, LIMITS) == [], seed
    assert steps


@pytest.mark.parametrize("name", SENSITIVE_POLICIES)
def test_no_step_waits_for_what_it_can_do_without(name: str) -> None:
    seen = 0
    for seed in seeds(20, 40):
        snapshot = random_cluster(seed, pairs=False)
        plan = plan_of(name, snapshot)
        seen += dependency_count(plan)
        for step in plan.steps:
            for earlier in step.depends_on:
                assert unsafe_steps(
                    snapshot, without_dependency(plan, step, earlier), LIMITS
                ), seed
    assert seen or name not in {"balance", "consolidate", "optimize"}


@pytest.mark.parametrize("name", SENSITIVE_POLICIES)
def test_the_guard_objects_to_nothing_while_all_is_carried_out(name: str) -> None:
    for seed in range(10):
        snapshot = random_cluster(seed)
        plan = plan_of(name, snapshot)

        report = SimulatedCluster(snapshot, LIMITS).execute(*plan.steps)

        assert set(outcomes(report)) <= {Outcome.DONE}, seed
