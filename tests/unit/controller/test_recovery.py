"""Recovery after a crash at any time: no step is lost or repeated."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import pytest

from opendrs.controller import CancellationToken, recover
from opendrs.controller.event_log import LoggingObserver
from opendrs.model import (
    Affinity,
    GuestId,
    GuestState,
    LiveMigration,
    Snapshot,
    Step,
    StepId,
)
from opendrs.ports import Outcome, StepRecord, Store, TaskId
from opendrs.rules import violations
from support.builders import NOON, cluster, guest_ids
from support.simulated_cluster import SimulatedCluster, migration, step

PAIR = Affinity(guests=guest_ids("vm1", "vm2"), name="a pair")
STEPS = (
    step("1", migration("vm1", "a", "b")),
    step("2", migration("vm2", "a", "b")),
    step("3", migration("vm3", "a", "c")),
    step("4", migration("vm4", "a", "c"), "3"),
    step("5", migration("vm5", "c", "b"), "4"),
)


def sample_cluster() -> Snapshot:
    """Return three nodes; vm1 and vm2 belong together."""
    guests = {f"vm{number}": ("a", 0.1) for number in range(1, 5)} | {
        "vm5": ("c", 0.05)
    }
    return cluster({"a": 0.6, "b": 0.1, "c": 0.2}, guests, [PAIR])


class ProcessKilledError(BaseException):
    """The process is gone; nothing may catch it."""


class KillAtCall:
    """Lets the process die at one of its calls to platform and store.

    Args:
        at: The number of the call, the first being 0.
        after_effect: Whether the call takes effect before.
    """

    def __init__(self, at: int, *, after_effect: bool) -> None:
        self.calls = 0
        self._at = at
        self._after_effect = after_effect

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        kills = self.calls == self._at
        self.calls += 1
        if kills and not self._after_effect:
            raise ProcessKilledError(name)
        yield
        if kills:
            raise ProcessKilledError(name)


def restart_process(simulation: SimulatedCluster, store: Store) -> None:
    """Let *simulation* forget all but the world and the store."""
    simulation.platform, simulation.store = simulation.simulated_platform, store


def execute_until_killed(
    simulation: SimulatedCluster, fuse: KillAtCall, *steps: Step
) -> bool:
    """Carry out *steps* until the fuse burns; return whether it did."""
    simulation.intercept(fuse)
    try:
        simulation.execute(*steps)
    except ProcessKilledError:
        return True
    return False


def recover_until_killed(simulation: SimulatedCluster, fuse: KillAtCall) -> bool:
    """Pick up what was left until the fuse burns; return whether it did."""
    simulation.intercept(fuse)
    try:
        simulation.recover()
    except ProcessKilledError:
        return True
    return False


def count_calls() -> int:
    """Return the number of calls without a crash."""
    fuse = KillAtCall(-1, after_effect=False)
    assert not execute_until_killed(SimulatedCluster(sample_cluster()), fuse, *STEPS)
    return fuse.calls


def records(store: Store) -> tuple[StepRecord, ...]:
    return store.recent(NOON)


def assert_consistent(simulation: SimulatedCluster) -> None:
    """Check that no guest is lost or was moved twice, and the record is true."""
    seen = simulation.simulated_platform.observe()
    assert simulation.store.unfinished() == ()
    assert max(simulation.simulated_platform.starts.values(), default=0) <= 1
    for found in seen.guests.values():
        assert found.state is GuestState.RUNNING
        assert found.migrating_to is None
    done = {r.action for r in records(simulation.store) if r.outcome is Outcome.DONE}
    for one in STEPS:
        assert isinstance(one.action, LiveMigration)
        place = seen.guests[one.action.guest].node
        assert place == (one.action.target if one.action in done else one.action.source)


CALLS = count_calls()


@pytest.mark.parametrize("too_late", [False, True])
def test_crash_at_any_call_loses_and_repeats_nothing(*, too_late: bool) -> None:
    deaths = 0
    for at in range(CALLS):
        simulation = SimulatedCluster(sample_cluster())
        store = simulation.store
        deaths += execute_until_killed(
            simulation, KillAtCall(at, after_effect=too_late), *STEPS
        )
        restart_process(simulation, store)

        simulation.recover()

        assert_consistent(simulation)
        assert not violations(simulation.simulated_platform.observe())

    assert deaths == CALLS > 50


@pytest.mark.parametrize("too_late", [False, True])
def test_crash_during_recovery_loses_nothing(*, too_late: bool) -> None:
    deaths = 0
    for at in range(0, CALLS, 5):
        for again in range(12):
            simulation = SimulatedCluster(sample_cluster())
            store = simulation.store
            execute_until_killed(
                simulation, KillAtCall(at, after_effect=not too_late), *STEPS
            )
            restart_process(simulation, store)
            deaths += recover_until_killed(
                simulation, KillAtCall(again, after_effect=too_late)
            )
            restart_process(simulation, store)

            simulation.recover()

            assert_consistent(simulation)

    assert deaths > 50


def test_step_of_a_previous_run_is_logged_with_its_start(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "opendrs")
    simulation, first = SimulatedCluster(sample_cluster()), STEPS[0]
    task = simulation.platform.start(first.action)
    simulation.store.write(
        StepRecord(
            run="run",
            step=first.id,
            action=first.action,
            intended_at=NOON,
            task=task,
        )
    )
    observer = LoggingObserver(CancellationToken())

    recover(replace(simulation.context(), observer=observer))

    (started,) = (
        record.getMessage()
        for record in caplog.records
        if getattr(record, "event", "") == "step-started"
    )
    assert "by a previous run at 2026-11-21 12:00:00 UTC" in started


def test_unfinished_plan_can_be_repeated_after_recovery() -> None:
    for at in range(0, CALLS, 3):
        simulation = SimulatedCluster(sample_cluster())
        store = simulation.store
        execute_until_killed(simulation, KillAtCall(at, after_effect=True), *STEPS)
        restart_process(simulation, store)
        simulation.recover()
        done = {r.step for r in records(store) if r.outcome is Outcome.DONE}
        rest = [
            replace(
                one,
                depends_on=tuple(name for name in one.depends_on if name not in done),
            )
            for one in STEPS
            if one.id not in done
        ]

        report = simulation.execute(*rest, run="second")

        assert report.all_done
        assert [simulation.node_of(f"vm{n}") for n in range(1, 6)] == list("bbccb")


def unfinished_record(task: str | None) -> SimulatedCluster:
    """Return a stage on which vm3 was about to be moved to c."""
    simulation = SimulatedCluster(sample_cluster())
    simulation.store.write(
        StepRecord(
            run="run",
            step=StepId("3"),
            action=migration("vm3", "a", "c"),
            intended_at=NOON,
            task=None if task is None else TaskId(task),
        )
    )
    return simulation


def test_recover_without_unfinished_returns_nothing() -> None:
    simulation = SimulatedCluster(sample_cluster())
    simulation.execute(*STEPS)

    assert simulation.recover() == ()


def test_recover_never_starts_intended_step() -> None:
    simulation = unfinished_record(task=None)

    (record,) = simulation.recover()

    assert record.outcome is Outcome.LOST
    assert record.detail == "never started"
    assert simulation.node_of("vm3") == "a"
    assert simulation.observer.started_steps == []


def test_recover_tracks_running_task() -> None:
    simulation = unfinished_record(task=None)
    task = simulation.simulated_platform.start(migration("vm3", "a", "c"))

    (record,) = simulation.recover()

    assert record.outcome is Outcome.DONE
    assert record.task == task
    assert simulation.observer.started_steps == ["3"]
    assert simulation.elapsed > 5


def test_recover_records_ended_task() -> None:
    simulation = unfinished_record(task=None)
    task = simulation.simulated_platform.start(migration("vm3", "a", "c"))
    simulation.clock.sleep(3)
    simulation.simulated_platform.abort(task)

    (record,) = simulation.recover()

    assert record.outcome is Outcome.FAILED
    assert "vm3" in record.detail


def test_recover_unknown_task_is_lost() -> None:
    simulation = unfinished_record(task="live-migration vm3 a c")

    (record,) = simulation.recover()

    assert record.outcome is Outcome.LOST
    assert "vm3" in record.detail


def test_recover_overdue_task_is_aborted() -> None:
    simulation = unfinished_record(task=None)
    simulation.simulated_platform.make_non_converging(GuestId("vm3"))
    simulation.simulated_platform.start(migration("vm3", "a", "c"))
    simulation.clock.sleep(400)

    (record,) = simulation.recover()

    assert record.outcome is Outcome.ABORTED
    assert record.detail.startswith("timeout: did not converge within 300 s")


def test_recover_cancelled_twice_aborts_tasks() -> None:
    simulation = unfinished_record(task=None)
    simulation.simulated_platform.start(migration("vm3", "a", "c"))
    simulation.cancellation.cancel()
    simulation.cancellation.cancel()

    (record,) = simulation.recover()

    assert record.outcome is Outcome.ABORTED
    assert simulation.node_of("vm3") == "a"


def test_recover_aborts_rest_of_incomplete_group() -> None:
    simulation = SimulatedCluster(sample_cluster())
    for name, guest in (("1", "vm1"), ("2", "vm2")):
        simulation.store.write(
            StepRecord(
                run="run",
                step=StepId(name),
                action=migration(guest, "a", "b"),
                intended_at=NOON,
            )
        )
    simulation.simulated_platform.start(migration("vm1", "a", "b"))

    first, second = simulation.recover()

    assert first.outcome is Outcome.ABORTED
    assert second.outcome is Outcome.LOST
    assert simulation.node_of("vm1") == simulation.node_of("vm2") == "a"


def test_recover_groups_only_steps_of_same_run() -> None:
    simulation = SimulatedCluster(sample_cluster())
    for run, guest in (("first", "vm1"), ("second", "vm2")):
        simulation.store.write(
            StepRecord(
                run=run,
                step=StepId("1"),
                action=migration(guest, "a", "b"),
                intended_at=NOON,
            )
        )
    simulation.simulated_platform.start(migration("vm1", "a", "b"))

    outcomes = [record.outcome for record in simulation.recover()]

    assert outcomes == [Outcome.DONE, Outcome.LOST]


def test_recover_works_while_rules_are_unavailable() -> None:
    simulation = unfinished_record(task=None)
    simulation.store.write(
        StepRecord(
            run="run",
            step=StepId("4"),
            action=migration("vm4", "a", "c"),
            intended_at=NOON + timedelta(seconds=1),
        )
    )
    simulation.simulated_platform.start(migration("vm3", "a", "c"))
    simulation.simulated_platform.disconnect()
    simulation.simulated_platform.schedule_fault(
        30, simulation.simulated_platform.reconnect
    )

    outcomes = [record.outcome for record in simulation.recover()]

    assert outcomes == [Outcome.DONE, Outcome.LOST]
    assert simulation.observer.waits[0][0] == "3"
