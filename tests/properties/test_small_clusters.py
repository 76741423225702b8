"""`optimize` and `repair` on tiny clusters, beside all plans there are.

Every placement that safe migrations reach is found by trying all of them. OPENDRS_TINY
is the number of clusters that the slow test draws.
"""

from __future__ import annotations

import math
import os
from dataclasses import replace
from random import Random

import pytest

from opendrs.model import (
    GIB,
    Affinity,
    AntiAffinity,
    DomainAffinity,
    Limits,
    Mobility,
    MutualAntiAffinity,
    NodeAffinity,
    Pin,
    Resources,
    Rule,
    Snapshot,
    Usage,
)
from opendrs.policies import Decision
from opendrs.policies.optimize import Optimize, Repair
from opendrs.rules import ViolationCount, with_chosen
from support.builders import cluster, guest, node
from support.oracles.interleavings import unsafe_states
from support.oracles.reachable_placements import Reached, reached_placements

LIMITS = Limits(
    memory_headroom=0.0,
    memory_overcommit=9.0,
    cooldown=0,
    max_migrations_per_node=9,
    max_parallel_migrations=9,
)
SIZES = ((2, 7), (3, 4), (3, 5), (4, 4))
MARGIN = 0.01  # least part of the imbalance by which a plan may be worse
# Budgets, with the most GiB and migrations that they allow.
BUDGETS = (
    ("unlimited", math.inf, math.inf),
    ("60 GiB", 60.0, math.inf),
    ("2 migrations", math.inf, 2),
)


def tiny_cluster(seed: int) -> Snapshot:
    """Return a drawn cluster of two to four nodes with rules of all kinds."""
    random = Random(seed)  # noqa: S311 - drawn, not a secret
    node_count, guest_count = random.choice(SIZES)
    names = "abcd"[:node_count]
    ids = [f"g{number}" for number in range(guest_count)]
    equal = random.random() < 0.5
    sizes = {name: 128 if equal else random.choice((64, 128, 192)) for name in names}
    fill = random.uniform(0.4, 0.95) * sum(sizes.values())
    shares = [random.uniform(0.2, 1.0) for _ in ids]
    memory = [max(1, int(fill * each / sum(shares))) for each in shares]
    free = dict(sizes)
    guests = []
    for name, size in zip(ids, memory, strict=True):
        roomy = [each for each in names if free[each] >= size]
        where = random.choice(roomy) if roomy else max(free, key=free.__getitem__)
        needed = min(size, free[where])
        free[where] -= needed
        guests.append(
            guest(
                name,
                where,
                0,
                usage=Usage(random.randint(1, 30) / 10, needed * GIB),
                limit=Resources(4, needed * GIB),
                mobility=Mobility.NONE if random.random() < 0.08 else Mobility.LIVE,
            )
        )
    nodes = {}
    for name in names:
        there = [each for each in guests if each.node == name]
        used = Usage(
            sum(each.usage.cpu or 0.0 for each in there),
            sum(each.usage.memory or 0 for each in there),
        )
        capacity = Resources(64, sizes[name] * GIB)
        nodes[name] = node(name, 0, capacity=capacity, usage=used)
    drawn = [_rule(random, ids, names) for _ in range(random.randint(0, 3))]
    return replace(
        cluster({}, {}, drawn),
        nodes={each.id: each for each in nodes.values()},
        guests={each.id: each for each in guests},
    )


def _rule(random: Random, ids: list[str], names: str) -> Rule:
    chosen = frozenset(random.sample(ids, random.choice((2, 2, 3))))
    kind = random.choice(("affinity", "anti-affinity", "node", "pin"))
    if kind == "affinity":
        return Affinity(guests=chosen)  # type: ignore[arg-type]
    if kind == "anti-affinity":
        return AntiAffinity(guests=chosen)  # type: ignore[arg-type]
    one = frozenset(sorted(chosen)[:1])
    if kind == "pin":
        return Pin(guests=one)  # type: ignore[arg-type]
    allowed = random.sample(names, random.randint(1, len(names) - 1))
    return NodeAffinity(guests=one, nodes=dict.fromkeys(sorted(allowed), 0))  # type: ignore[arg-type]


def deviation(snapshot: Snapshot) -> float:
    """Return the quadratic mean of the deviations from the balanced load."""
    squares = []
    for kind in ("cpu", "memory"):
        ratios = []
        used = {
            name: getattr(each.usage, kind) for name, each in snapshot.nodes.items()
        }
        size = {
            name: getattr(each.capacity, kind) for name, each in snapshot.nodes.items()
        }
        mean = sum(used.values()) / sum(size.values())
        ratios = [used[name] / size[name] / mean - 1 for name in used]
        squares += [each * each for each in ratios]
    return math.sqrt(sum(squares) / len(squares))


