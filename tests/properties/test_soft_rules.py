"""`optimize` with soft rules on tiny clusters, beside all plans there are."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from opendrs.model import (
    GIB,
    Affinity,
    AntiAffinity,
    NodeAffinity,
    Pin,
    Rule,
    Snapshot,
)
from opendrs.policies import Decision, DecisionReason
from opendrs.policies.optimize import Optimize
from opendrs.rules import violations
from properties.test_small_clusters import (
    LIMITS,
    applied,
    deviation,
    tiny_cluster,
)
from support.oracles.interleavings import unsafe_states
from support.oracles.reachable_placements import reached_placements

PENALTY, MIGRATION_COST, OVERHEAD = 0.1, 0.01, 0.25
WEIGHTS = (0.5, 1.0, 2.0, 5.0)
ANY_BALANCE = 10.0  # threshold that no imbalance exceeds
OPTIMIZE = Optimize(
    budget="unlimited",
    soft_rule_penalty=PENALTY,
    migration_cost_weight=MIGRATION_COST,
    contention_threshold=1.0,
    limits=LIMITS,
)


def softly_ruled_cluster(seed: int) -> Snapshot:
    """Return a drawn cluster with preferred nodes and neighbors."""
    random = Random(seed)  # noqa: S311 - drawn, not a secret
    snapshot = tiny_cluster(seed)
    ids, nodes = sorted(snapshot.guests), sorted(snapshot.nodes)
    rules: list[Rule] = [
        each for each in snapshot.rules if isinstance(each, Pin | AntiAffinity)
    ]
    for name in random.sample(ids, random.randint(1, len(ids) - 1)):
        preferred = random.sample(nodes, random.randint(1, len(nodes) - 1))
        rules.append(
            NodeAffinity(
                guests=frozenset([name]),
                nodes=dict.fromkeys(preferred, 0),
                strict=False,
                weight=random.choice(WEIGHTS),
            )
        )
    for _ in range(random.randint(0, 2)):
        kind = random.choice((Affinity, AntiAffinity))
        pair = frozenset(random.sample(ids, 2))
        rules.append(kind(guests=pair, strict=False, weight=random.choice(WEIGHTS)))
    return replace(snapshot, rules=tuple(rules))


def strict_count(snapshot: Snapshot) -> int:
    return sum(each.strict for each in violations(snapshot))


def cost(before: Snapshot, after: Snapshot, gib: float, migrations: int) -> float:
    """Return the penalty, and the cost of migrations and of balance that is lost."""
    used = sum(each.usage.memory or 0 for each in before.guests.values()) / GIB
    count = len(before.nodes)
    penalty = sum(each.weight for each in violations(after) if not each.strict)
    lost = deviation(after) ** 2 - deviation(before) ** 2
    return (
        PENALTY * penalty
        + MIGRATION_COST * (gib + OVERHEAD * migrations) / (used / count)
        + 2 * count * max(0.0, lost)
    )


def cost_of(snapshot: Snapshot, decision: Decision[None]) -> float:
    steps = [step.action for step in decision.plan.steps]
    sizes = [snapshot.guests[step.guest].usage.memory or 0 for step in steps]  # type: ignore[union-attr]
    after = applied(snapshot, decision)
    return cost(snapshot, after, sum(sizes) / GIB, len(steps))


# Beside the first ones: a guest has to leave a preferred node for a heavier rule.
@pytest.mark.parametrize("seed", [*range(40), 96, 254, 289, 323, 437, 581, 591])
def test_plans_for_soft_rules_of_tiny_clusters_are_best(seed: int) -> None:
    """The imbalance is below the threshold: no guest migrates for balance."""
    snapshot = softly_ruled_cluster(seed)
    if strict_count(snapshot):
        pytest.skip("a plan would repair a strict rule")
    policy = replace(OPTIMIZE, threshold=ANY_BALANCE)
    reached = reached_placements(snapshot, LIMITS).values()
    least = min(
        cost(snapshot, each.snapshot, each.gib, each.migrations)
        for each in reached
        if not strict_count(each.snapshot)
    )

    decision = policy.decide(snapshot, None)

    assert cost_of(snapshot, decision) == pytest.approx(least, abs=1e-6)
    assert not unsafe_states(snapshot, decision.plan, LIMITS)
    assert policy.decide(applied(snapshot, decision), None).plan.steps == ()


# Clusters with plans for soft rules alone, among the first 200.
@pytest.mark.parametrize("budget", ["knee", "unlimited"])
@pytest.mark.parametrize("seed", [0, 73, 94, 99, 109, 126, 132, 157, 158, 161, 162])
def test_plan_for_soft_rules_leaves_nothing_to_balance(seed: int, budget: str) -> None:
    """With the threshold of balance, the next plan has no steps."""
    snapshot = softly_ruled_cluster(seed)
    policy = replace(OPTIMIZE, budget=budget)

    decision = policy.decide(snapshot, None)
    again = policy.decide(applied(snapshot, decision), None)

    assert decision.reason is DecisionReason.REPAIRS_SOFT_RULES
    assert again.plan.steps == ()
