"""What every policy promises, whatever the cluster."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from opendrs.guard import objection
from opendrs.model import DEFAULT_LIMITS, EMPTY_PLAN, Limits, Snapshot
from opendrs.policies import (
    BUILT_IN,
    AutoRebalance,
    Balance,
    Consolidate,
    Decision,
    Optimize,
    Policy,
    PressureRelief,
    Reason,
    ThresholdRebalance,
)
from opendrs.policies.measures import Method
from opendrs.policies.optimising.worth import Goal
from opendrs.policies.threshold_rebalance import Form
from opendrs.rules import newly_broken
from opendrs.scoring import ImbalanceForm, UsageMode
from oracles.passage import faults, move, units
from piles import piles
from strategies import snapshots

FORMS = st.sampled_from(ImbalanceForm)
METHODS = st.sampled_from(Method)
MODES = st.sampled_from(UsageMode)
# Margins of 0 are for those who want to see guests go to and fro.
MARGINS = st.sampled_from([0.01, 0.01, 0.1, 0.5])
THRESHOLDS = st.sampled_from([0.0, 0.05, 0.1, 0.3])
LIMITS = st.sampled_from([DEFAULT_LIMITS, Limits(memory_overbooking=4.0)])
AUTO = st.builds(
    AutoRebalance,
    hold=st.integers(0, 3),
    method=METHODS,
    form=FORMS,
    mode=MODES,
    margin=MARGINS,
    threshold=THRESHOLDS,
    limits=LIMITS,
)
BALANCE = st.builds(
    Balance,
    method=METHODS,
    form=FORMS,
    mode=MODES,
    margin=MARGINS,
    threshold=THRESHOLDS,
    relocate=st.booleans(),
    moves=st.integers(0, 8),
    limits=LIMITS,
)
THRESHOLD = st.builds(
    ThresholdRebalance,
    form=st.sampled_from(Form),
    mode=MODES,
    threshold=THRESHOLDS,
    batch=st.integers(0, 8),
    limits=LIMITS,
)
PRESSURE = st.builds(
    PressureRelief,
    interval=st.just(0.0),
    quiet=st.just(0.0),
    uptime=st.just(0.0),
    cpu_pressure=st.sampled_from([0.3, 0.75]),
    memory=st.sampled_from([0.2, 0.5, 0.85]),
    limits=LIMITS,
)
OPTIMIZE = st.builds(
    Optimize,
    budget=st.sampled_from(["knee", "unlimited", "3 moves", "10 GiB", "0 GiB"]),
    priorities=st.sampled_from(
        [
            (Goal.REPAIR, Goal.CONTENTION, Goal.EVENNESS),
            (Goal.REPAIR, Goal.EVENNESS),
            (Goal.EVENNESS,),
            (Goal.REPAIR, Goal.PACKING),
        ]
    ),
    mode=MODES,
    margin=MARGINS,
    threshold=THRESHOLDS,
    relocate=st.booleans(),
    spare=st.sampled_from([0, 0, 1]),
    effort=st.just(10),
    limits=LIMITS,
)
EVENING: st.SearchStrategy[Policy[Any]] = AUTO | BALANCE
POLICIES: st.SearchStrategy[Policy[Any]] = (
    AUTO | BALANCE | THRESHOLD | PRESSURE | OPTIMIZE
)
CLUSTERS = snapshots() | snapshots(settled=True) | piles() | piles()
IMPROVING = {
    Reason.IMPROVES_BALANCE,
    Reason.RELIEVES_PRESSURE,
    Reason.RELIEVES_OVERLOAD,
    Reason.MENDS_RULES,
    Reason.FREES_NODES,
}


def decided(policy: Policy[Any], snapshot: Snapshot) -> Decision[Any]:
    """Return what *policy* decides when the imbalance has lasted for long."""
    lasting = isinstance(policy, AutoRebalance)
    return policy.decide(snapshot, 9 if lasting else policy.initial_memory())


def done(snapshot: Snapshot, decision: Decision[Any]) -> Snapshot:
    for step in decision.plan.steps:
        snapshot = snapshot.after(step.action)
    return snapshot


@given(POLICIES, CLUSTERS)
def test_the_same_input_gives_the_same_decision(
    policy: Policy[Any], snapshot: Snapshot
) -> None:
    assert decided(policy, snapshot) == decided(policy, snapshot)


@given(POLICIES, CLUSTERS, st.randoms(use_true_random=False))
def test_the_order_of_nodes_and_guests_does_not_matter(
    policy: Policy[Any], snapshot: Snapshot, random: Random
) -> None:
    guests, nodes = list(snapshot.guests.items()), list(snapshot.nodes.items())
    random.shuffle(guests)
    random.shuffle(nodes)

    shuffled = replace(snapshot, guests=dict(guests), nodes=dict(nodes))

    assert decided(policy, shuffled) == decided(policy, snapshot)


@given(POLICIES, CLUSTERS)
def test_no_strict_rule_is_broken_nor_memory_overfilled_on_the_way(
    policy: Policy[Any], snapshot: Snapshot
) -> None:
    decision = decided(policy, snapshot)

    event(f"{len(decision.plan.steps)} steps")
    assert newly_broken(snapshot, done(snapshot, decision)) == ()
    assert faults(snapshot, decision.plan, policy.limits) == []


@given(POLICIES, CLUSTERS)
def test_the_guard_has_nothing_against_a_fresh_plan(
    policy: Policy[Any], snapshot: Snapshot
) -> None:
    decision = decided(policy, snapshot)

    ready = [unit for unit in units(snapshot, decision.plan) if not unit.waits]
    event(f"{len(ready)} units may start")
    for unit in ready:
        moves = tuple(move(step) for step in unit.steps)
        assert objection(moves, snapshot, policy.limits) is None


@given(EVENING, CLUSTERS)
def test_the_imbalance_never_gets_worse(
    policy: Policy[Any], snapshot: Snapshot
) -> None:
    decision = decided(policy, snapshot)

    if decision.plan == EMPTY_PLAN:
        assert decision.after == decision.before
    else:
        assert decision.after["imbalance"] < decision.before["imbalance"]


@given(POLICIES, CLUSTERS)
def test_what_is_foretold_of_the_cluster_comes_true(
    policy: Policy[Any], snapshot: Snapshot
) -> None:
    decision = decided(policy, snapshot)

    next_time = decided(policy, done(snapshot, decision))

    if next_time.before:
        assert next_time.before == pytest.approx(decision.after, abs=1e-12)


@given(EVENING, piles())
def test_repeated_cycles_come_to_rest(policy: Policy[Any], snapshot: Snapshot) -> None:
    for cycle in range(200):
        decision = decided(policy, snapshot)
        if decision.plan == EMPTY_PLAN:
            event(f"at rest after {cycle} cycles")
            return
        snapshot = done(snapshot, decision)
    pytest.fail("still moving after 200 cycles")


@given(POLICIES, CLUSTERS)
def test_what_is_remembered_can_be_written_as_json(
    policy: Policy[Any], snapshot: Snapshot
) -> None:
    memory = policy.decide(snapshot, policy.initial_memory()).memory

    assert json.loads(json.dumps(memory)) == memory


@given(POLICIES, CLUSTERS)
def test_a_plan_is_there_exactly_when_it_improves_something(
    policy: Policy[Any], snapshot: Snapshot
) -> None:
    decision = decided(policy, snapshot)

    assert (decision.reason in IMPROVING) is (decision.plan != EMPTY_PLAN)
    assert decision.detail
    assert all(step.why for step in decision.plan.steps)


@given(AUTO, CLUSTERS)
def test_auto_rebalance_moves_one_unit_per_decision(
    policy: AutoRebalance, snapshot: Snapshot
) -> None:
    plan = decided(policy, snapshot).plan

    assert len({(move(s).source, move(s).target) for s in plan.steps}) <= 1
    assert len(units(snapshot, plan)) <= 1


@given(BALANCE, CLUSTERS)
def test_balance_keeps_to_its_limit_of_moves(
    policy: Balance, snapshot: Snapshot
) -> None:
    assert len(decided(policy, snapshot).plan.steps) <= policy.moves


def test_policies_are_found_by_name() -> None:
    assert dict(BUILT_IN) == {
        "auto-rebalance": AutoRebalance,
        "balance": Balance,
        "consolidate": Consolidate,
        "optimize": Optimize,
        "pressure": PressureRelief,
        "threshold-rebalance": ThresholdRebalance,
    }


def test_the_drawn_clusters_meet_every_outcome() -> None:
    """Count, once, that the properties above look at all that may happen."""
    seen: dict[str, int] = {}

    @settings(max_examples=400, derandomize=True, database=None)
    @given(EVENING, CLUSTERS)
    def look(policy: Policy[Any], snapshot: Snapshot) -> None:
        decision = policy.decide(snapshot, policy.initial_memory())
        plan = decision.plan
        for name in (
            decision.reason,
            *(["several units"] if len(units(snapshot, plan)) > 1 else []),
            *(["a bundle"] if len(plan.steps) > len(units(snapshot, plan)) else []),
            *(["a contradiction"] if "contradict" in str(decision.notes) else []),
            *(["a closed node"] if "would be better" in str(plan) else []),
        ):
            seen[name] = seen.get(name, 0) + 1

    look()

    others = {
        *(Reason.ALREADY_CONSOLIDATED, Reason.RELIEVES_OVERLOAD, Reason.SAVES_POWER),
        *(Reason.NOT_YET_DUE, Reason.RECENTLY_CHANGED),
        *(Reason.NO_PRESSURE, Reason.RELIEVES_PRESSURE),
        *(Reason.MENDS_RULES, Reason.FREES_NODES),
    }
    reasons = set(Reason) - others
    wanted = {*reasons, "several units", "a bundle", "a contradiction", "a closed node"}
    assert set(seen) >= wanted, seen
