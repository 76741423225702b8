"""Proposed plans beside newer decisions with other steps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from opendrs.controller.consent import RecordedDecision
from opendrs.controller.plan_records import plan_record
from opendrs.controller.proposal_validity import is_still_valid
from opendrs.model import (
    AntiAffinity,
    FurtherLoad,
    GuestId,
    NodeId,
    NodeState,
    Plan,
    Snapshot,
)
from opendrs.policies import Balance, Decision, DecisionReason, Drain, Policy
from opendrs.policies.optimize import Optimize
from opendrs.ports import PlanRecord
from support.builders import NOON, cluster
from support.simulated_cluster import SHORT_LIMITS, migration, step

BALANCE = Balance(limits=SHORT_LIMITS)
LOADS = {"g1": 0.2, "g2": 0.21, "g3": 0.19, "g4": 0.2}


def loaded(**changes: float) -> Snapshot:
    """Return the cluster with all guests on node a, with changed loads."""
    loads = {**LOADS, **changes}
    nodes = {"a": min(0.95, sum(loads.values())), "b": 0.0}
    return cluster(nodes, {name: ("a", load) for name, load in loads.items()})


def decision(
    snapshot: Snapshot,
    *guests: str,
    reason: DecisionReason = DecisionReason.IMPROVES_BALANCE,
    policy: Policy[Any] = BALANCE,
) -> RecordedDecision:
    """Return the decision to migrate *guests* from node a to node b."""
    steps = [
        step(f"s{number}", migration(guest, "a", "b"))
        for number, guest in enumerate(guests, start=1)
    ]
    return RecordedDecision(
        run="run",
        recovered=(),
        snapshot=snapshot,
        policy=policy,
        decision=Decision(reason, None, Plan(tuple(steps))),
    )


def proposed(decided: RecordedDecision) -> PlanRecord:
    return plan_record(decided, decided.decision.plan.steps, NOON, 3600.0)


def is_valid(plan: PlanRecord, decided: RecordedDecision) -> bool:
    return is_still_valid(plan, decided, decided.decision.plan.steps)


def test_plan_that_improves_the_balance_stays_beside_similar_steps() -> None:
    plan = proposed(decision(loaded(), "g1", "g2"))

    assert is_valid(plan, decision(loaded(g4=0.22), "g4", "g3"))


def test_plan_with_less_than_half_of_the_gain_is_not_valid() -> None:
    # g3 alone: loads 0.61 and 0.19, CV 0.525; g1 and g2: 0.39 and 0.41, CV 0.025. The
    # imbalance was 1 before, so the gains are 0.475 and 0.975.
    plan = proposed(decision(loaded(), "g3"))

    assert not is_valid(plan, decision(loaded(), "g1", "g2"))


@pytest.mark.parametrize("kind", [Balance, Optimize])
def test_plan_that_balances_a_further_load_stays(
    kind: type[Balance | Optimize],
) -> None:
    # Of the traffic, 600 of 1,000 are on node a and none on b; CPU and memory are even.
    plain = cluster(
        {"a": 0.4, "b": 0.4}, {"g1": ("a", 0.2), "g2": ("a", 0.2), "g3": ("b", 0.4)}
    )
    snapshot = replace(
        plain,
        nodes={
            name: replace(
                each,
                loads={"network": 600.0 if name == "a" else 0.0},
                load_capacities={"network": 1000.0},
            )
            for name, each in plain.nodes.items()
        },
        guests={
            name: replace(each, loads={"network": 0.0 if name == "g3" else 300.0})
            for name, each in plain.guests.items()
        },
    )
    network = FurtherLoad(name="network", weight=10.0)
    policy = kind(limits=replace(SHORT_LIMITS, loads=(network,)))
    plan = proposed(decision(snapshot, "g1", policy=policy))

    assert is_valid(plan, decision(snapshot, "g2", policy=policy))
    unweighted = kind(limits=SHORT_LIMITS)
    assert not is_valid(plan, decision(snapshot, "g2", policy=unweighted))


def test_plan_that_makes_the_balance_worse_is_not_valid() -> None:
    plan = proposed(decision(loaded(), "g1", "g2"))
    moved = loaded()
    b = replace(moved.nodes[NodeId("b")], usage=moved.nodes[NodeId("a")].usage)
    equal = replace(moved, nodes={**moved.nodes, b.id: b})

    assert not is_valid(plan, decision(equal, "g4"))


@pytest.mark.parametrize(
    "newer",
    [
        decision(loaded()),
        decision(loaded(), "g1", reason=DecisionReason.REPAIRS_RULES),
        decision(loaded(), "g1", policy=Drain(limits=SHORT_LIMITS)),
    ],
    ids=["no steps", "another reason", "another policy"],
)
def test_plan_for_another_situation_is_not_valid(newer: RecordedDecision) -> None:
    plan = proposed(decision(loaded(), "g1", "g2"))

    assert not is_valid(plan, newer)


def test_plan_with_a_step_that_the_guard_rejects_is_not_valid() -> None:
    plan = proposed(decision(loaded(), "g1", "g2"))
    apart = AntiAffinity(guests=frozenset({GuestId("g1"), GuestId("g4")}))
    ruled = replace(loaded().apply(migration("g4", "a", "b")), rules=(apart,))
    offline = loaded()
    node = replace(offline.nodes[NodeId("b")], state=NodeState.OFFLINE)
    offline = replace(offline, nodes={**offline.nodes, node.id: node})

    for snapshot in (ruled, offline):
        assert not is_valid(plan, decision(snapshot, "g3"))


def test_plan_of_a_guest_that_is_gone_is_not_valid() -> None:
    plan = proposed(decision(loaded(), "g1", "g2"))
    left = loaded()
    guests = {name: each for name, each in left.guests.items() if name != "g1"}

    assert not is_valid(plan, decision(replace(left, guests=guests), "g3"))


@pytest.mark.parametrize(("newer", "valid"), [(("g2", "g1"), True), (("g1",), False)])
def test_drain_stays_open_only_beside_steps_of_the_same_guests(
    newer: tuple[str, ...], *, valid: bool
) -> None:
    drain = Drain(limits=SHORT_LIMITS)
    reason = DecisionReason.DRAINS_NODES
    plan = proposed(decision(loaded(), "g1", "g2", reason=reason, policy=drain))

    decided = decision(loaded(), *newer, reason=reason, policy=drain)

    assert is_valid(plan, decided) is valid


def test_plan_with_a_guest_that_starts_without_approval_is_not_valid() -> None:
    plan = proposed(decision(loaded(), "g1", "g2"))
    decided = decision(loaded(), "g1", "g3", "g4")
    _, *waiting = decided.decision.plan.steps

    assert not is_still_valid(plan, decided, waiting)
