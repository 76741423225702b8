"""Explanations of steps name only the guests that migrate."""

from __future__ import annotations

from dataclasses import replace

import pytest

from opendrs.model import (
    Affinity,
    GuestId,
    Mobility,
    NodeAffinity,
    NodeId,
    NodeState,
    Pressure,
    Resources,
    Stall,
)
from opendrs.policies import Drain
from opendrs.policies.optimize import Optimize
from support.builders import cluster, guest_ids
from support.oracles.interleavings import migration_of

TOGETHER = (Affinity(guests=guest_ids("x", "y")),)


def test_explanation_names_only_migrating_guests() -> None:
    # 1 core and 10 GiB of x go to y, which stays.
    snapshot = cluster(
        nodes={"a": 0.3, "b": 0.3},
        guests={"x": ("a", 0.1), "y": ("b", 0.2), "z": ("a", 0.2)},
        rules=TOGETHER,
    )
    fixed = replace(snapshot.guests[GuestId("y")], mobility=Mobility.NONE)
    snapshot = replace(snapshot, guests={**snapshot.guests, fixed.id: fixed})

    (step,) = Optimize(budget="1 migrations").decide(snapshot, None).plan.steps

    assert step.detail == (
        "moves 1.00 cores and 10.00 GiB from a (30% → 20% cpu, 30% → 20% memory) to "
        "b (30% → 40% cpu, 30% → 40% memory), counting only this step; repairs a "
        "violated rule: affinity of x, y (before the plan: x on a, y on b)"
    )


@pytest.mark.usefixtures("without_exhaustive_search")
def test_explanation_names_all_guests_of_a_group() -> None:
    snapshot = cluster(
        nodes={"a": 0.5, "b": 0.4, "c": 0.0},
        guests={"x": ("a", 0.1), "y": ("b", 0.1), "z": ("a", 0.4), "w": ("b", 0.3)},
        rules=TOGETHER,
    )

    plan = Optimize(budget="unlimited").decide(snapshot, None).plan

    details = {migration_of(step).guest: step.detail for step in plan.steps}
    assert {name for name in details if name in ("x", "y")} == {"x", "y"}
    assert details[GuestId("x")] == details[GuestId("y")]
    assert details[GuestId("x")].startswith(
        "x and y migrate together and move 2.00 cores and 20.00 GiB from a (50% → "
        "40% cpu, 50% → 40% memory) and b (40% → 30% cpu, 40% → 30% memory) to c "
        "(0% → 20% cpu, 0% → 20% memory), counting only this step; x and y must be"
    )


def test_explanation_states_contention() -> None:
    snapshot = cluster(nodes={"a": 0.6, "b": 0.1}, guests={"x": ("a", 0.2)})
    waits = replace(
        snapshot.guests[GuestId("x")],
        limit=Resources(4, 1),
        pressure=Pressure(cpu=Stall(0.5)),
    )

    (step,) = (
        Optimize()
        .decide(replace(snapshot, guests={GuestId("x"): waits}), None)
        .plan.steps
    )

    assert all(number in step.detail for number in ("2.50", "20.00", "65%", "50%"))


def test_explanation_of_a_target_that_is_not_preferred_names_it_once() -> None:
    # The soft rule prefers b, but the drain places x on the empty node c.
    near = NodeAffinity(
        guests=guest_ids("x"),
        nodes={NodeId("a"): 1, NodeId("b"): 2, NodeId("c"): 1},
        strict=False,
    )
    snapshot = cluster(
        nodes={"a": 0.2, "b": 0.5, "c": 0.0, "d": 0.1},
        guests={"x": ("a", 0.2), "y": ("b", 0.5)},
        rules=[near],
    )
    drained = replace(snapshot.nodes[NodeId("a")], state=NodeState.MAINTENANCE)
    snapshot = replace(snapshot, nodes={**snapshot.nodes, drained.id: drained})

    (step,) = Drain().decide(snapshot, None).plan.steps

    assert migration_of(step).target == "c"
    assert "infeasible" not in step.detail
