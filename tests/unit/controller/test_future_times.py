"""Times in the future are treated as now, and reported once."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from builders import NOON, cluster
from opendrs.controller.cycle import judge, remembered
from opendrs.controller.deciding import PolicyAlone
from opendrs.controller.loop import Bell, Controller, Routine
from opendrs.controller.stores import MemoryStore
from opendrs.guard import Refusal, objection
from opendrs.model import (
    GuestId,
    NodeId,
    NodeState,
    PowerOff,
    PowerOn,
    Snapshot,
    StepId,
)
from opendrs.policies import Balance, Policy, PressureRelief, ThresholdRebalance
from opendrs.ports import Outcome, StepRecord
from stage import HASTY, Stage, migration, outcomes, step

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
VM1 = GuestId("vm1")
COOLDOWN = 600.0
COOL = replace(HASTY, cooldown=COOLDOWN)
HOUR, DAY = 3600.0, 86_400.0


def crowd() -> Snapshot:
    guests = {f"vm{number}": ("a", 0.1) for number in range(1, 7)}
    return cluster({"a": 0.7, "b": 0.1, "c": 0.1}, guests)


def controller(stage: Stage, policy: Policy[None] | None = None) -> Controller:
    routine = Routine(
        interval=300,
        gathering=10,
        observe=stage.world.observe,
        require_alive=lambda: None,
    )
    chosen = policy or Balance(threshold=1.0, limits=stage.limits)  # moves no guest
    return Controller(routine, stage.means(), PolicyAlone(chosen, stage.store), Bell())


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if getattr(record, "event", "") == "times-in-future"
    ]


@pytest.mark.parametrize("back", [HOUR, 30 * DAY])
def test_a_guest_that_was_moved_in_the_future_rests_for_a_cooldown_and_no_longer(
    back: float, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage(crowd(), limits=COOL)
    cycles = controller(stage)
    assert stage.play(step("1", migration("vm1", "a", "b")), run="first").complete
    stage.clock.jump(-back)
    again = step("1", migration("vm1", "b", "c"))

    cycles.once()
    early = stage.play(again, run="second")
    cycles.once()
    stage.clock.sleep(COOLDOWN)
    late = stage.play(again, run="third")

    assert outcomes(early) == [Outcome.REFUSED]
    assert outcomes(late) == [Outcome.DONE]
    assert len(warnings(caplog)) == 1
    assert "check the clock of this machine" in warnings(caplog)[0]


def test_a_node_that_was_powered_on_in_the_future_may_be_powered_off_later() -> None:
    stage = Stage(crowd(), limits=COOL)
    stage.store.write(
        StepRecord(
            run="run",
            step=StepId("1"),
            action=PowerOn(C),
            intended_at=NOON + timedelta(days=30),
            ended_at=NOON + timedelta(days=30),
            outcome=Outcome.DONE,
        )
    )

    controller(stage).once()
    early = stage.play(step("1", PowerOff(C)), run="early")
    stage.clock.sleep(COOLDOWN)
    late = stage.play(step("1", PowerOff(C)), run="late")

    assert outcomes(early) == [Outcome.REFUSED]
    assert "was woken 0 s ago" in early.records[0].detail
    assert outcomes(late) == [Outcome.DONE]


def test_a_node_that_did_not_power_on_in_the_future_is_tried_again_later() -> None:
    asleep = replace(crowd().nodes[C], state=NodeState.OFFLINE)
    origin = replace(crowd(), nodes={**crowd().nodes, C: asleep})
    stage = Stage(origin, limits=COOL)
    stage.store.write(
        StepRecord(
            run="run",
            step=StepId("1"),
            action=PowerOn(C),
            intended_at=NOON + timedelta(days=30),
            ended_at=NOON + timedelta(days=30),
            outcome=Outcome.FAILED,
        )
    )
    controller(stage).once()
    policy = Balance(limits=COOL)

    early = remembered(stage.world.observe(), policy, stage.store).nodes[C].state
    stage.clock.sleep(HOUR)
    late = remembered(stage.world.observe(), policy, stage.store).nodes[C].state

    assert (early, late) == (NodeState.UNKNOWN, NodeState.OFFLINE)


def test_a_node_that_was_seen_in_the_future_and_powered_off_is_offline() -> None:
    store = MemoryStore()
    judge(
        replace(crowd(), taken_at=NOON + timedelta(days=30)),
        Balance(threshold=1.0, limits=COOL),
        store,
    )
    store.write(
        StepRecord(
            run="run",
            step=StepId("1"),
            action=PowerOff(C),
            intended_at=NOON + timedelta(minutes=1),
            ended_at=NOON + timedelta(minutes=2),
            outcome=Outcome.DONE,
        )
    )
    silent = replace(crowd().nodes[C], state=NodeState.UNKNOWN, capacity=None)
    later = NOON + timedelta(minutes=1)
    seen = replace(crowd(), taken_at=later, nodes={**crowd().nodes, C: silent})

    found = remembered(seen, Balance(limits=COOL), store)

    assert found.nodes[C].state is NodeState.OFFLINE


@pytest.mark.parametrize("days", [0, 30])
def test_a_platform_whose_clock_is_ahead_does_not_hide_a_move(days: int) -> None:
    ahead = NOON + timedelta(days=days, seconds=5)
    moved = replace(crowd().guests[VM1], moved_at=ahead)
    seen = replace(crowd(), guests={**crowd().guests, VM1: moved})

    found = objection([migration("vm1", "a", "b")], seen, COOL)
    known = remembered(seen, Balance(limits=COOL), MemoryStore())

    assert found is not None
    assert found.refusal is Refusal.COOLING_DOWN
    assert "was moved 0 s ago" in found.detail
    assert known.guests[VM1].moved_at == NOON


def test_threshold_rebalance_lets_a_guest_rest_from_now_on() -> None:
    policy = ThresholdRebalance(cooldown=COOLDOWN, limits=HASTY)
    future = (NOON + timedelta(days=30)).isoformat()
    origin = cluster({"a": 0.5, "b": 0.5}, {"vm1": ("a", 0.1)})

    kept = policy.decide(origin, {"vm1": [future, "a"]}).memory
    later = NOON + timedelta(seconds=COOLDOWN)
    after = policy.decide(replace(origin, taken_at=later), kept).memory

    assert kept == {"vm1": [NOON.isoformat(), "a"]}
    assert after == {}


def test_pressure_lets_the_guest_that_was_moved_last_rest_from_now_on() -> None:
    policy = PressureRelief(forget_after=COOLDOWN, limits=HASTY)
    future = (NOON + timedelta(days=30)).isoformat()
    memory = {
        "checked_at": future,
        "changed_at": future,
        "seen": None,
        "last": "vm1",
        "last_at": future,
    }

    kept = policy.decide(crowd(), memory).memory  # type: ignore[arg-type]

    assert kept["last_at"] == kept["checked_at"] == NOON.isoformat()
