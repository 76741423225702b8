"""`optimize` repairs soft rules where no plan for another goal is made."""

from __future__ import annotations

from dataclasses import replace

import pytest

from opendrs.model import (
    Affinity,
    AntiAffinity,
    GuestId,
    Limits,
    Migration,
    MutualAntiAffinity,
    NodeAffinity,
    NodeId,
    Pin,
    Rule,
    Snapshot,
)
from opendrs.policies import Decision, DecisionReason
from opendrs.policies.optimize import Optimize
from opendrs.policies.optimize.objective import Goal
from support.builders import cluster, guest_ids

LIMITS = Limits(cooldown=0, memory_headroom=0.0)
OPTIMIZE = Optimize(limits=LIMITS)
# The nodes of `cluster` have 10 cores and 100 GiB: a load of 0.1 is 10 GiB.
LOADS = {"a": 0.3, "b": 0.4}
GUESTS = {"v": ("b", 0.1), "w": ("a", 0.3), "x": ("b", 0.3)}


def prefers(
    guest: str, *nodes: str, weight: float = 1.0, priority: int = 0
) -> NodeAffinity:
    return NodeAffinity(
        guests=guest_ids(guest),
        nodes={NodeId(each): priority for each in nodes},
        strict=False,
        weight=weight,
    )


def moved(decision: Decision[None]) -> dict[str, str]:
    """Return the target of each guest that migrates."""
    actions = [each.action for each in decision.plan.steps]
    return {x.guest: x.target for x in actions if isinstance(x, Migration)}


def after(snapshot: Snapshot, decision: Decision[None]) -> Snapshot:
    return snapshot.apply(*(each.action for each in decision.plan.steps))


def assert_stable(snapshot: Snapshot, policy: Optimize = OPTIMIZE) -> None:
    """Check that a second plan has no steps."""
    result = after(snapshot, policy.decide(snapshot, None))
    assert policy.decide(result, None).plan.steps == ()


@pytest.mark.parametrize("threshold", [0.05, 0.5])
def test_preferred_node_alone_is_a_reason_to_migrate(threshold: float) -> None:
    """The loads 0.3 and 0.4 are as uneven as 0.4 and 0.3.

    The penalty is 0.1, the cost of the migration 0.01 x 10.25 GiB / 35 GiB.
    """
    snapshot = cluster(LOADS, GUESTS, [prefers("v", "a")])
    policy = replace(OPTIMIZE, threshold=threshold)

    decision = policy.decide(snapshot, None)

    assert decision.reason is DecisionReason.REPAIRS_SOFT_RULES
    assert moved(decision) == {"v": "a"}
    assert "1 → 0" in decision.detail
    (step,) = decision.plan.steps
    assert "it runs on a preferred node then: node affinity of v to a" in step.detail
    assert_stable(snapshot, policy)


@pytest.mark.parametrize(("penalty", "count"), [(0.0028, 0), (0.0031, 1)])
def test_penalty_below_the_migration_cost_is_no_reason(
    penalty: float, count: int
) -> None:
    """The migration costs 0.01 x 10.25 GiB / 35 GiB = 0.0029."""
    snapshot = cluster(LOADS, GUESTS, [prefers("v", "a")])
    policy = replace(OPTIMIZE, soft_rule_penalty=penalty)

    assert len(moved(policy.decide(snapshot, None))) == count


@pytest.mark.parametrize(("weight", "target"), [(2.5, {}), (2.7, {"v": "a"})])
def test_balance_is_lost_only_for_a_larger_penalty(
    weight: float, target: dict[str, str]
) -> None:
    """Of 0.3 and 0.3 become 0.4 and 0.2: each deviates by 1/3, in both resources.

    That costs 4 x 1/9 = 0.444, and 0.004 for the migration. Guest v, without a rule,
    could follow for balance, which costs 0.25 for the violation: with the weight 2.5.
    """
    loads = {"a": 0.3, "b": 0.3}
    guests = {"v": ("b", 0.1), "w": ("a", 0.3), "x": ("b", 0.2)}
    rules: list[Rule] = [prefers("v", "a", weight=weight)]
    rules.append(Pin(guests=guest_ids("w", "x")))
    snapshot = cluster(loads, guests, rules)
    policy = replace(OPTIMIZE, soft_rule_penalty=0.1 * 0.45 / 0.26)

    decision = policy.decide(snapshot, None)

    assert moved(decision) == target
    assert_stable(snapshot, policy)


