"""Properties of the policy pressure, and its convergence."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from opendrs.guard import check
from opendrs.model import EMPTY_PLAN, GIB, Limits, Pressure, Snapshot, Stall
from opendrs.policies import Decision, DecisionReason
from opendrs.policies.pressure import PressureRelief, PressureThresholds
from opendrs.policies.pressure.memory import PressureMemory
from opendrs.policies.pressure.starvation import exceeds_memory_threshold, has_metrics
from support.imbalanced_clusters import imbalanced_clusters
from support.oracles.interleavings import migration_of, step_units, unsafe_states
from support.strategies import snapshots

PARTS = st.sampled_from([0.0, 0.2, 0.3, 0.5, 0.6, 0.75, 0.85, 1.0])
POLICIES = st.builds(
    PressureRelief,
    interval=st.just(0.0),
    settle_time=st.just(0.0),
    min_uptime=st.just(0.0),
    cpu_pressure_threshold=PARTS,
    memory_threshold=PARTS,
    memory_threshold_ksm=PARTS,
    ksm_threshold=st.sampled_from([0.0, 0.2]),
    limits=st.sampled_from([Limits(cooldown=0.0), Limits(memory_overcommit=4.0)]),
)


@st.composite
def starved_clusters(draw: st.DrawFn) -> Snapshot:
    """Draw a cluster in which guests wait, and equal pages are merged."""
    snapshot = draw(imbalanced_clusters() | snapshots(settled=True) | snapshots())
    waits = st.sampled_from([None, 0.0, 0.3, 0.7, 0.8, 0.9, 1.0])
    merged = st.sampled_from([None, 0, GIB, 30 * GIB])
    guests = {
        name: replace(guest, pressure=Pressure(cpu=Stall(draw(waits))))
        for name, guest in snapshot.guests.items()
    }
    nodes = {
        name: replace(node, ksm_shared=draw(merged))
        for name, node in snapshot.nodes.items()
    }
    return replace(snapshot, guests=guests, nodes=nodes)


def apply_plan(snapshot: Snapshot, decision: Decision[PressureMemory]) -> Snapshot:
    for step in decision.plan.steps:
        snapshot = snapshot.apply(step.action)
    return snapshot


def nodes_over_threshold(
    snapshot: Snapshot, thresholds: PressureThresholds
) -> set[str]:
    nodes = snapshot.nodes.values()
    return {
        node.id
        for node in nodes
        if has_metrics(node) and exceeds_memory_threshold(node, thresholds)
    }


@given(POLICIES, starved_clusters())
def test_a_move_makes_no_other_node_crowded(
    policy: PressureRelief, snapshot: Snapshot
) -> None:
    decision = policy.decide(snapshot, policy.initial_memory())

    event(decision.reason)
    after = nodes_over_threshold(apply_plan(snapshot, decision), policy.thresholds)
    assert after <= nodes_over_threshold(snapshot, policy.thresholds)


@given(POLICIES, starved_clusters())
def test_it_comes_to_rest_while_loads_stay(
    policy: PressureRelief, snapshot: Snapshot
) -> None:
    memory = policy.initial_memory()
    for cycle in range(200):
        decision = policy.decide(snapshot, memory)
        if decision.plan == EMPTY_PLAN:
            event(f"at rest after {min(cycle, 9)} cycles")
            return
        memory, snapshot = decision.memory, apply_plan(snapshot, decision)
    pytest.fail("still moving after 200 cycles")


@settings(max_examples=50)
@given(POLICIES, starved_clusters(), st.randoms(use_true_random=False))
def test_no_guest_is_migrated_twice_in_a_row(
    policy: PressureRelief, snapshot: Snapshot, random: Random
) -> None:
    memory, last = policy.initial_memory(), set[str]()
    for _ in range(10):
        decision = policy.decide(snapshot, memory)
        guests = {str(step.action.guest) for step in decision.plan.steps}  # type: ignore[union-attr]
        assert not guests & last
        event("moved" if guests else "stayed")
        last = guests or last
        memory = decision.memory
        snapshot = _with_random_pressure(apply_plan(snapshot, decision), random)


@settings(max_examples=50)
@given(starved_clusters(), st.randoms(use_true_random=False))
def test_no_guest_is_migrated_twice_within_cooldown(
    snapshot: Snapshot, random: Random
) -> None:
    limits = Limits(cooldown=1200.0, memory_overcommit=4.0)
    policy = PressureRelief(cpu_pressure_threshold=0.3, min_uptime=0.0, limits=limits)
    memory, moves = policy.initial_memory(), Counter[str]()
    for _ in range(20):
        decision = policy.decide(snapshot, memory)
        memory = decision.memory
        moves.update(str(step.action.guest) for step in decision.plan.steps)  # type: ignore[union-attr]
        snapshot = _with_random_pressure(
            _with_migration_times(snapshot, decision), random
        )
        snapshot = replace(snapshot, taken_at=snapshot.taken_at + timedelta(minutes=1))

    event(f"{min(len(moves), 4)} were moved")
    assert not moves or max(moves.values()) == 1


def _with_random_pressure(snapshot: Snapshot, random: Random) -> Snapshot:
    """Return *snapshot* with guests that wait as chance will have it."""
    guests = {
        name: replace(guest, pressure=Pressure(cpu=Stall(random.random())))
        for name, guest in snapshot.guests.items()
    }
    return replace(snapshot, guests=guests)


def _with_migration_times(
    snapshot: Snapshot, decision: Decision[PressureMemory]
) -> Snapshot:
    """Return what the record adds: when who was moved."""
    moved = apply_plan(snapshot, decision)
    guests = dict(moved.guests)
    for step in decision.plan.steps:
        name = step.action.guest  # type: ignore[union-attr]
        guests[name] = replace(guests[name], migrated_at=snapshot.taken_at)
    return replace(moved, guests=guests)


@given(POLICIES, starved_clusters())
def test_the_guard_has_nothing_against_a_fresh_plan(
    policy: PressureRelief, snapshot: Snapshot
) -> None:
    decision = policy.decide(snapshot, policy.initial_memory())

    assert unsafe_states(snapshot, decision.plan, policy.limits) == []
    for unit in step_units(snapshot, decision.plan):
        steps = tuple(migration_of(step) for step in unit.steps)
        event(f"{len(steps)} together")
        assert check(steps, snapshot, policy.limits) is None


@given(POLICIES, starved_clusters())
def test_one_unit_is_moved_at_most(policy: PressureRelief, snapshot: Snapshot) -> None:
    decision = policy.decide(snapshot, policy.initial_memory())

    endpoints = {(s.action.source, s.action.target) for s in decision.plan.steps}  # type: ignore[union-attr]
    assert len(endpoints) <= 1
    assert bool(endpoints) is (decision.reason is DecisionReason.RELIEVES_PRESSURE)
    if endpoints:
        guests = {s.action.guest for s in decision.plan.steps}  # type: ignore[union-attr]
        assert decision.memory["last_group"] in guests
