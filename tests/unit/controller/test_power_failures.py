"""Pause of power actions on a node after a failure."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from opendrs.controller import (
    CancellationToken,
    ExecutionContext,
    NullObserver,
    enrich_snapshot,
    evaluations,
    execute,
)
from opendrs.controller.power_failures import exclude_failed_power_nodes
from opendrs.errors import PlatformError
from opendrs.model import (
    Action,
    Limits,
    NodeId,
    NodeState,
    PowerOff,
    PowerOn,
    Snapshot,
    StepId,
)
from opendrs.policies import Balance
from opendrs.policies.consolidation import Consolidate
from opendrs.policies.consolidation.settings import DetectorKind
from opendrs.ports import Outcome, StepRecord, Store, TaskId
from opendrs.simulation import SimulatedClock, SimulatedPlatform
from opendrs.store import MemoryStore
from support.builders import NOON, cluster

B, C = NodeId("b"), NodeId("c")
ON, OFF = PowerOn(B), PowerOff(B)
FAILED_OUTCOMES = [Outcome.FAILED, Outcome.ABORTED, Outcome.LOST]
HALF = {"vm": ("a", 0.5)}


@pytest.fixture
def store() -> Store:
    return MemoryStore()


def tried(store: Store, action: Action, outcome: Outcome | None, ended: float) -> None:
    """Write down that *action* ended so many minutes after noon."""
    end = NOON + timedelta(minutes=ended)
    record = StepRecord(
        run="run",
        step=StepId(f"{ended}"),
        action=action,
        intended_at=end - timedelta(minutes=5),
        ended_at=None if outcome is None else end,
        outcome=outcome,
    )
    store.write(record)


def seen(state: NodeState, minutes: float) -> Snapshot:
    """Return a cluster so many minutes after noon, with b in *state*."""
    origin = cluster({"a": 0.5, "b": 0.0}, HALF)
    return replace(
        origin,
        taken_at=NOON + timedelta(minutes=minutes),
        nodes={**origin.nodes, B: replace(origin.nodes[B], state=state)},
    )


def state(store: Store, state: NodeState, minutes: float) -> NodeState:
    """Return as what b counts that is seen in *state* so many minutes after noon."""
    return exclude_failed_power_nodes(seen(state, minutes), store).nodes[B].state


@pytest.mark.parametrize("outcome", FAILED_OUTCOMES)
def test_failed_power_on_is_not_retried_at_once(store: Store, outcome: Outcome) -> None:
    tried(store, ON, outcome, ended=0)

    assert state(store, NodeState.OFFLINE, 14) is NodeState.UNKNOWN
    assert state(store, NodeState.OFFLINE, 15) is NodeState.OFFLINE


def test_retry_delay_doubles(store: Store) -> None:
    for ended in (0, 20, 60):
        tried(store, ON, Outcome.FAILED, ended)

    assert state(store, NodeState.OFFLINE, 60 + 59) is NodeState.UNKNOWN
    assert state(store, NodeState.OFFLINE, 60 + 60) is NodeState.OFFLINE


def test_retry_delay_has_maximum(store: Store) -> None:
    for hour in range(20):
        tried(store, ON, Outcome.FAILED, 60 * hour)

    assert state(store, NodeState.OFFLINE, 60 * (19 + 4)) is NodeState.OFFLINE
    assert state(store, NodeState.OFFLINE, 60 * (19 + 4) - 1) is NodeState.UNKNOWN


@pytest.mark.parametrize("between", [PowerOn(B), PowerOff(B)])
def test_success_resets_retry_delay(store: Store, between: PowerOn | PowerOff) -> None:
    tried(store, ON, Outcome.FAILED, 0)
    tried(store, ON, Outcome.FAILED, 20)
    tried(store, between, Outcome.DONE, 60)
    tried(store, ON, Outcome.FAILED, 90)

    assert state(store, NodeState.OFFLINE, 90 + 15) is NodeState.OFFLINE


def test_late_powered_on_node_is_used(store: Store) -> None:
    tried(store, ON, Outcome.ABORTED, 0)

    assert state(store, NodeState.ONLINE, 1) is NodeState.ONLINE


@pytest.mark.parametrize("outcome", [*FAILED_OUTCOMES, None])
def test_failed_power_off_node_receives_no_guest(
    store: Store, outcome: Outcome | None
) -> None:
    tried(store, OFF, outcome, ended=5)

    assert state(store, NodeState.ONLINE, 29) is NodeState.EXCLUDED
    assert state(store, NodeState.ONLINE, 35) is NodeState.ONLINE


def test_late_powered_off_node_may_be_powered_on(store: Store) -> None:
    tried(store, OFF, Outcome.ABORTED, 0)

    assert state(store, NodeState.OFFLINE, 1) is NodeState.OFFLINE


@pytest.mark.parametrize(
    ("action", "outcome"),
    [
        (ON, Outcome.DONE),
        (OFF, Outcome.DONE),
        (ON, Outcome.REJECTED),
        (OFF, Outcome.REJECTED),
        (OFF, Outcome.SKIPPED),
        (PowerOn(C), Outcome.FAILED),
        (PowerOn(NodeId("gone")), Outcome.FAILED),
    ],
)
def test_other_records_change_nothing(
    store: Store, action: Action, outcome: Outcome
) -> None:
    tried(store, action, outcome, ended=0)

    for each in NodeState:
        assert state(store, each, 1) is each


def test_rejection_keeps_power_failure(store: Store) -> None:
    tried(store, ON, Outcome.FAILED, 0)
    tried(store, ON, Outcome.REJECTED, 1)

    assert state(store, NodeState.OFFLINE, 2) is NodeState.UNKNOWN


def test_policy_sees_effective_node_state(store: Store) -> None:
    tried(store, OFF, Outcome.FAILED, 0)

    found = enrich_snapshot(seen(NodeState.ONLINE, 1), Balance(), store)

    assert found.nodes[B].state is NodeState.EXCLUDED


class FailingPowerOn(SimulatedPlatform):
    """A simulated cluster in which b cannot be powered on."""

    def start(self, action: Action) -> TaskId:
        """Start *action*, unless it powers on b."""
        if action == ON:
            raise PlatformError("the fuse of b is blown")
        return super().start(action)


def test_other_node_is_powered_on_after_failure(store: Store) -> None:
    guests = {f"vm{number}": ("a", 0.2) for number in range(5)}
    busy = cluster({"a": 1.0, "b": 0.0, "c": 0.0}, guests)
    powered_off = {
        name: replace(busy.nodes[name], state=NodeState.OFFLINE) for name in (B, C)
    }
    clock = SimulatedClock()
    platform = FailingPowerOn(replace(busy, nodes={**busy.nodes, **powered_off}), clock)
    policy = Consolidate(manage_power=True, detector=DetectorKind.LAST_N_AVERAGE)
    means = ExecutionContext(
        platform=platform,
        clock=clock,
        store=store,
        limits=Limits(),
        observer=NullObserver(),
        cancellation=CancellationToken(),
    )
    powered_on = []
    for cycle in range(2):
        snapshot = enrich_snapshot(platform.observe(), policy, store)
        plan = next(evaluations(snapshot, policy, store)).decision.plan
        report = execute(plan, means, run=f"{cycle}")
        powered_on += [
            (record.action.node, record.outcome)
            for record in report.records
            if isinstance(record.action, PowerOn)
        ]
        clock.sleep(300)

    assert powered_on == [(B, Outcome.FAILED), (C, Outcome.DONE)]
    assert {guest.node for guest in platform.observe().guests.values()} == {"a", "c"}