def optimize(budget: str) -> Optimize:
    return Optimize(
        budget=budget,
        threshold=0.0,
        min_improvement=0.0,
        migration_cost_weight=0.0,
        contention_threshold=1.0,
        limits=LIMITS,
    )


def applied(snapshot: Snapshot, decision: Decision[None]) -> Snapshot:
    return snapshot.apply(*(step.action for step in decision.plan.steps))


Value = tuple[int, int, float]  # violated rules, violations, deviation


def value_of(reached: Reached) -> Value:
    violated = reached.violated
    return violated.rules, violated.violations, deviation(reached.snapshot)


def require_best(snapshot: Snapshot, limits: Limits = LIMITS) -> None:
    """Require that plans for *snapshot* are best, safe, and have true bounds.

    `repair` has to leave as few violated rules as is possible.
    """
    reached = reached_placements(snapshot, limits).values()
    values = [(each.gib, each.migrations, value_of(each)) for each in reached]
    for budget, gib, migrations in BUDGETS:
        within = [x for x in values if x[0] <= gib and x[1] <= migrations]
        best = min(value for _, _, value in within)
        _require_best_within(budget, best, snapshot, limits)
    _require_fewest_repairs(min(value for _, _, value in values), snapshot, limits)


def _require_best_within(
    budget: str, best: Value, snapshot: Snapshot, limits: Limits
) -> None:
    rules, pairs, least = best
    decision = replace(optimize(budget), limits=limits).decide(snapshot, None)
    after = applied(snapshot, decision)

    assert not unsafe_states(snapshot, decision.plan, limits)
    assert Reached(after, 0.0, 0).violated == ViolationCount(rules, pairs), budget
    assert deviation(after) <= least * (1 + MARGIN) + 1e-9, budget
    for note in decision.notes:
        if note.startswith("distance from the optimum:") and "at least " in note:
            bound = float(note.partition("at least ")[2].split()[0])
            assert bound <= deviation(after) + 1e-4, note


def _require_fewest_repairs(best: Value, snapshot: Snapshot, limits: Limits) -> None:
    rules, pairs, _ = best
    decision = Repair(limits=limits).decide(snapshot, None)
    after = applied(snapshot, decision)

    assert not unsafe_states(snapshot, decision.plan, limits)
    assert Reached(after, 0.0, 0).violated == ViolationCount(rules, pairs)


# Beside the first ones: steps that passed each other on a node in spite of a rule that
# contradicts another one.
@pytest.mark.parametrize("seed", [*range(40), 1562, 2070, 2098, 2976])
def test_plans_of_tiny_clusters_are_best(seed: int) -> None:
    require_best(tiny_cluster(seed))


def zoned_cluster(seed: int) -> Snapshot:
    """Return a drawn cluster with nodes in two zones, and guests that belong in one."""
    random = Random(seed)  # noqa: S311 - drawn, not a secret
    snapshot = tiny_cluster(seed)
    nodes = {
        name: replace(each, labels=frozenset({f"zone={random.choice('12')}"}))
        for name, each in snapshot.nodes.items()
    }
    chosen = frozenset(random.sample(sorted(snapshot.guests), random.choice((2, 3))))
    rules = (*snapshot.rules, DomainAffinity(domain="zone", guests=chosen))
    return with_chosen(replace(snapshot, nodes=nodes, rules=rules))


@pytest.mark.parametrize("seed", range(16))
def test_plans_of_tiny_clusters_with_zones_are_best(seed: int) -> None:
    """They are the best with any zone, although each search has a chosen one."""
    require_best(zoned_cluster(seed))


def sided_cluster(seed: int) -> Snapshot:
    """Return a drawn cluster with two groups of guests apart, among other rules."""
    random = Random(seed)  # noqa: S311 - drawn, not a secret
    snapshot = tiny_cluster(seed)
    drawn = random.sample(sorted(snapshot.guests), 4)
    size = random.choice((1, 2))
    rule = MutualAntiAffinity(
        guests=frozenset(drawn[:size]), other_guests=frozenset(drawn[size:])
    )
    return replace(snapshot, rules=(*snapshot.rules, rule))


@pytest.mark.parametrize("seed", range(16))
def test_plans_of_tiny_clusters_with_two_groups_apart_are_best(seed: int) -> None:
    require_best(sided_cluster(seed))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_plans_of_many_tiny_clusters_are_best(part: int) -> None:
    count = int(os.environ.get("OPENDRS_TINY", "200")) // 20
    for seed in range(1000 + part * count, 1000 + (part + 1) * count):
        require_best(tiny_cluster(seed))
