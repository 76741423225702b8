"""Pressure keeps what every policy promises, and comes to rest."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from opendrs.guard import objection
from opendrs.model import EMPTY_PLAN, GIB, Limits, Pressure, Snapshot, Stall
from opendrs.policies import Decision, PressureRelief, Reason
from opendrs.policies.pressure import Bounds
from opendrs.policies.pressure.memories import Memory
from opendrs.policies.pressure.trouble import crowded, judged
from oracles.passage import faults, move, units
from piles import piles
from strategies import snapshots

PARTS = st.sampled_from([0.0, 0.2, 0.3, 0.5, 0.6, 0.75, 0.85, 1.0])
POLICIES = st.builds(
    PressureRelief,
    interval=st.just(0.0),
    quiet=st.just(0.0),
    uptime=st.just(0.0),
    cpu_pressure=PARTS,
    memory=PARTS,
    memory_ksm=PARTS,
    ksm=st.sampled_from([0.0, 0.2]),
    limits=st.sampled_from([Limits(cooldown=0.0), Limits(memory_overbooking=4.0)]),
)


@st.composite
def wards(draw: st.DrawFn) -> Snapshot:
    """Draw a cluster in which guests wait, and equal pages are merged."""
    snapshot = draw(piles() | snapshots(settled=True) | snapshots())
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


def done(snapshot: Snapshot, decision: Decision[Memory]) -> Snapshot:
    for step in decision.plan.steps:
        snapshot = snapshot.after(step.action)
    return snapshot


def overfull(snapshot: Snapshot, bounds: Bounds) -> set[str]:
    nodes = snapshot.nodes.values()
    return {node.id for node in nodes if judged(node) and crowded(node, bounds)}


@given(POLICIES, wards())
def test_a_move_makes_no_other_node_crowded(
    policy: PressureRelief, snapshot: Snapshot
) -> None:
    decision = policy.decide(snapshot, policy.initial_memory())

    event(decision.reason)
    after = overfull(done(snapshot, decision), policy.bounds)
    assert after <= overfull(snapshot, policy.bounds)


@given(POLICIES, wards())
def test_it_comes_to_rest_while_loads_stay(
    policy: PressureRelief, snapshot: Snapshot
) -> None:
    memory = policy.initial_memory()
    for cycle in range(200):
        decision = policy.decide(snapshot, memory)
        if decision.plan == EMPTY_PLAN:
            event(f"at rest after {min(cycle, 9)} cycles")
            return
        memory, snapshot = decision.memory, done(snapshot, decision)
    pytest.fail("still moving after 200 cycles")


@settings(max_examples=50)
@given(POLICIES, wards(), st.randoms(use_true_random=False))
def test_nobody_is_moved_twice_in_a_row_whatever_the_loads(
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
        snapshot = _strained(done(snapshot, decision), random)


@settings(max_examples=50)
@given(wards(), st.randoms(use_true_random=False))
def test_nobody_is_moved_twice_within_the_cooldown(
    snapshot: Snapshot, random: Random
) -> None:
    limits = Limits(cooldown=1200.0, memory_overbooking=4.0)
    policy = PressureRelief(cpu_pressure=0.3, uptime=0.0, limits=limits)
    memory, moves = policy.initial_memory(), Counter[str]()
    for _ in range(20):
        decision = policy.decide(snapshot, memory)
        memory = decision.memory
        moves.update(str(step.action.guest) for step in decision.plan.steps)  # type: ignore[union-attr]
        snapshot = _strained(_recorded(snapshot, decision), random)
        snapshot = replace(snapshot, taken_at=snapshot.taken_at + timedelta(minutes=1))

    event(f"{min(len(moves), 4)} were moved")
    assert not moves or max(moves.values()) == 1


def _strained(snapshot: Snapshot, random: Random) -> Snapshot:
    """Return *snapshot* with guests that wait as chance will have it."""
    guests = {
        name: replace(guest, pressure=Pressure(cpu=Stall(random.random())))
        for name, guest in snapshot.guests.items()
    }
    return replace(snapshot, guests=guests)


def _recorded(snapshot: Snapshot, decision: Decision[Memory]) -> Snapshot:
    """Return what the record adds: when who was moved."""
    moved = done(snapshot, decision)
    guests = dict(moved.guests)
    for step in decision.plan.steps:
        name = step.action.guest  # type: ignore[union-attr]
        guests[name] = replace(guests[name], moved_at=snapshot.taken_at)
    return replace(moved, guests=guests)


@given(POLICIES, wards())
def test_the_guard_has_nothing_against_a_fresh_plan(
    policy: PressureRelief, snapshot: Snapshot
) -> None:
    decision = policy.decide(snapshot, policy.initial_memory())

    assert faults(snapshot, decision.plan, policy.limits) == []
    for unit in units(snapshot, decision.plan):
        steps = tuple(move(step) for step in unit.steps)
        event(f"{len(steps)} together")
        assert objection(steps, snapshot, policy.limits) is None


@given(POLICIES, wards())
def test_one_unit_is_moved_at_most(policy: PressureRelief, snapshot: Snapshot) -> None:
    decision = policy.decide(snapshot, policy.initial_memory())

    ways = {(s.action.source, s.action.target) for s in decision.plan.steps}  # type: ignore[union-attr]
    assert len(ways) <= 1
    assert bool(ways) is (decision.reason is Reason.RELIEVES_PRESSURE)
    if ways:
        assert decision.memory["last"] in {s.action.guest for s in decision.plan.steps}  # type: ignore[union-attr]
