"""Of guests with the same load on one node, the cheapest one to move moves."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from opendrs.model import (
    GIB,
    AntiAffinity,
    Guest,
    GuestKind,
    GuestPriority,
    Limits,
    Mobility,
    NodeState,
    Resources,
    Snapshot,
    Usage,
)
from opendrs.policies import Balance, Drain, Policy
from opendrs.policies.load_metrics import SelectionMethod
from opendrs.policies.optimize import Optimize, Repair
from support.builders import cluster, guest, guest_ids, node
from support.oracles.migration_cost import cheaper_images

LIMITS = Limits(memory_overcommit=9.0, cooldown=0)
BALANCING: tuple[Policy[Any], ...] = (
    Balance(limits=LIMITS, threshold=0.02, allow_cold_migration=True),
    Balance(
        limits=LIMITS,
        threshold=0.02,
        allow_cold_migration=True,
        method=SelectionMethod.TOPSIS,
    ),
    Optimize(limits=LIMITS, allow_cold_migration=True),
)


def drawn_guest(random: Random, name: str, where: str) -> Guest:
    """Return a guest of one of two sizes, with a cost of moving of its own."""
    size = random.choice((5, 10))
    cold = random.random() < 0.2
    return guest(
        name,
        where,
        0,
        kind=GuestKind.CONTAINER if cold else GuestKind.VM,
        mobility=Mobility.COLD if cold else Mobility.LIVE,
        usage=Usage(size / 5, size * GIB),
        limit=Resources(4, size * GIB),
        dirty_rate=random.choice((1e5, 1e6, 3e7, 8e7, 2e8)),
        tags=frozenset({random.choice(("low", "normal", "high"))}),
    )


def drawn_cluster(seed: int, nodes: int, guests: int) -> Snapshot:
    """Return a cluster whose guests are on the first half of the nodes."""
    random = Random(seed)  # noqa: S311 - drawn, not a secret
    names = [f"n{index}" for index in range(nodes)]
    drawn = [
        drawn_guest(random, f"g{index:03}", random.choice(names[: (nodes + 1) // 2]))
        for index in range(guests)
    ]
    values = {"low": 0.5, "high": 2.0}
    rules = [
        GuestPriority(value=value, tags=frozenset({tag}))
        for tag, value in values.items()
    ]
    capacity = Resources(100, 1000 * GIB)
    return replace(
        cluster({}, {}, rules),
        nodes={
            each.id: each
            for name in names
            for used in [[guest for guest in drawn if guest.node == name]]
            for each in [
                node(
                    name,
                    0,
                    capacity=capacity,
                    usage=Usage(
                        sum(one.usage.cpu or 0.0 for one in used),
                        sum(one.usage.memory or 0 for one in used),
                    ),
                )
            ]
        },
        guests={each.id: each for each in drawn},
    )


@pytest.mark.parametrize("policy", BALANCING, ids=("balance", "topsis", "optimize"))
@pytest.mark.parametrize(
    ("seed", "nodes", "guests"), [(1, 2, 7), (2, 3, 6), (3, 6, 60)]
)
def test_balance_moves_the_cheapest_of_mirror_images(
    policy: Policy[Any], seed: int, nodes: int, guests: int
) -> None:
    snapshot = drawn_cluster(seed, nodes, guests)

    plan = policy.decide(snapshot, policy.initial_memory()).plan

    assert plan.steps
    assert cheaper_images(snapshot, plan) == []


@pytest.mark.parametrize("expensive", ["a", "b"])
@pytest.mark.parametrize("others", [0, 40])
def test_repair_moves_the_cheaper_of_two_guests(expensive: str, others: int) -> None:
    # With 40 others, not all placements can be tried.
    apart = AntiAffinity(guests=guest_ids("a", "b"))
    rule = GuestPriority(value=2.0, guests=guest_ids(expensive))
    more = {f"z{index}": ("n2", 0.01) for index in range(others)}
    snapshot = cluster(
        {"n1": 0.2, "n2": 0.4, "n3": 0.2},
        {"a": ("n1", 0.1), "b": ("n1", 0.1), **more},
        [apart, rule],
    )

    plan = Repair().decide(snapshot, None).plan

    moved = [getattr(step.action, "guest", "") for step in plan.steps]
    assert moved == ["b" if expensive == "a" else "a"]


@pytest.mark.parametrize("expensive", ["a", "b"])
def test_drain_without_space_for_all_moves_the_cheaper_guest(expensive: str) -> None:
    # n2 has 95 - 60 = 35 GiB for guests of 20 GiB each.
    snapshot = cluster({"n1": 0.4, "n2": 0.6}, {"a": ("n1", 0.2), "b": ("n1", 0.2)})
    nodes = {
        name: replace(each, state=NodeState.MAINTENANCE) if name == "n1" else each
        for name, each in snapshot.nodes.items()
    }
    guests = {
        name: replace(each, dirty_rate=8e7 if name == expensive else 1e6)
        for name, each in snapshot.guests.items()
    }
    drained = replace(snapshot, nodes=nodes, guests=guests)

    plan = Drain().decide(drained, None).plan

    moved = [getattr(step.action, "guest", "") for step in plan.steps]
    assert moved == ["b" if expensive == "a" else "a"]
