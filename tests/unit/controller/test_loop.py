"""Loop of the controller: cycle after cycle, until it is stopped."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

import pytest

from opendrs.config import snapshot_from
from opendrs.controller.cycle import PolicyDecisionSource
from opendrs.controller.loop import Controller, LoopSettings, WakeupEvent
from opendrs.controller.protection import BREAKER_KEY
from opendrs.errors import (
    OpenDRSError,
    PermissionDeniedError,
    PlatformUnavailableError,
    StoreError,
    UnexpectedResponseError,
    UnsupportedError,
)
from opendrs.model import AntiAffinity, NodeId, Snapshot, StepId, time_as_text
from opendrs.policies import AutoRebalance, Balance, Policy
from opendrs.ports import Outcome, StepRecord
from support.builders import NOON, cluster, guest_ids
from support.simulated_cluster import SHORT_LIMITS, SimulatedCluster, migration

LOPSIDED = cluster(
    nodes={"a": 0.8, "b": 0.0},
    guests={"one": ("a", 0.2), "two": ("a", 0.2), "three": ("a", 0.2)},
)
LEVEL = cluster(nodes={"a": 0.5, "b": 0.5}, guests={"vm": ("a", 0.1)})


class ControllerSetup:
    """A stage on which a controller works, and a look at each of its cycles.

    Args:
        origin: The cluster in the beginning.
        policy: What decides.
        interval: Seconds from one cycle to the next.
    """

    def __init__(
        self,
        origin: Snapshot = LEVEL,
        policy: Policy[None] | Policy[int] | None = None,
        interval: float = 300,
    ) -> None:
        self.simulation = SimulatedCluster(origin)
        self.observations: list[datetime] = []
        self.at_observation: dict[int, Callable[[], None]] = {}
        self.alive: Callable[[], None] = lambda: None
        self.wakeup_event = WakeupEvent()
        self.controller = Controller(
            LoopSettings(
                interval=interval,
                batch_window=10,
                observe=self._observe,
                require_alive=self._require_alive,
            ),
            self.simulation.context(),
            PolicyDecisionSource(
                policy or Balance(limits=SHORT_LIMITS), self.simulation.store
            ),
            self.wakeup_event,
        )

    def _observe(self) -> Snapshot:
        self.observations.append(self.simulation.clock.now())
        self.at_observation.get(len(self.observations), lambda: None)()
        return self.simulation.platform.observe()

    def _require_alive(self) -> None:
        self.alive()

    def stop_at_observation(self, number: int) -> None:
        self.at_observation[number] = self.simulation.cancellation.cancel

    @property
    def observed_at(self) -> list[float]:
        """Return when the cluster was looked at, in seconds since the beginning."""
        return [round((look - NOON).total_seconds(), 6) for look in self.observations]


def raising(error: Exception) -> Callable[[], None]:
    def fault() -> None:
        raise error

    return fault


def events(caplog: pytest.LogCaptureFixture, *names: str) -> list[str]:
    """Return the messages of the events *names*."""
    logged = [record for record in caplog.records if record.name == "opendrs"]
    return [r.getMessage() for r in logged if getattr(r, "event", "") in names]


@pytest.fixture(autouse=True)
def _capture_all_levels(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "opendrs")


def test_loop_observes_at_fixed_interval() -> None:
    setup = ControllerSetup()
    setup.stop_at_observation(4)

    setup.controller.run_forever()

    assert setup.observed_at == [0, 300, 600, 900]


def test_loop_executes_decisions() -> None:
    setup = ControllerSetup(LOPSIDED)
    setup.stop_at_observation(2)

    setup.controller.run_forever()

    done = [record.outcome for record in setup.simulation.observer.finished]
    assert done == [Outcome.DONE] * 2
    assert setup.simulation.store.unfinished() == ()


def test_open_breaker_prevents_execution_until_reset() -> None:
    setup = ControllerSetup(LOPSIDED)
    store = setup.simulation.store
    entry = {"opened_at": time_as_text(NOON), "detail": "failed"}
    store.save(BREAKER_KEY, entry)

    setup.stop_at_observation(3)
    setup.controller.run_forever()

    assert setup.simulation.observer.finished == []
    assert len(store.cycles()) == 3


def test_jobs_of_nodes_are_logged_when_they_change(
    caplog: pytest.LogCaptureFixture,
) -> None:
    node = replace(LEVEL.nodes[NodeId("b")], jobs=("vzdump",))
    setup = ControllerSetup(replace(LEVEL, nodes={**LEVEL.nodes, NodeId("b"): node}))
    setup.stop_at_observation(4)

    setup.controller.run_forever()

    (text,) = events(caplog, "node-jobs-running")
    assert "b: vzdump" in text


def test_unchanged_decision_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    apart = AntiAffinity(guests=guest_ids("vm", "other"), name="apart")
    setup = ControllerSetup(cluster({"a": 0.5, "b": 0.5}, {"vm": ("a", 0.1)}, [apart]))
    setup.at_observation[3] = setup.simulation.simulated_platform.disconnect
    setup.at_observation[4] = setup.simulation.simulated_platform.reconnect
    setup.stop_at_observation(6)
    caplog.set_level(logging.INFO, "opendrs")

    setup.controller.run_forever()

    assert len(events(caplog, "decision-made")) == 1


def test_strict_violations_are_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    apart = AntiAffinity(guests=guest_ids("vm", "other"), name="apart")
    guests = {"vm": ("a", 0.1), "other": ("a", 0.1), "big": ("b", 0.2)}
    setup = ControllerSetup(cluster({"a": 0.2, "b": 0.2}, guests, [apart]))
    setup.stop_at_observation(4)

    setup.controller.run_forever()

    (message,) = events(caplog, "rules-broken")
    assert "policy optimize" in message


def test_policy_memory_is_kept_between_cycles() -> None:
    setup = ControllerSetup(LOPSIDED, AutoRebalance(hold=3, limits=SHORT_LIMITS))
    setup.stop_at_observation(4)

    setup.controller.run_forever()

    reasons = [
        cycle.document["decision"]["reason"]  # type: ignore[index]
        for cycle in setup.simulation.store.cycles()
    ]
    assert reasons[:3] == ["hold-not-reached", "hold-not-reached", "improves-balance"]


def test_cycle_record_has_violations_before_and_after() -> None:
    apart = AntiAffinity(guests=guest_ids("one", "two"), name="apart")
    setup = ControllerSetup(replace(LOPSIDED, rules=(apart,)))

    setup.controller.run_once()

    [cycle] = setup.simulation.store.cycles()
    decision = cycle.document["decision"]
    assert isinstance(decision, dict)
    broken = {"rule": "apart", "strict": True, "guests": ["one", "two"], "nodes": ["a"]}
    moved = {step["guest"] for step in decision["steps"]} & {"one", "two"}
    assert decision["violations"] == {
        "before": [broken],
        "after": [] if len(moved) == 1 else [broken],
    }


def test_run_names_are_unique() -> None:
    setup = ControllerSetup(interval=1e-6)
    setup.stop_at_observation(5)

    setup.controller.run_forever()

    runs = [cycle.run for cycle in setup.simulation.store.cycles()]
    assert len(set(runs)) == len(runs) == 5


def test_recorded_cycle_reproduces_decision() -> None:
    policy = AutoRebalance(hold=1, limits=SHORT_LIMITS)
    setup = ControllerSetup(LOPSIDED, policy)
    setup.stop_at_observation(3)
    setup.controller.run_forever()

    for cycle in setup.simulation.store.cycles():
        snapshot = snapshot_from(cycle.document["snapshot"], "the record")
        memory = cycle.document["memory"]
        again = policy.decide(snapshot, memory)  # type: ignore[arg-type]
        logged = cycle.document["decision"]

        assert isinstance(logged, dict)
        assert again.reason == logged["reason"]
        assert again.detail == logged["detail"]
        assert [step.id for step in again.plan.steps] == [
            step["id"] for step in logged["steps"]
        ]


def test_cancel_while_waiting_ends_loop() -> None:
    setup = ControllerSetup()
    setup.simulation.simulated_platform.schedule_fault(
        450, setup.simulation.cancellation.cancel
    )
    # The simulated world only sees what is due when it is observed.
    setup.alive = setup.simulation.simulated_platform.observe  # type: ignore[assignment]

    setup.controller.run_forever()

    assert setup.observed_at == [0, 300]
    assert setup.simulation.elapsed == pytest.approx(450, abs=1)


def test_cancel_during_execution_finishes_running_steps() -> None:
    setup = ControllerSetup(LOPSIDED)
    setup.simulation.limits = SHORT_LIMITS
    setup.simulation.simulated_platform.schedule_fault(
        2, setup.simulation.cancellation.cancel
    )

    setup.controller.run_forever()

    ends = [record.outcome for record in setup.simulation.observer.finished]
    assert ends == [Outcome.DONE] * 2
    assert len(setup.observations) == 1


def test_cancel_twice_aborts_running_steps() -> None:
    setup = ControllerSetup(LOPSIDED)
    for _ in range(2):
        setup.simulation.simulated_platform.schedule_fault(
            2, setup.simulation.cancellation.cancel
        )

    setup.controller.run_forever()

    ends = {record.outcome for record in setup.simulation.observer.finished}
    assert ends == {Outcome.ABORTED}
    assert {setup.simulation.node_of(name) for name in ("one", "two", "three")} == {"a"}


def test_cancel_during_observe_starts_nothing() -> None:
    setup = ControllerSetup(LOPSIDED)
    setup.stop_at_observation(1)

    setup.controller.run_forever()

    assert setup.simulation.simulated_platform.starts == {}


def test_unreachable_cluster_is_logged_once_and_retried(
    caplog: pytest.LogCaptureFixture,
) -> None:
    setup = ControllerSetup()
    setup.simulation.simulated_platform.disconnect()
    setup.at_observation[5] = setup.simulation.simulated_platform.reconnect
    setup.stop_at_observation(6)

    setup.controller.run_forever()

    # Later and later, but no later than the next cycle is due anyway.
    assert setup.observed_at == [0, 5, 15, 35, 75, 300]
    (unreachable,) = events(caplog, "cluster-unreachable")
    assert unreachable.endswith(" 5 s")
    assert len(events(caplog, "cluster-reachable")) == 1


def test_second_outage_is_logged_again(caplog: pytest.LogCaptureFixture) -> None:
    setup = ControllerSetup()
    setup.at_observation = {
        1: raising(PlatformUnavailableError("away")),
        3: raising(UnexpectedResponseError("odd")),
    }
    setup.stop_at_observation(4)

    setup.controller.run_forever()

    assert setup.observed_at == [0, 5, 300, 305]
    assert len(events(caplog, "cluster-unreachable")) == 2


@pytest.mark.parametrize(
    "error",
    [PermissionDeniedError("no"), UnsupportedError("never"), StoreError("full")],
)
def test_permanent_error_ends_loop(error: OpenDRSError) -> None:
    setup = ControllerSetup()
    setup.at_observation[2] = raising(error)

    with pytest.raises(type(error)):
        setup.controller.run_forever()

    assert len(setup.observations) == 2


def test_dead_api_server_ends_loop() -> None:
    setup = ControllerSetup()

    def ended() -> None:
        if setup.observations:
            raise OpenDRSError("requests are no longer taken")

    setup.alive = ended

    with pytest.raises(OpenDRSError, match="no longer taken"):
        setup.controller.run_forever()


def test_wakeup_starts_cycle_after_batch_window() -> None:
    setup = ControllerSetup()
    setup.simulation.simulated_platform.schedule_fault(100, setup.wakeup_event.set)
    setup.simulation.simulated_platform.schedule_fault(105, setup.wakeup_event.set)
    setup.alive = setup.simulation.simulated_platform.observe  # type: ignore[assignment]
    setup.stop_at_observation(3)

    setup.controller.run_forever()

    first, second, third = setup.observed_at
    assert (first, third) == (0, 300)
    assert second == pytest.approx(110, abs=1)


def test_wakeup_during_cycle_starts_next_cycle() -> None:
    setup = ControllerSetup()
    setup.at_observation[1] = setup.wakeup_event.set
    setup.stop_at_observation(2)

    setup.controller.run_forever()

    assert setup.observed_at == [0, pytest.approx(10, abs=1)]


def test_clock_change_keeps_interval() -> None:
    setup = ControllerSetup()
    waited: list[float] = []
    jumps = {2: -86_400, 3: 400 * 86_400, 4: -18_000}

    def jump(by: float) -> Callable[[], None]:
        return lambda: setup.simulation.clock.jump(by)

    setup.at_observation = {number: jump(by) for number, by in jumps.items()}
    setup.stop_at_observation(7)
    observe = setup.simulation.simulated_platform.observe

    def noting() -> Snapshot:
        waited.append(setup.simulation.elapsed)
        return observe()

    setup.simulation.simulated_platform.observe = noting  # type: ignore[method-assign]
    setup.controller.run_forever()

    assert waited == [300.0 * number for number in range(7)]


def unfinished_step(simulation: SimulatedCluster) -> None:
    """Leave a move under way, as a process that died."""
    action = migration("one", "a", "b")
    simulation.store.write(
        StepRecord(
            run="earlier",
            step=StepId("7"),
            action=action,
            intended_at=NOON,
            task=simulation.simulated_platform.start(action),
        )
    )


def test_unfinished_steps_are_recovered_first() -> None:
    setup = ControllerSetup(LOPSIDED)
    unfinished_step(setup.simulation)
    setup.stop_at_observation(1)

    setup.controller.run_forever()

    (record,) = setup.simulation.store.records_of("earlier")
    assert record.outcome is Outcome.DONE
    assert record.ended_at is not None
    assert setup.observations[0] >= record.ended_at


@pytest.mark.parametrize(
    ("pulls", "outcome"), [(1, Outcome.DONE), (2, Outcome.ABORTED)]
)
def test_cancel_during_recovery_starts_nothing(pulls: int, outcome: Outcome) -> None:
    setup = ControllerSetup(LOPSIDED)
    unfinished_step(setup.simulation)
    for _ in range(pulls):
        setup.simulation.simulated_platform.schedule_fault(
            1, setup.simulation.cancellation.cancel
        )

    setup.controller.run_forever()

    (record,) = setup.simulation.store.records_of("earlier")
    assert record.outcome is outcome
    assert setup.observations == []
    assert len(setup.simulation.store.recent(NOON)) == 1


def test_run_once_returns_report() -> None:
    setup = ControllerSetup(LOPSIDED)

    report = setup.controller.run_once()

    assert report.all_done
    assert report.count(Outcome.DONE) == 2


def test_run_once_raises_platform_error() -> None:
    setup = ControllerSetup()
    setup.simulation.simulated_platform.disconnect()

    with pytest.raises(PlatformUnavailableError):
        setup.controller.run_once()
