"""`optimize` on clusters of few nodes that few large guests fill, beside all orders.

They have too many placements for the search of all of them, and most good ones are not
reached by safe migrations. All sequences of up to three migrations are tried here.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from opendrs.model import GIB, NodeId, Resources, Snapshot, Usage
from properties.test_budgets_and_effort import assert_never_worse, value
from properties.test_small_clusters import LIMITS, applied, deviation, optimize
from support.builders import cluster, guest, node
from support.oracles.interleavings import unsafe_states

SIZES = ((3, 11), (4, 9), (3, 12), (4, 10))
CAPACITY = 64  # GiB of each node
MIGRATIONS = 3
MARGIN = 0.01  # least part of the deviation by which a plan may be worse

State = tuple[int, ...]  # node of each guest


def full_cluster(seed: int) -> Snapshot:
    """Return three or four equal nodes that are 80 to 88 % full, without rules."""
    random = Random(seed)  # noqa: S311 - drawn, not a secret
    node_count, guest_count = SIZES[seed % len(SIZES)]
    names = "abcd"[:node_count]
    while True:
        shares = [random.uniform(0.2, 1.0) for _ in range(guest_count)]
        total = random.uniform(0.8, 0.88) * CAPACITY * node_count
        sizes = [max(1, int(total * each / sum(shares))) for each in shares]
        where = [random.choice(names) for _ in sizes]
        used = dict.fromkeys(names, 0)
        for name, size in zip(where, sizes, strict=True):
            used[name] += size
        if max(used.values()) <= CAPACITY:
            break
    guests = [
        guest(
            f"g{number:02}",
            name,
            0,
            usage=Usage(random.randint(2, 25) / 10, size * GIB),
            limit=Resources(4, size * GIB),
        )
        for number, (name, size) in enumerate(zip(where, sizes, strict=True))
    ]
    nodes = {
        NodeId(name): node(
            name,
            0,
            capacity=Resources(16, CAPACITY * GIB),
            usage=Usage(
                sum(each.usage.cpu or 0.0 for each in guests if each.node == name),
                sum(each.usage.memory or 0 for each in guests if each.node == name),
            ),
        )
        for name in names
    }
    drawn = replace(cluster({}, {}, []), nodes=nodes)
    return replace(drawn, guests={each.id: each for each in guests})


def best_deviation(snapshot: Snapshot) -> float:
    """Return the least deviation that up to three safe migrations reach."""
    guests = [snapshot.guests[name] for name in sorted(snapshot.guests)]
    names = sorted(snapshot.nodes)
    amounts = [
        (each.usage.cpu or 0.0, float(each.usage.memory or 0)) for each in guests
    ]
    sizes = (16.0, float(CAPACITY * GIB))
    means = [sum(each[r] for each in amounts) / len(names) for r in range(2)]

    def loads(state: State) -> list[list[float]]:
        found = [[0.0, 0.0] for _ in names]
        for where, amount in zip(state, amounts, strict=True):
            found[where][0] += amount[0]
            found[where][1] += amount[1]
        return found

    def measured(used: list[list[float]]) -> float:
        squares = [(each[r] / means[r] - 1) ** 2 for each in used for r in range(2)]
        return float((sum(squares) / len(squares)) ** 0.5)

    layer: set[State] = {tuple(names.index(each.node) for each in guests)}
    best = measured(loads(next(iter(layer))))
    seen = set(layer)
    for _ in range(MIGRATIONS):
        reached: set[State] = set()
        for state in layer:
            used = loads(state)
            for index, (_, memory) in enumerate(amounts):
                for target in range(len(names)):
                    if target == state[index] or used[target][1] + memory > sizes[1]:
                        continue
                    after = (*state[:index], target, *state[index + 1 :])
                    if after not in seen:
                        reached.add(after)
        seen |= reached
        best = min([best, *(measured(loads(each)) for each in reached)])
        layer = reached
    return best


@pytest.mark.parametrize("seed", range(12))
def test_few_migrations_in_a_full_cluster_give_the_best_plan(seed: int) -> None:
    snapshot = full_cluster(seed)
    policy = optimize(f"{MIGRATIONS} migrations")

    decision = policy.decide(snapshot, None)

    assert not unsafe_states(snapshot, decision.plan, LIMITS)
    reached = deviation(applied(snapshot, decision))
    assert reached <= best_deviation(snapshot) * (1 + MARGIN) + 1e-9


@pytest.mark.parametrize("seed", range(12))
def test_a_larger_budget_gives_no_worse_plan_in_a_full_cluster(seed: int) -> None:
    snapshot = full_cluster(seed)
    budgets = ("1 migration", "3 migrations", "6 migrations", "unlimited")

    assert_never_worse([value(snapshot, optimize(each)) for each in budgets])
    assert_never_worse([value(snapshot, optimize(x)) for x in ("knee", "unlimited")])
