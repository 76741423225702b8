"""Properties of the policy `repair`, and of the repair that precedes other policies."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from opendrs.model import (
    DEFAULT_LIMITS,
    Affinity,
    AntiAffinity,
    NodeAffinity,
    NodeId,
    NodeState,
    Rule,
    Snapshot,
)
from opendrs.policies import Balance, DecisionReason, decide
from opendrs.policies.optimize import Optimize, Repair
from opendrs.rules import available_memory, new_violations, violations
from support.builders import cluster, guest_ids
from support.oracles.fewest_repairs import fewest_repairs

NODES = ("a", "b", "c")
SEEDS = range(25)


def drawn_cluster(seed: int, *, affinity: bool) -> Snapshot:
    """Return a small cluster in which some rule may be violated."""
    random = Random(seed)  # noqa: S311 - not used for security
    names = [f"g{number}" for number in range(random.randint(3, 5))]
    guests = {
        name: (random.choice(NODES), random.choice([0.1, 0.2, 0.3])) for name in names
    }
    used = {
        node: sum(load for where, load in guests.values() if where == node)
        for node in NODES
    }
    rules: list[Rule] = [AntiAffinity(guests=guest_ids(*random.sample(names, 2)))]
    allowed = dict.fromkeys(map(NodeId, random.sample(NODES, 2)), 0)
    rules.append(NodeAffinity(guests=guest_ids(random.choice(names)), nodes=allowed))
    if affinity:
        rules.append(Affinity(guests=guest_ids(*random.sample(names, 2))))
    loads = {node: min(1.0, load) for node, load in used.items()}
    snapshot = cluster(loads, guests, rules)
    if random.random() < 0.3:
        drained = replace(snapshot.nodes[NodeId("a")], state=NodeState.MAINTENANCE)
        snapshot = replace(snapshot, nodes={**snapshot.nodes, drained.id: drained})
    return snapshot


def strict_violations(snapshot: Snapshot) -> int:
    return sum(each.strict for each in violations(snapshot))


def after_repair(snapshot: Snapshot) -> tuple[Snapshot, int]:
    """Return the cluster after the plan of `repair`, and its number of steps."""
    plan = Repair().decide(snapshot, None).plan
    return snapshot.apply(*(step.action for step in plan.steps)), len(plan.steps)


def overcommitted(snapshot: Snapshot) -> dict[NodeId, float]:
    """Return by how much each node is above a memory limit, in bytes."""
    left = available_memory(snapshot, DEFAULT_LIMITS)
    return {
        name: max(0.0, -(each.measured or 0.0), -(each.committed or 0.0))
        for name, each in left.items()
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_repair_without_affinity_makes_the_fewest_migrations(seed: int) -> None:
    snapshot = drawn_cluster(seed, affinity=False)

    after, steps = after_repair(snapshot)

    assert (strict_violations(after), steps) == fewest_repairs(snapshot)


@pytest.mark.parametrize("seed", SEEDS)
def test_repair_with_affinity_repairs_all_that_can_be_repaired_together(
    seed: int,
) -> None:
    snapshot = drawn_cluster(seed, affinity=True)

    after, steps = after_repair(snapshot)

    left, fewest = fewest_repairs(snapshot)
    assert strict_violations(after) <= strict_violations(snapshot)
    if left == 0:
        assert strict_violations(after) == 0
        assert fewest <= steps <= fewest + 1


@pytest.mark.parametrize("seed", SEEDS)
def test_every_step_of_a_repair_is_safe(seed: int) -> None:
    snapshot = drawn_cluster(seed, affinity=True)
    before = overcommitted(snapshot)

    state = snapshot
    for step in Repair().decide(snapshot, None).plan.steps:
        state = state.apply(step.action)
        # The migrations of a move group run together: one by one, they divide it.
        assert all(
            isinstance(each.rule, Affinity) for each in new_violations(snapshot, state)
        )
        assert all(more <= before[node] for node, more in overcommitted(state).items())
    assert new_violations(snapshot, state) == ()


def violated() -> Snapshot:
    """Return an imbalanced cluster with one violated rule and ten guests on a node."""
    guests = {f"g{number}": ("a", 0.08) for number in range(10)}
    apart = AntiAffinity(guests=guest_ids("g0", "g1"))
    return cluster({"a": 0.8, "b": 0.0, "c": 0.0}, guests, [apart])


def test_a_policy_decides_after_the_repair() -> None:
    policy = Balance()
    first = decide(policy, violated(), None)
    repaired = violated().apply(*(step.action for step in first.plan.steps))

    second = decide(policy, repaired, None)

    assert (first.reason, first.repair_first) == (DecisionReason.REPAIRS_RULES, True)
    assert len(first.plan.steps) == 1
    assert second == policy.decide(repaired, None)
    assert (second.reason, second.repair_first) == (
        DecisionReason.IMPROVES_BALANCE,
        False,
    )


def test_a_policy_without_repair_decides_as_its_original() -> None:
    policy = Balance(repair_first=False)

    assert decide(policy, violated(), None) == policy.decide(violated(), None)


def test_a_limit_of_migrations_limits_the_repair() -> None:
    guests = {f"g{number}": ("a", 0.08) for number in range(6)}
    pairs = [(f"g{number}", f"g{number + 1}") for number in (0, 2, 4)]
    rules = [AntiAffinity(guests=guest_ids(*pair)) for pair in pairs]
    snapshot = cluster({"a": 0.5, "b": 0.0}, guests, rules)

    limited = decide(Balance(max_migrations=2), snapshot, None)
    none = decide(Balance(max_migrations=0), snapshot, None)

    assert len(limited.plan.steps) == 2
    assert none.repair_first is False


def test_a_rule_that_cannot_be_repaired_does_not_prevent_balance() -> None:
    homes = {"g0": "a", "g1": "a", "g2": "b", "g3": "c", "other": "a"}
    crowded = cluster(
        nodes={"a": 0.6, "b": 0.1, "c": 0.1},
        guests={name: (home, 0.1) for name, home in homes.items()},
        rules=[AntiAffinity(guests=guest_ids("g0", "g1", "g2", "g3"))],
    )

    decision = decide(Balance(), crowded, None)

    assert decision.repair_first is False
    assert decision.reason is DecisionReason.IMPROVES_BALANCE


def test_a_drained_node_counts_for_no_imbalance() -> None:
    guests = {f"{node}{number}": (node, 0.1) for node in NODES for number in range(2)}
    level = cluster(dict.fromkeys(NODES, 0.2), guests)
    node = replace(level.nodes[NodeId("a")], state=NodeState.MAINTENANCE)
    drained = replace(level, nodes={**level.nodes, node.id: node})

    decision = Optimize().decide(drained, None)

    assert len(decision.plan.steps) == 2
    assert decision.before["imbalance"] == pytest.approx(0.0)
    assert decision.after["imbalance"] == pytest.approx(0.0)
    assert (decision.before["used_nodes"], decision.after["used_nodes"]) == (2, 2)
