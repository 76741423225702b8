"""Threshold-rebalance comes to rest, and sends nobody to and fro."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from random import Random

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from opendrs.guard import objection
from opendrs.model import EMPTY_PLAN, GuestId, Limits, Snapshot
from opendrs.policies import Decision, ThresholdRebalance
from opendrs.policies.threshold_rebalance import Form
from opendrs.scoring import UsageMode
from oracles.passage import faults, move, units
from piles import piles
from strategies import snapshots

THRESHOLDS = st.sampled_from([0.0, 0.05, 0.1, 0.2])
SETTINGS = {
    "mode": st.sampled_from(UsageMode),
    "threshold": THRESHOLDS,
    "batch": st.integers(1, 6),
    "limits": st.sampled_from([Limits(cooldown=0.0), Limits(memory_overbooking=9.0)]),
}
CORRECTED = st.builds(ThresholdRebalance, cooldown=st.just(0.0), **SETTINGS)
ANY_FORM = st.builds(ThresholdRebalance, form=st.sampled_from(Form), **SETTINGS)


@st.composite
def loaded(draw: st.DrawFn) -> Snapshot:
    """Draw a cluster that tells its load averages, some of them beyond measure."""
    snapshot = draw(piles() | snapshots(measured=True))
    nodes = {
        name: replace(node, load_average=draw(st.integers(0, 400)) / 10)
        for name, node in snapshot.nodes.items()
    }
    return replace(snapshot, nodes=nodes)


CLUSTERS = piles() | loaded()


def done(snapshot: Snapshot, decision: Decision[dict[str, list[str]]]) -> Snapshot:
    for step in decision.plan.steps:
        snapshot = snapshot.after(step.action)
    return snapshot


@given(CORRECTED, CLUSTERS)
def test_it_comes_to_rest_even_if_guests_need_no_rest(
    policy: ThresholdRebalance, snapshot: Snapshot
) -> None:
    for cycle in range(300):
        decision = policy.decide(snapshot, policy.initial_memory())
        if decision.plan == EMPTY_PLAN:
            event(f"at rest after {min(cycle, 9)} cycles")
            return
        snapshot = done(snapshot, decision)
    pytest.fail("still moving after 300 cycles")


@given(CORRECTED, CLUSTERS)
def test_nobody_becomes_busier_than_the_busiest_was(
    policy: ThresholdRebalance, snapshot: Snapshot
) -> None:
    decision = policy.decide(snapshot, policy.initial_memory())

    event(f"{len(decision.plan.steps)} steps")
    if len({node.architecture for node in snapshot.nodes.values()}) == 1:
        highest = decision.before.get("highest_score", 0.0)
        assert decision.after.get("highest_score", 0.0) <= highest


@given(ANY_FORM, CLUSTERS, st.randoms(use_true_random=False))
def test_nobody_is_moved_twice_within_the_cooldown(
    policy: ThresholdRebalance, snapshot: Snapshot, random: Random
) -> None:
    """Loads change as they like meanwhile."""
    memory, last = policy.initial_memory(), dict[GuestId, datetime]()
    for _ in range(12):
        decision = policy.decide(snapshot, memory)
        memory, now = decision.memory, snapshot.taken_at
        for step in decision.plan.steps:
            guest = step.action.guest  # type: ignore[union-attr]
            rested = now - last.get(guest, now - timedelta(days=1))
            assert rested.total_seconds() >= policy.cooldown
            event("moved again" if guest in last else "moved")
            last[guest] = now
        snapshot = _busier(done(snapshot, decision), random)


def _busier(snapshot: Snapshot, random: Random) -> Snapshot:
    """Return *snapshot* two hours later, under other load."""
    nodes = {
        name: replace(node, load_average=random.uniform(0, 60))
        for name, node in snapshot.nodes.items()
    }
    then = snapshot.taken_at + timedelta(hours=2)
    return replace(snapshot, nodes=nodes, taken_at=then)


@given(ANY_FORM, CLUSTERS)
def test_the_guard_has_nothing_against_a_fresh_plan(
    policy: ThresholdRebalance, snapshot: Snapshot
) -> None:
    decision = policy.decide(snapshot, policy.initial_memory())

    assert faults(snapshot, decision.plan, policy.limits) == []
    for unit in units(snapshot, decision.plan):
        if not unit.waits:
            event("may start")
            steps = tuple(move(step) for step in unit.steps)
            assert objection(steps, snapshot, policy.limits) is None


@given(ANY_FORM, CLUSTERS)
def test_in_every_form_it_comes_to_rest_while_guests_rest(
    policy: ThresholdRebalance, snapshot: Snapshot
) -> None:
    memory = policy.initial_memory()
    for _ in range(len(snapshot.guests) + 1):
        decision = policy.decide(snapshot, memory)
        if decision.plan == EMPTY_PLAN:
            return
        memory, snapshot = decision.memory, done(snapshot, decision)
    pytest.fail("still moving after every guest was moved")
