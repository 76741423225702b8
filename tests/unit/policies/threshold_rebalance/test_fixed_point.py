"""Convergence of the policy threshold-rebalance."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from random import Random

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from opendrs.guard import check
from opendrs.metrics import LoadModel
from opendrs.model import EMPTY_PLAN, GuestId, Limits, Snapshot
from opendrs.policies import Decision
from opendrs.policies.threshold_rebalance import IncusVersion, ThresholdRebalance
from support.imbalanced_clusters import imbalanced_clusters
from support.oracles.interleavings import migration_of, step_units, unsafe_states
from support.strategies import snapshots

THRESHOLDS = st.sampled_from([0.0, 0.05, 0.1, 0.2])
SETTINGS = {
    "load_model": st.sampled_from(LoadModel),
    "threshold": THRESHOLDS,
    "max_migrations": st.integers(1, 6),
    "limits": st.sampled_from([Limits(cooldown=0.0), Limits(memory_overcommit=9.0)]),
}
CORRECTED = st.builds(ThresholdRebalance, cooldown=st.just(0.0), **SETTINGS)
ANY_VERSION = st.builds(
    ThresholdRebalance, compatibility=st.sampled_from(IncusVersion), **SETTINGS
)


@st.composite
def clusters_with_load_average(draw: st.DrawFn) -> Snapshot:
    """Draw a cluster with load averages, some of them extreme."""
    snapshot = draw(imbalanced_clusters() | snapshots(measured=True))
    nodes = {
        name: replace(node, load_average=draw(st.integers(0, 400)) / 10)
        for name, node in snapshot.nodes.items()
    }
    return replace(snapshot, nodes=nodes)


CLUSTERS = imbalanced_clusters() | clusters_with_load_average()


def apply_plan(
    snapshot: Snapshot, decision: Decision[dict[str, list[str]]]
) -> Snapshot:
    for step in decision.plan.steps:
        snapshot = snapshot.apply(step.action)
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
        snapshot = apply_plan(snapshot, decision)
    pytest.fail("still moving after 300 cycles")


@given(CORRECTED, CLUSTERS)
def test_no_node_exceeds_former_maximum_load(
    policy: ThresholdRebalance, snapshot: Snapshot
) -> None:
    decision = policy.decide(snapshot, policy.initial_memory())

    event(f"{len(decision.plan.steps)} steps")
    if len({node.architecture for node in snapshot.nodes.values()}) == 1:
        highest = decision.before.get("highest_score", 0.0)
        assert decision.after.get("highest_score", 0.0) <= highest


@given(ANY_VERSION, CLUSTERS, st.randoms(use_true_random=False))
def test_no_guest_is_migrated_twice_within_cooldown(
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
        snapshot = _with_random_load(apply_plan(snapshot, decision), random)


def _with_random_load(snapshot: Snapshot, random: Random) -> Snapshot:
    """Return *snapshot* two hours later, under other load."""
    nodes = {
        name: replace(node, load_average=random.uniform(0, 60))
        for name, node in snapshot.nodes.items()
    }
    then = snapshot.taken_at + timedelta(hours=2)
    return replace(snapshot, nodes=nodes, taken_at=then)


@given(ANY_VERSION, CLUSTERS)
def test_the_guard_has_nothing_against_a_fresh_plan(
    policy: ThresholdRebalance, snapshot: Snapshot
) -> None:
    decision = policy.decide(snapshot, policy.initial_memory())

    assert unsafe_states(snapshot, decision.plan, policy.limits) == []
    for unit in step_units(snapshot, decision.plan):
        if not unit.depends_on:
            event("may start")
            steps = tuple(migration_of(step) for step in unit.steps)
            assert check(steps, snapshot, policy.limits) is None


@given(ANY_VERSION, CLUSTERS)
def test_in_every_form_it_comes_to_rest_while_guests_rest(
    policy: ThresholdRebalance, snapshot: Snapshot
) -> None:
    memory = policy.initial_memory()
    for _ in range(len(snapshot.guests) + 1):
        decision = policy.decide(snapshot, memory)
        if decision.plan == EMPTY_PLAN:
            return
        memory, snapshot = decision.memory, apply_plan(snapshot, decision)
    pytest.fail("still moving after every guest was moved")
