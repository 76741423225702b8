"""Larger budgets and more effort of `optimize` beside smaller ones.

The clusters are too large for a comparison of all plans. The plans are compared by the
violations that remain and by the deviation, computed from the snapshot after the plan.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from opendrs.model import (
    GIB,
    Affinity,
    AntiAffinity,
    GuestId,
    Mobility,
    NodeAffinity,
    NodeId,
    Resources,
    Rule,
    Snapshot,
    Usage,
)
from opendrs.policies.optimize import Optimize, Repair
from opendrs.rules import count_strict, violations
from properties.test_small_clusters import LIMITS, applied, deviation, optimize
from support.builders import cluster, guest, node
from support.oracles.interleavings import unsafe_states

BUDGETS = ("1 migration", "2 migrations", "4 migrations", "8 migrations", "unlimited")
EFFORTS = (1000, 20_000, 50_000)
# Numbers of guests, and seeds; above 133 guests, a search is another one.
LARGER_CLUSTERS = ((140, 0), (140, 6), (165, 3), (165, 163))
MARGIN = 0.002  # by which the deviation of a plan may be above that of an earlier one


def drawn_cluster(seed: int, guest_count: int | None = None) -> Snapshot:
    """Return a cluster with rules of all kinds.

    It has three to six nodes and 10 to 40 guests. With a number of guests it has 30
    nodes, and is fuller.
    """
    random = Random(seed)  # noqa: S311 - drawn, not a secret
    names = list("abcdef"[: random.randint(3, 6)])
    count = random.randint(10, 40)
    fill = random.uniform(0.4, 0.85)
    if guest_count is not None:
        names, count = [f"n{each:02}" for each in range(30)], guest_count
        fill += 0.1
    shares = [min(12.0, random.paretovariate(1.5)) for _ in range(count)]
    free = dict.fromkeys(names, 128 * GIB)
    weight = {name: random.uniform(0.2, 1.8) for name in names}
    guests = []
    for number, share in enumerate(shares):
        memory = int(fill * len(names) * 1024 * share / sum(shares)) * GIB // 8
        roomy = [name for name in names if free[name] >= memory]
        if not roomy:
            continue
        there = random.choices(roomy, [weight[name] for name in roomy])[0]
        free[there] -= memory
        guests.append(
            guest(
                f"g{number:02}",
                there,
                0,
                usage=Usage(random.randint(1, 40) / 10, memory),
                limit=Resources(4, memory),
                mobility=Mobility.NONE if random.random() < 0.03 else Mobility.LIVE,
            )
        )
    nodes = {}
    for name in names:
        here = [each for each in guests if each.node == name]
        used = Usage(
            sum(each.usage.cpu or 0.0 for each in here),
            sum(each.usage.memory or 0 for each in here),
        )
        size = Resources(64, 128 * GIB)
        nodes[NodeId(name)] = node(name, 0, capacity=size, usage=used)
    ids = [each.id for each in guests]
    rules = [_rule(random, ids, names) for _ in range(random.randint(0, count // 3))]
    return replace(
        cluster({}, {}, rules), nodes=nodes, guests={each.id: each for each in guests}
    )


def _rule(random: Random, ids: list[GuestId], names: list[str]) -> Rule:
    chosen = frozenset(random.sample(ids, random.choice((2, 2, 3))))
    kind = random.choice(("affinity", "anti-affinity", "node"))
    if kind == "affinity":
        return Affinity(guests=chosen)
    if kind == "anti-affinity":
        return AntiAffinity(guests=chosen)
    allowed = sorted(NodeId(each) for each in random.sample(names, len(names) // 2))
    return NodeAffinity(guests=chosen, nodes=dict.fromkeys(allowed, 0))


def value(snapshot: Snapshot, policy: Optimize | Repair) -> tuple[int, float]:
    """Return the violations and the deviation after the plan, which is safe."""
    decision = policy.decide(snapshot, None)
    after = applied(snapshot, decision)
    assert not unsafe_states(snapshot, decision.plan, LIMITS)
    return count_strict(violations(after)).violations, deviation(after)


def assert_never_worse(values: list[tuple[int, float]]) -> None:
    for smaller, larger in pairwise(values):
        assert larger[0] <= smaller[0]
        if larger[0] == smaller[0]:
            assert larger[1] <= smaller[1] + MARGIN


@pytest.mark.parametrize("seed", range(6))
def test_a_larger_budget_gives_no_worse_plan(seed: int) -> None:
    snapshot = drawn_cluster(seed)

    values = [value(snapshot, optimize(each)) for each in BUDGETS]

    assert_never_worse(values)


@pytest.mark.parametrize(("guests", "seed"), LARGER_CLUSTERS)
def test_a_larger_budget_repairs_no_less_where_migrations_are_dropped(
    guests: int, seed: int
) -> None:
    snapshot = drawn_cluster(seed, guests)

    limited, unlimited = (
        value(snapshot, optimize(each))[0] for each in ("64 migrations", "unlimited")
    )

    assert unlimited <= limited


@pytest.mark.parametrize("seed", range(6))
def test_more_effort_gives_no_worse_plan(seed: int) -> None:
    snapshot = drawn_cluster(seed)
    policy = optimize("unlimited")

    values = [
        value(snapshot, replace(policy, iterations_per_group=each)) for each in EFFORTS
    ]

    assert_never_worse(values)
