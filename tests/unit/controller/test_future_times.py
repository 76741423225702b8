"""Times in the future are treated as now, and reported once."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from opendrs.controller import correct_times, enrich_snapshot
from opendrs.controller.consent import ConsentApproval
from opendrs.controller.cycle import (
    DecisionSource,
    PolicyDecisionSource,
    evaluations,
)
from opendrs.controller.drained_nodes import DrainedNode, GuestReturn, guest_returns
from opendrs.controller.loop import Controller, LoopSettings, WakeupEvent
from opendrs.controller.maintenance import MaintenanceDecisionSource
from opendrs.controller.modes import (
    BREAKER_KEY,
    PAUSE_KEY,
    RESET_KEY,
    Pause,
    current_pause,
)
from opendrs.controller.protection import CircuitBreaker
from opendrs.controller.reservations import Reservation
from opendrs.guard import RejectionReason, check
from opendrs.model import (
    GIB,
    GuestId,
    NodeId,
    NodeState,
    PowerOff,
    PowerOn,
    Protection,
    Resources,
    Snapshot,
    StepId,
    time_as_text,
)
from opendrs.policies import Balance, Policy
from opendrs.policies.pressure import PressureRelief
from opendrs.policies.threshold_rebalance import ThresholdRebalance
from opendrs.ports import Outcome, StepRecord
from opendrs.store import MemoryStore
from support.builders import NOON, cluster
from support.simulated_cluster import (
    SHORT_LIMITS,
    SimulatedCluster,
    migration,
    outcomes,
    step,
)

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
VM1 = GuestId("vm1")
COOLDOWN = 600.0
COOL = replace(SHORT_LIMITS, cooldown=COOLDOWN)
HOUR, DAY = 3600.0, 86_400.0


def sample_cluster() -> Snapshot:
    guests = {f"vm{number}": ("a", 0.1) for number in range(1, 7)}
    return cluster({"a": 0.7, "b": 0.1, "c": 0.1}, guests)


def controller(
    simulation: SimulatedCluster,
    policy: Policy[None] | None = None,
    source: DecisionSource | None = None,
) -> Controller:
    settings = LoopSettings(
        interval=300,
        batch_window=10,
        observe=simulation.simulated_platform.observe,
        require_alive=lambda: None,
    )
    chosen = policy or Balance(
        threshold=1.0, limits=simulation.limits
    )  # moves no guest
    return Controller(
        settings,
        simulation.context(),
        source or PolicyDecisionSource(chosen, simulation.store),
        WakeupEvent(),
        ConsentApproval(lambda _: True),
    )


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if getattr(record, "event", "") == "times-in-future"
    ]


@pytest.mark.parametrize("back", [HOUR, 30 * DAY])
def test_future_migration_time_cools_down_from_now(
    back: float, caplog: pytest.LogCaptureFixture
) -> None:
    simulation = SimulatedCluster(sample_cluster(), limits=COOL)
    cycles = controller(simulation)
    assert simulation.execute(
        step("1", migration("vm1", "a", "b")), run="first"
    ).all_done
    simulation.clock.jump(-back)
    again = step("1", migration("vm1", "b", "c"))

    cycles.run_once()
    early = simulation.execute(again, run="second")
    cycles.run_once()
    simulation.clock.sleep(COOLDOWN)
    late = simulation.execute(again, run="third")

    assert outcomes(early) == [Outcome.REJECTED]
    assert outcomes(late) == [Outcome.DONE]
    assert len(warnings(caplog)) == 1


def test_future_power_on_time_delays_power_off() -> None:
    simulation = SimulatedCluster(sample_cluster(), limits=COOL)
    simulation.store.write(
        StepRecord(
            run="run",
            step=StepId("1"),
            action=PowerOn(C),
            intended_at=NOON + timedelta(days=30),
            ended_at=NOON + timedelta(days=30),
            outcome=Outcome.DONE,
        )
    )

    controller(simulation).run_once()
    early = simulation.execute(step("1", PowerOff(C)), run="early")
    simulation.clock.sleep(COOLDOWN)
    late = simulation.execute(step("1", PowerOff(C)), run="late")

    assert outcomes(early) == [Outcome.REJECTED]
    assert " 0 s" in early.records[0].detail
    assert outcomes(late) == [Outcome.DONE]


def test_future_failed_power_on_delays_retry() -> None:
    powered_off = replace(sample_cluster().nodes[C], state=NodeState.OFFLINE)
    origin = replace(sample_cluster(), nodes={**sample_cluster().nodes, C: powered_off})
    simulation = SimulatedCluster(origin, limits=COOL)
    simulation.store.write(
        StepRecord(
            run="run",
            step=StepId("1"),
            action=PowerOn(C),
            intended_at=NOON + timedelta(days=30),
            ended_at=NOON + timedelta(days=30),
            outcome=Outcome.FAILED,
        )
    )
    controller(simulation).run_once()
    policy = Balance(limits=COOL)

    early = (
        enrich_snapshot(
            simulation.simulated_platform.observe(), policy, simulation.store
        )
        .nodes[C]
        .state
    )
    simulation.clock.sleep(HOUR)
    late = (
        enrich_snapshot(
            simulation.simulated_platform.observe(), policy, simulation.store
        )
        .nodes[C]
        .state
    )

    assert (early, late) == (NodeState.UNKNOWN, NodeState.OFFLINE)


def test_future_observation_of_powered_off_node_is_offline() -> None:
    store = MemoryStore()
    next(
        evaluations(
            replace(sample_cluster(), taken_at=NOON + timedelta(days=30)),
            Balance(threshold=1.0, limits=COOL),
            store,
        )
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
    silent = replace(sample_cluster().nodes[C], state=NodeState.UNKNOWN, capacity=None)
    later = NOON + timedelta(minutes=1)
    seen = replace(
        sample_cluster(), taken_at=later, nodes={**sample_cluster().nodes, C: silent}
    )

    found = enrich_snapshot(seen, Balance(limits=COOL), store)

    assert found.nodes[C].state is NodeState.OFFLINE


@pytest.mark.parametrize("days", [0, 30])
def test_platform_clock_ahead_does_not_hide_migration(days: int) -> None:
    ahead = NOON + timedelta(days=days, seconds=5)
    moved = replace(sample_cluster().guests[VM1], migrated_at=ahead)
    seen = replace(sample_cluster(), guests={**sample_cluster().guests, VM1: moved})

    found = check([migration("vm1", "a", "b")], seen, COOL)
    known = enrich_snapshot(seen, Balance(limits=COOL), MemoryStore())

    assert found is not None
    assert found.reason is RejectionReason.COOLDOWN
    assert " 0 s" in found.detail
    assert known.guests[VM1].migrated_at == NOON


def test_threshold_rebalance_cooldown_starts_now() -> None:
    policy = ThresholdRebalance(cooldown=COOLDOWN, limits=SHORT_LIMITS)
    future = (NOON + timedelta(days=30)).isoformat()
    origin = cluster({"a": 0.5, "b": 0.5}, {"vm1": ("a", 0.1)})

    kept = policy.decide(origin, {"vm1": [future, "a"]}).memory
    later = NOON + timedelta(seconds=COOLDOWN)
    after = policy.decide(replace(origin, taken_at=later), kept).memory

    assert kept == {"vm1": [NOON.isoformat(), "a"]}
    assert after == {}


def test_pressure_remigration_delay_starts_now() -> None:
    policy = PressureRelief(remigration_delay=COOLDOWN, limits=SHORT_LIMITS)
    future = (NOON + timedelta(days=30)).isoformat()
    memory = {
        "checked_at": future,
        "changed_at": future,
        "fingerprint": None,
        "last_group": "vm1",
        "last_migrated_at": future,
    }

    kept = policy.decide(sample_cluster(), memory).memory  # type: ignore[arg-type]

    assert kept["last_migrated_at"] == kept["checked_at"] == NOON.isoformat()


def test_future_reset_of_the_breaker_counts_later_failures() -> None:
    simulation = SimulatedCluster(sample_cluster())
    store, now = simulation.store, simulation.clock.now()
    store.save(RESET_KEY, {"at": time_as_text(now + timedelta(hours=5))})
    breaker = CircuitBreaker(store, Protection(max_failures=1), SHORT_LIMITS, "lab")

    controller(simulation).run_once()
    simulation.clock.sleep(60)
    failed_at = simulation.clock.now()
    store.write(
        StepRecord(
            run="run",
            step=StepId("1"),
            action=migration("vm1", "a", "b"),
            intended_at=failed_at,
            ended_at=failed_at,
            outcome=Outcome.FAILED,
        )
    )

    assert breaker.update(failed_at) is not None
    assert breaker.opened_at == failed_at


def test_future_opening_of_the_breaker_is_not_in_the_future() -> None:
    simulation = SimulatedCluster(sample_cluster())
    store, now = simulation.store, simulation.clock.now()
    opened_at = time_as_text(now + timedelta(hours=5))
    store.save(BREAKER_KEY, {"opened_at": opened_at, "detail": "3 failed steps"})

    controller(simulation).run_once()

    assert store.load(BREAKER_KEY) == {
        "opened_at": time_as_text(now),
        "detail": "3 failed steps",
    }


def test_guests_return_once_after_a_clock_that_was_ahead() -> None:
    simulation = SimulatedCluster(cluster({"a": 0.0, "b": 0.4}, {"vm1": ("b", 0.1)}))
    store, ahead = simulation.store, simulation.clock.now() + timedelta(hours=5)
    store.write(
        StepRecord(
            run="drain",
            step=StepId("1"),
            action=migration("vm1", "a", "b"),
            intended_at=ahead + timedelta(minutes=1),
            ended_at=ahead + timedelta(minutes=2),
            outcome=Outcome.DONE,
        )
    )
    requested_at = ahead + timedelta(minutes=3)
    request = GuestReturn(node=A, since=ahead, requested_at=requested_at)
    store.save(request.key, request.entry)
    policy = Balance(threshold=1.0, limits=SHORT_LIMITS)
    source = MaintenanceDecisionSource(
        PolicyDecisionSource(policy, store), policy, store
    )
    cycles = controller(simulation, policy, source)

    started = [len(cycles.run_once().records) for _ in range(3)]

    assert started == [1, 0, 0]
    assert simulation.node_of("vm1") == "a"
    (left,) = guest_returns(store)
    assert left.finished


def test_pause_keeps_its_duration_when_the_clock_is_set_back() -> None:
    simulation = SimulatedCluster(sample_cluster())
    now, hour = simulation.clock.now(), timedelta(hours=1)
    ahead = now + timedelta(days=30)
    pause = Pause(until=ahead + hour, because="storage", user="ada", at=ahead)
    simulation.store.save(PAUSE_KEY, pause.entry())

    controller(simulation).run_once()

    entries = simulation.store.load_all("operator/")
    assert current_pause(entries, now) == replace(pause, until=now + hour, at=now)
    assert current_pause(entries, now + hour) is None


def test_times_of_operators_that_have_passed_stay() -> None:
    simulation = SimulatedCluster(sample_cluster())
    now = simulation.clock.now()
    drained = DrainedNode(node=A, since=now - timedelta(hours=1), user="ada")
    reservation = Reservation(
        name="web",
        limit=Resources(1.0, GIB),
        nodes=(B,),
        until=now + timedelta(hours=1),
    )
    simulation.store.save(drained.key, drained.entry)
    simulation.store.save(reservation.key, reservation.document())

    correct_times(simulation.store, now)

    assert simulation.store.load(drained.key) == drained.entry
    assert simulation.store.load(reservation.key) == reservation.document()
