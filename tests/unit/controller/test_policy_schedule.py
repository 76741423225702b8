"""Several policies on one platform: a controller with a schedule, and its restarts."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from opendrs.config.controller_settings import ControllerSettings, Mode
from opendrs.config.schedule_settings import ScheduleSettings
from opendrs.config.settings import Settings
from opendrs.controller.approvals import PlanApprovals
from opendrs.controller.cycle import PolicyDecisionSource
from opendrs.controller.drained_nodes import DrainedNode
from opendrs.controller.loop import (
    Controller,
    LoopSettings,
    Reconfiguration,
    WakeupEvent,
)
from opendrs.controller.maintenance import MaintenanceDecisionSource
from opendrs.controller.policy_schedule import PolicySchedule, ScheduledPolicy
from opendrs.controller.replay import replay
from opendrs.errors import PlatformUnavailableError, StoreError
from opendrs.model import GIB, AntiAffinity, NodeId, Snapshot
from opendrs.ports import Outcome, PlanApproval, PlanChange, PlanState
from opendrs.simulation import SimulatedClock
from opendrs.store import DatabasePlanStore, SqliteStore
from support.builders import NOON, cluster, guest_ids
from support.simulated_cluster import SHORT_LIMITS, SimulatedCluster

HOUR, DAY = 3600.0, 86_400.0
LEVEL = cluster({"a": 0.3, "b": 0.3}, {"one": ("a", 0.1), "two": ("b", 0.1)})
LOPSIDED = cluster(
    nodes={"a": 0.8, "b": 0.0},
    guests={"one": ("a", 0.2), "two": ("a", 0.2), "three": ("a", 0.2)},
)
DAYTIME = ScheduleSettings(
    policy="balance", windows=("08:00-18:00",), interval=HOUR, name="day"
)
NIGHT = ScheduleSettings(
    policy="consolidate", windows=("22:00-06:00",), interval=HOUR, name="night"
)
REPAIR = ScheduleSettings(policy="repair", interval=HOUR)


class PatientClock(SimulatedClock):
    """Simulated clock that passes at least half a minute in each sleep."""

    def sleep(self, seconds: float) -> None:
        """Let *seconds* pass, or half a minute."""
        super().sleep(max(seconds, 30.0))


class TimeElapsedError(Exception):
    """The time has passed for which a controller is to run."""


class ScheduledController:
    """A controller with a schedule over a store that outlives it."""

    def __init__(
        self,
        store: SqliteStore,
        *entries: ScheduleSettings,
        origin: Snapshot = LEVEL,
        clock: SimulatedClock | None = None,
        bandwidth: float = GIB,
        mode: Mode = Mode.AUTOMATIC,
    ) -> None:
        self.simulation = SimulatedCluster(origin, bandwidth=bandwidth, clock=clock)
        self.simulation.store = store
        self.plans = DatabasePlanStore(store)
        self.wakeup_event = WakeupEvent()
        self.new: Reconfiguration | None = None
        self._mode = mode
        self.observe = self.simulation.simulated_platform.observe
        self.restart(*entries)

    def restart(self, *entries: ScheduleSettings) -> None:
        """Let a new process take over: all that is left is the store."""
        parts = self.parts(*entries)
        self.controller = Controller(
            LoopSettings(
                interval=parts.interval,
                batch_window=0.0,
                observe=self._observe,
                require_alive=self._check_time,
                reconfigure=self._reconfigure,
                schedule=parts.schedule,
            ),
            self.simulation.context(),
            parts.decision_source,
            self.wakeup_event,
            parts.approval,
        )

    def parts(self, *entries: ScheduleSettings) -> Reconfiguration:
        """Return the parts of a controller with the schedule *entries*."""
        simulation, store = self.simulation, self.simulation.store
        assert isinstance(store, SqliteStore)
        settings = Settings(
            limits=SHORT_LIMITS,
            controller=ControllerSettings(interval=6 * HOUR, mode=self._mode),
            schedule=entries,
        )
        scheduled = [
            ScheduledPolicy(
                each,
                PolicyDecisionSource(
                    settings.load_policy(each.policy, each.settings), store, each.name
                ),
            )
            for each in entries
        ]
        interval = settings.controller.interval
        schedule = PolicySchedule(
            scheduled, interval, settings.limits, store, simulation.clock
        )
        return Reconfiguration(
            interval=interval,
            platform=simulation.platform,
            protection=settings.protection,
            policies="",
            decision_source=MaintenanceDecisionSource(
                schedule, schedule.policy, store, self.wakeup_event.set
            ),
            approval=PlanApprovals(
                self.plans,
                store,
                simulation.clock,
                settings.controller,
                simulation.cancellation,
                target="lab",
                schedule=entries,
            ),
            schedule=schedule,
        )

    def _reconfigure(self) -> Reconfiguration | None:
        new, self.new = self.new, None
        return new

    def run_for(self, seconds: float) -> None:
        """Run the loop until *seconds* have passed."""
        self._end = self.simulation.elapsed + seconds
        with suppress(TimeElapsedError):
            self.controller.run_forever()

    def _observe(self) -> Snapshot:
        return self.observe()

    def _check_time(self) -> None:
        if self.simulation.elapsed >= self._end:
            raise TimeElapsedError

    def cycles(self) -> list[tuple[str, str, str]]:
        """Return the time, the entry and the policy of each recorded cycle."""
        found = []
        for cycle in self.simulation.store.cycles():
            decision: Any = cycle.document["decision"]
            time = f"{cycle.decided_at:%d %H}"
            found.append((time, decision.get("schedule", ""), decision["policy"]))
        return found


@pytest.fixture
def store(tmp_path: Any) -> Iterator[SqliteStore]:  # noqa: ANN401 - a path
    with SqliteStore(tmp_path / "record.sqlite") as opened:
        yield opened


def test_balance_runs_by_day_and_consolidate_by_night(store: SqliteStore) -> None:
    setup = ScheduledController(
        store, DAYTIME, NIGHT, clock=PatientClock(NOON), origin=LEVEL
    )

    setup.run_for(DAY)

    by_entry: dict[str, set[int]] = {}
    for time, entry, policy in setup.cycles():
        hour = int(time.split()[1])
        by_entry.setdefault(f"{entry} {policy}", set()).add(hour)
    assert by_entry == {
        "day balance": {*range(8, 18)},
        "night consolidate": {22, 23, *range(6)},
        # Nothing else happens in the evening: less than [controller] interval.
    }


def test_cycles_of_overlapping_entries_follow_one_another(store: SqliteStore) -> None:
    quick = replace(REPAIR, name="quick")
    setup = ScheduledController(store, quick, DAYTIME, clock=PatientClock(NOON))

    setup.run_for(3 * HOUR)

    entries = [entry for _, entry, _ in setup.cycles()]
    assert entries == ["quick", "day"] * 3


def test_closed_schedule_observes_at_the_interval_of_the_controller(
    store: SqliteStore,
) -> None:
    closed = replace(REPAIR, blackout=("2026-01-01/2027-12-31",))
    apart = AntiAffinity(guests=guest_ids("one", "two"), name="apart")
    broken = replace(LOPSIDED, rules=(apart,))
    setup = ScheduledController(store, closed, origin=broken, clock=PatientClock(NOON))

    setup.run_for(DAY)

    assert [policy for _, _, policy in setup.cycles()] == ["drain"] * 4
    assert not setup.simulation.simulated_platform.starts


def test_closed_schedule_drains_at_once(store: SqliteStore) -> None:
    closed = replace(REPAIR, blackout=("2026-01-01/2027-12-31",))
    setup = ScheduledController(store, closed, clock=PatientClock(NOON))
    setup.run_for(HOUR)
    assert len(setup.cycles()) == 1

    drained = DrainedNode(node=NodeId("a"), since=NOON, user="ada", because="")
    store.save(drained.key, drained.entry)
    setup.wakeup_event.set()
    setup.run_for(HOUR)

    assert setup.simulation.node_of("one") == "b"


def test_restart_continues_the_schedule(store: SqliteStore) -> None:
    setup = ScheduledController(store, DAYTIME, clock=PatientClock(NOON))
    setup.run_for(0.5 * HOUR)
    assert len(setup.cycles()) == 1

    setup.restart(DAYTIME)
    setup.run_for(0.4 * HOUR)
    # The first cycle of a process observes the cluster.
    assert [entry for _, entry, _ in setup.cycles()] == ["day", ""]
    setup.run_for(0.2 * HOUR)

    assert [entry for _, entry, _ in setup.cycles()] == ["day", "", "day"]


@pytest.mark.parametrize(
    ("jump", "number"), [(-5 * DAY, 2), (-90 * 60.0, 2), (3 * DAY, 3)]
)
def test_changed_clock_delays_an_entry_by_one_interval_at_most(
    store: SqliteStore, jump: float, number: int
) -> None:
    setup = ScheduledController(store, REPAIR, clock=PatientClock(NOON))
    setup.run_for(0.5 * HOUR)

    setup.simulation.clock.jump(jump)
    setup.run_for(1.1 * HOUR)

    assert len(setup.cycles()) == number


@pytest.mark.parametrize("jump", [-5 * DAY, -90 * 60.0])
def test_clock_set_back_over_a_restart_does_not_block(
    store: SqliteStore, jump: float
) -> None:
    setup = ScheduledController(store, REPAIR, clock=PatientClock(NOON))
    setup.run_for(0.5 * HOUR)

    setup.simulation.clock.jump(jump)
    setup.restart(REPAIR)
    setup.run_for(1.1 * HOUR)

    assert [entry for _, entry, _ in setup.cycles()].count("repair") == 2


def test_entry_is_tried_again_when_the_cluster_is_reachable(
    store: SqliteStore,
) -> None:
    setup = ScheduledController(store, DAYTIME)
    attempts: list[float] = []
    observe = setup.observe

    def fail_twice() -> Snapshot:
        attempts.append(setup.simulation.elapsed)
        if len(attempts) <= 2:
            raise PlatformUnavailableError("away")
        return observe()

    setup.observe = fail_twice
    setup.run_for(60)

    assert attempts == [0, 5, 15]
    assert [entry for _, entry, _ in setup.cycles()] == ["day"]


def test_each_entry_has_its_own_memory(store: SqliteStore) -> None:
    """Each holds for three cycles of its own."""
    first, second = (
        ScheduleSettings(policy="auto-rebalance", name=name, interval=HOUR)
        for name in ("auto-rebalance", "second")
    )
    setup = ScheduledController(
        store, first, second, clock=PatientClock(NOON), origin=LOPSIDED
    )

    setup.run_for(2 * HOUR)

    held = [cycle.document["memory"] for cycle in setup.simulation.store.cycles()]
    assert held[0::2] == held[1::2]
    assert len(held) == 4
    assert held[0] != held[2]
    assert store.load("memory of auto-rebalance") is not None
    assert store.load("memory of auto-rebalance, schedule second") is not None


def test_open_entries_are_logged_when_they_change(
    store: SqliteStore, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "opendrs")
    setup = ScheduledController(store, DAYTIME, NIGHT, clock=PatientClock(NOON))

    setup.run_for(DAY)

    opened = [
        record.about["open"]  # type: ignore[attr-defined]
        for record in caplog.records
        if getattr(record, "event", "") == "schedule-changed"
    ]
    assert opened == [["day"], [], ["night"], [], ["day"]]


def test_unchanged_decision_is_logged_once_for_each_entry(
    store: SqliteStore, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "opendrs")
    setup = ScheduledController(store, REPAIR, DAYTIME, clock=PatientClock(NOON))

    setup.run_for(3 * HOUR)

    assert len(setup.cycles()) == 6
    logged = [
        record.about["schedule"]  # type: ignore[attr-defined]
        for record in caplog.records
        if getattr(record, "event", "") == "decision-made"
    ]
    assert logged == ["repair", "day"]


def test_running_plan_stops_when_its_window_closes(store: SqliteStore) -> None:
    """Each migration of 0.2 nodes takes more than a minute, one after the other."""
    end = ScheduleSettings(policy="balance", windows=("12:00-12:01",), name="noon")
    setup = ScheduledController(store, end, origin=LOPSIDED, bandwidth=GIB / 5)
    setup.simulation.limits = replace(SHORT_LIMITS, max_parallel_migrations=1)
    setup.restart(end)

    setup.run_for(600)

    [plan] = setup.plans.plans()
    outcomes = [each.outcome for each in store.records_of(plan.run)]
    assert outcomes == [Outcome.DONE, Outcome.SKIPPED]
    assert plan.state is PlanState.CANCELLED
    assert "noon" in plan.detail


def test_stricter_mode_of_an_entry_proposes_its_plan(store: SqliteStore) -> None:
    advised = replace(DAYTIME, mode=Mode.ADVISE)
    setup = ScheduledController(store, advised, origin=LOPSIDED)

    setup.run_for(60)

    [plan] = setup.plans.plans()
    assert plan.state is PlanState.PROPOSED
    assert not setup.simulation.simulated_platform.starts


def test_entry_in_mode_automatic_is_restricted_by_the_controller(
    store: SqliteStore,
) -> None:
    setup = ScheduledController(store, DAYTIME, origin=LOPSIDED, mode=Mode.ADVISE)

    setup.run_for(60)

    assert [plan.state for plan in setup.plans.plans()] == [PlanState.PROPOSED]


def test_proposed_plan_is_not_superseded_by_another_policy(
    store: SqliteStore,
) -> None:
    setup = ScheduledController(
        store,
        replace(DAYTIME, interval=DAY),
        replace(REPAIR, interval=60.0),
        origin=LOPSIDED,
        mode=Mode.ADVISE,
    )

    setup.run_for(600)

    assert len(setup.cycles()) > 5
    [plan] = setup.plans.plans()
    assert (plan.policy, plan.state) == ("balance", PlanState.PROPOSED)


def test_plan_approved_by_an_operator_starts_after_its_window(
    store: SqliteStore,
) -> None:
    short = replace(DAYTIME, windows=("12:00-12:01",))
    setup = ScheduledController(store, short, origin=LOPSIDED, mode=Mode.ADVISE)
    setup.run_for(120)
    [plan] = setup.plans.plans()

    approval = PlanApproval(
        user="ada",
        at=setup.simulation.clock.now(),
        steps=tuple(step.id for step in plan.steps),
        digest=plan.digest,
    )
    change = PlanChange(
        state=PlanState.APPROVED, at=setup.simulation.clock.now(), approval=approval
    )
    assert setup.plans.change(plan.id, change)
    setup.run_for(120)

    assert [plan.state for plan in setup.plans.plans()] == [PlanState.DONE]


def test_reload_replaces_the_schedule(store: SqliteStore) -> None:
    setup = ScheduledController(store, DAYTIME, clock=PatientClock(NOON))
    setup.run_for(60)

    setup.new = setup.parts(DAYTIME, REPAIR)
    setup.run_for(60)

    assert [entry for _, entry, _ in setup.cycles()] == ["day", "repair"]


def test_cycle_of_an_entry_is_replayed(store: SqliteStore) -> None:
    setup = ScheduledController(store, DAYTIME, origin=LOPSIDED)
    setup.controller.run_once()

    [cycle] = store.cycles()
    found = replay(cycle)

    assert found.recorded["schedule"] == "day"
    assert found.is_same


def test_single_cycle_is_that_of_the_first_due_entry(store: SqliteStore) -> None:
    """As with `run --once`, each in a process of its own."""
    for _ in range(3):
        setup = ScheduledController(store, REPAIR, DAYTIME)
        setup.controller.run_once()

    assert [entry for _, entry, _ in setup.cycles()] == ["repair", "day", ""]


def test_damaged_start_of_a_cycle_is_a_store_error(store: SqliteStore) -> None:
    store.save("schedule/day", {"started_at": "yesterday"})

    with pytest.raises(StoreError):
        ScheduledController(store, DAYTIME)


def test_start_of_a_cycle_is_recorded_in_utc(store: SqliteStore) -> None:
    setup = ScheduledController(store, DAYTIME)

    setup.controller.run_once()

    entry = store.load("schedule/day")
    assert entry is not None
    started_at = datetime.fromisoformat(str(entry["started_at"]))
    assert started_at == NOON
    assert started_at.utcoffset() == timedelta()
