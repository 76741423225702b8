"""A node that was switched in vain is left alone for a while."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from builders import NOON, cluster
from opendrs.controller import Brake, Means, SilentWatcher, decide, execute, remembered
from opendrs.controller.stores import MemoryStore
from opendrs.controller.switches import without_the_unsure
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
from opendrs.policies import Balance, Consolidate
from opendrs.policies.consolidation.strategy import Detection
from opendrs.ports import Outcome, StepRecord, Store, TaskId
from opendrs.sim import SimulatedClock, SimulatedPlatform

B, C = NodeId("b"), NodeId("c")
ON, OFF = PowerOn(B), PowerOff(B)
IN_VAIN = [Outcome.FAILED, Outcome.ABORTED, Outcome.LOST]
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
    return without_the_unsure(seen(state, minutes), store).nodes[B].state


@pytest.mark.parametrize("outcome", IN_VAIN)
def test_a_node_that_did_not_wake_is_not_woken_for_a_while(
    store: Store, outcome: Outcome
) -> None:
    tried(store, ON, outcome, ended=0)

    assert state(store, NodeState.OFFLINE, 14) is NodeState.UNKNOWN
    assert state(store, NodeState.OFFLINE, 15) is NodeState.OFFLINE


def test_each_time_it_rests_twice_as_long(store: Store) -> None:
    for ended in (0, 20, 60):
        tried(store, ON, Outcome.FAILED, ended)

    assert state(store, NodeState.OFFLINE, 60 + 59) is NodeState.UNKNOWN
    assert state(store, NodeState.OFFLINE, 60 + 60) is NodeState.OFFLINE


def test_it_never_rests_for_more_than_four_hours(store: Store) -> None:
    for hour in range(20):
        tried(store, ON, Outcome.FAILED, 60 * hour)

    assert state(store, NodeState.OFFLINE, 60 * (19 + 4)) is NodeState.OFFLINE
    assert state(store, NodeState.OFFLINE, 60 * (19 + 4) - 1) is NodeState.UNKNOWN


@pytest.mark.parametrize("between", [PowerOn(B), PowerOff(B)])
def test_what_went_well_in_between_begins_it_anew(
    store: Store, between: PowerOn | PowerOff
) -> None:
    tried(store, ON, Outcome.FAILED, 0)
    tried(store, ON, Outcome.FAILED, 20)
    tried(store, between, Outcome.DONE, 60)
    tried(store, ON, Outcome.FAILED, 90)

    assert state(store, NodeState.OFFLINE, 90 + 15) is NodeState.OFFLINE


def test_a_node_that_woke_after_all_takes_part(store: Store) -> None:
    tried(store, ON, Outcome.ABORTED, 0)

    assert state(store, NodeState.ONLINE, 1) is NodeState.ONLINE


@pytest.mark.parametrize("outcome", [*IN_VAIN, None])
def test_a_node_that_may_still_go_to_sleep_receives_nobody(
    store: Store, outcome: Outcome | None
) -> None:
    tried(store, OFF, outcome, ended=5)

    assert state(store, NodeState.ONLINE, 29) is NodeState.MAINTENANCE
    assert state(store, NodeState.ONLINE, 35) is NodeState.ONLINE


def test_a_node_that_went_to_sleep_late_may_be_woken(store: Store) -> None:
    tried(store, OFF, Outcome.ABORTED, 0)

    assert state(store, NodeState.OFFLINE, 1) is NodeState.OFFLINE


@pytest.mark.parametrize(
    ("action", "outcome"),
    [
        (ON, Outcome.DONE),
        (OFF, Outcome.DONE),
        (ON, Outcome.REFUSED),
        (OFF, Outcome.REFUSED),
        (OFF, Outcome.SKIPPED),
        (PowerOn(C), Outcome.FAILED),
        (PowerOn(NodeId("gone")), Outcome.FAILED),
    ],
)
def test_all_else_changes_nothing(
    store: Store, action: Action, outcome: Outcome
) -> None:
    tried(store, action, outcome, ended=0)

    for each in NodeState:
        assert state(store, each, 1) is each


def test_a_refusal_after_it_forgives_nothing(store: Store) -> None:
    tried(store, ON, Outcome.FAILED, 0)
    tried(store, ON, Outcome.REFUSED, 1)

    assert state(store, NodeState.OFFLINE, 2) is NodeState.UNKNOWN


def test_a_node_is_decided_about_as_what_it_counts(store: Store) -> None:
    tried(store, OFF, Outcome.FAILED, 0)

    found = remembered(seen(NodeState.ONLINE, 1), Balance(), store)

    assert found.nodes[B].state is NodeState.MAINTENANCE


class BlownFuse(SimulatedPlatform):
    """A simulated cluster in which b cannot be woken."""

    def start(self, action: Action) -> TaskId:
        """Start it, unless b is to be woken."""
        if action == ON:
            raise PlatformError("the fuse of b is blown")
        return super().start(action)


def test_where_one_does_not_wake_another_is_woken(store: Store) -> None:
    guests = {f"vm{number}": ("a", 0.2) for number in range(5)}
    busy = cluster({"a": 1.0, "b": 0.0, "c": 0.0}, guests)
    asleep = {
        name: replace(busy.nodes[name], state=NodeState.OFFLINE) for name in (B, C)
    }
    clock = SimulatedClock()
    platform = BlownFuse(replace(busy, nodes={**busy.nodes, **asleep}), clock)
    policy = Consolidate(power=True, detector=Detection.LAST_N_AVERAGE)
    means = Means(
        platform=platform,
        clock=clock,
        store=store,
        limits=Limits(),
        watcher=SilentWatcher(),
        brake=Brake(),
    )
    woken = []
    for cycle in range(2):
        snapshot = remembered(platform.observe(), policy, store)
        plan = decide(snapshot, policy, store).plan
        report = execute(plan, means, run=f"{cycle}")
        woken += [
            (record.action.node, record.outcome)
            for record in report.records
            if isinstance(record.action, PowerOn)
        ]
        clock.sleep(300)

    assert woken == [(B, Outcome.FAILED), (C, Outcome.DONE)]
    assert {guest.node for guest in platform.observe().guests.values()} == {"a", "c"}