def test_closed_gates_do_not_hold_soft_rules() -> None:
    limits = replace(LIMITS, balance_above_cpu_load=0.8)
    snapshot = cluster(LOADS, GUESTS, [prefers("v", "a")])

    decision = replace(OPTIMIZE, limits=limits).decide(snapshot, None)

    assert moved(decision) == {"v": "a"}


def test_without_the_goal_balance_soft_rules_are_no_reason() -> None:
    snapshot = cluster(LOADS, GUESTS, [prefers("v", "a")])
    policy = replace(OPTIMIZE, priorities=(Goal.REPAIR,))

    assert moved(policy.decide(snapshot, None)) == {}


def test_balance_that_is_gained_does_not_count() -> None:
    """Guest v gains no preferred node, and x would only gain balance below 10 %."""
    rules: list[Rule] = [prefers("v", "c"), Pin(guests=guest_ids("w"))]
    loads = {"a": 0.45, "b": 0.55, "c": 1.0}
    guests = {"w": ("a", 0.4), "v": ("b", 0.5), "x": ("b", 0.01), "y": ("c", 1.0)}
    snapshot = cluster(loads, guests, rules)
    policy = replace(OPTIMIZE, threshold=5.0)

    assert moved(policy.decide(snapshot, None)) == {}


def test_guest_of_a_lighter_rule_leaves() -> None:
    """Node a has room for one of two guests that prefer it."""
    guests = {"v": ("b", 0.6), "w": ("a", 0.6)}
    rules = [prefers("v", "a", weight=5), prefers("w", "a", "c")]
    snapshot = cluster({"a": 0.6, "b": 0.6, "c": 0.0}, guests, rules)
    policy = replace(OPTIMIZE, threshold=5.0)

    decision = policy.decide(snapshot, None)

    assert moved(decision) == {"w": "c", "v": "a"}
    assert_stable(snapshot, policy)


def test_nodes_of_several_priorities_are_preferred_in_their_order() -> None:
    nodes = {NodeId("a"): 2, NodeId("b"): 1}
    rule = NodeAffinity(guests=guest_ids("v"), nodes=nodes)
    snapshot = cluster(LOADS, GUESTS, [rule])

    decision = OPTIMIZE.decide(snapshot, None)

    assert decision.reason is DecisionReason.REPAIRS_SOFT_RULES
    assert moved(decision) == {"v": "a"}
    assert_stable(snapshot)


def test_soft_affinity_to_a_pinned_guest_is_repaired() -> None:
    rules: list[Rule] = [
        Affinity(guests=guest_ids("v", "w"), strict=False),
        Pin(guests=guest_ids("w")),
    ]
    snapshot = cluster(LOADS, GUESTS, rules)

    decision = OPTIMIZE.decide(snapshot, None)

    assert moved(decision) == {"v": "a"}
    (step,) = decision.plan.steps
    assert "repairs a violated soft rule: affinity of v, w" in step.detail
    assert_stable(snapshot)


@pytest.mark.parametrize("pinned", [True, False])
@pytest.mark.parametrize("mutual", [True, False])
def test_soft_anti_affinity_is_repaired(*, pinned: bool, mutual: bool) -> None:
    """Guest v and x share node b."""
    pair = AntiAffinity(guests=guest_ids("v", "x"), strict=False)
    sides = MutualAntiAffinity(
        guests=guest_ids("v"), other_guests=guest_ids("x"), strict=False
    )
    rules: list[Rule] = [sides if mutual else pair]
    if pinned:
        rules.append(Pin(guests=guest_ids("x")))
    snapshot = cluster(LOADS, GUESTS, rules)

    decision = OPTIMIZE.decide(snapshot, None)

    assert decision.reason is DecisionReason.REPAIRS_SOFT_RULES
    assert moved(decision) == {"v": "a"}
    assert_stable(snapshot)


def test_large_cluster_repairs_soft_rules_without_balancing() -> None:
    """Of 300 equal guests on 30 nodes, 20 are on the node after the preferred one.

    No guest without a rule migrates, and a search of all placements is impossible.
    """
    names = [f"n{number:02}" for number in range(30)]
    guests = {f"g{place:03}": (names[place % 30], 0.04) for place in range(300)}
    rules = [prefers(f"g{place:03}", names[place - 1]) for place in range(1, 21)]
    snapshot = cluster(dict.fromkeys(names, 0.4), guests, rules)

    decision = OPTIMIZE.decide(snapshot, None)

    expected = {GuestId(f"g{place:03}"): names[place - 1] for place in range(1, 21)}
    assert decision.reason is DecisionReason.REPAIRS_SOFT_RULES
    assert moved(decision) == expected
    assert_stable(snapshot)
