"""On crowded clusters, whatever a policy decides can be done in any order it allows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from builders import cluster, guest, node
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
from opendrs.policies import (
    BUILT_IN,
    AutoRebalance,
    Balance,
    Consolidate,
    Optimize,
    Policy,
    PressureRelief,
    ThresholdRebalance,
)
from opendrs.policies.consolidation.strategy import Detection
from opendrs.policies.threshold_rebalance import Form
from opendrs.ports import Outcome
from opendrs.scoring import UsageMode
from oracles.passage import faults
from oracles.worst import hasty, unsafe
from stage import Stage, outcomes

LIMITS = Limits(
    memory_headroom=0.0, memory_overbooking=9.0, moves_per_node=9, moves_at_once=9
)
EAGER: Mapping[str, Policy[Any]] = {
    "auto-rebalance": AutoRebalance(hold=0, threshold=0.0, margin=0.0, limits=LIMITS),
    "balance": Balance(threshold=0.0, margin=0.001, limits=LIMITS),
    "consolidate": Consolidate(limits=LIMITS),
    "consolidate by loads": Consolidate(
        detector=Detection.LAST_N_AVERAGE, last_n=1, limits=LIMITS
    ),
    "optimize": Optimize(budget="unlimited", margin=0.0, effort=10, limits=LIMITS),
    "pressure": PressureRelief(
        interval=0.0, quiet=0.0, uptime=0.0, memory=0.5, limits=LIMITS
    ),
    "threshold-rebalance": ThresholdRebalance(
        threshold=0.01, batch=50, mode=UsageMode.DYNAMIC, limits=LIMITS
    ),
    "threshold-rebalance as Incus": ThresholdRebalance(
        form=Form.INCUS_7_0_2,
        threshold=0.01,
        batch=50,
        mode=UsageMode.DYNAMIC,
        limits=LIMITS,
    ),
}


def crowded(seed: int, *, pairs: bool = True) -> Snapshot:
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


def _node(name: str, guests: list[Guest], spare: int) -> Node:
    """Return a node with *spare* GiB more than its guests use."""
    there = [each for each in guests if each.node == name]
    used = Usage(
        sum(each.usage.cpu or 0.0 for each in there),
        sum(each.usage.memory or 0 for each in there),
    )
    capacity = Resources(max(16.0, used.cpu or 0.0), (used.memory or 0) + spare * GIB)
    return node(name, 0, capacity=capacity, usage=used)


def decided(name: str, snapshot: Snapshot) -> Plan:
    policy = EAGER[name]
    return policy.decide(snapshot, policy.initial_memory()).plan


def waits(plan: Plan) -> int:
    """Return how many waits are told in *plan*."""
    return sum(len(step.after) for step in plan.steps)


def test_every_built_in_policy_is_looked_at() -> None:
    assert {policy.name for policy in EAGER.values()} == BUILT_IN.keys()


@pytest.mark.parametrize("name", EAGER)
def test_every_interleaving_keeps_rules_and_memory(name: str) -> None:
    steps = 0
    for seed in range(40):
        snapshot = crowded(seed)
        plan = decided(name, snapshot)
        steps += len(plan.steps)
        assert faults(snapshot, plan, LIMITS) == [], seed
        assert unsafe(snapshot, plan, LIMITS) == [], seed
    assert steps


@pytest.mark.parametrize("name", EAGER)
def test_no_step_waits_for_what_it_can_do_without(name: str) -> None:
    seen = 0
    for seed in range(40):
        snapshot = crowded(seed, pairs=False)
        plan = decided(name, snapshot)
        seen += waits(plan)
        for step in plan.steps:
            for earlier in step.after:
                assert unsafe(snapshot, hasty(plan, step, earlier), LIMITS), seed
    assert seen or name not in {"balance", "consolidate", "optimize"}


@pytest.mark.parametrize("name", EAGER)
def test_the_guard_objects_to_nothing_while_all_is_carried_out(name: str) -> None:
    for seed in range(10):
        snapshot = crowded(seed)
        plan = decided(name, snapshot)

        report = Stage(snapshot, LIMITS).play(*plan.steps)

        assert set(outcomes(report)) <= {Outcome.DONE}, seed
