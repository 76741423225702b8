"""Cycle of apply: recover interrupted steps, plan, confirm, execute, report."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta

import pytest

from opendrs.cli.apply_cycle import ApplyResult, ApplyTask, run_apply_cycle
from opendrs.cli.platforms import ClusterSource
from opendrs.controller import CancellationToken, ExecutionObserver, NullObserver
from opendrs.model import GuestId, Limits, LiveMigration, NodeId, Snapshot, Step, StepId
from opendrs.policies import AutoRebalance, Balance, DecisionReason, Policy
from opendrs.ports import CycleRecord, Outcome, StepRecord, TaskStatus
from opendrs.simulation import SimulatedClock, SimulatedPlatform
from opendrs.store import MemoryStore
from support.builders import NOON, cluster

IMBALANCED = cluster(
    nodes={"a": 0.8, "b": 0.0},
    guests={"one": ("a", 0.2), "two": ("a", 0.2), "three": ("a", 0.2)},
)
BALANCED = cluster(nodes={"a": 0.5, "b": 0.5}, guests={"vm": ("a", 0.1)})
NO_COOLDOWN = Limits(cooldown=0, min_uptime=0, migration_timeout=300)
MOVE = LiveMigration(GuestId("one"), NodeId("a"), NodeId("b"))


class RecordingOutput:
    """An audience that keeps what it is shown."""

    def __init__(self, observer: ExecutionObserver | None = None) -> None:
        self.records: Sequence[StepRecord] = ()
        self.results: list[ApplyResult] = []
        self.cancellations: list[CancellationToken] = []
        self._observer = observer or NullObserver()

    def show_recovery(self, records: Sequence[StepRecord]) -> None:
        self.records = records

    def show_decision(self, result: ApplyResult) -> None:
        self.results.append(result)

    def observer(
        self, cancellation: CancellationToken
    ) -> AbstractContextManager[ExecutionObserver]:
        self.cancellations.append(cancellation)
        return nullcontext(self._observer)

    def show_result(self, result: ApplyResult) -> None:
        self.results.append(result)


def create_task(
    snapshot: Snapshot,
    policy: Policy[int] | Policy[None] | None = None,
    store: MemoryStore | None = None,
) -> tuple[ApplyTask, SimulatedPlatform]:
    clock = SimulatedClock(start=snapshot.taken_at)
    platform = SimulatedPlatform(snapshot, clock, load_variation=0.0)
    source = ClusterSource(platform=platform, clock=clock, is_persistent=False)
    chosen = policy or Balance(limits=NO_COOLDOWN)
    return ApplyTask(
        source=source, policy=chosen, store=store or MemoryStore()
    ), platform


def unfinished_record(platform: SimulatedPlatform, store: MemoryStore) -> StepRecord:
    """Return the record of a move that a process which is dead has started."""
    record = StepRecord(
        run="earlier",
        step=StepId("7"),
        action=MOVE,
        intended_at=NOON,
        task=platform.start(MOVE),
    )
    store.write(record)
    return record


def test_completed_plan_is_success() -> None:
    apply_task, platform = create_task(IMBALANCED)
    recording = RecordingOutput()

    status = run_apply_cycle(apply_task, recording, consent=lambda: True)

    done = recording.results[-1]
    assert status == 0
    assert done.report is not None
    assert done.report.all_done
    assert done.after == platform.observe()
    assert done.metrics["imbalance"] < done.decision.before["imbalance"]


def test_empty_plan_is_success_without_confirmation() -> None:
    apply_task, _ = create_task(BALANCED)
    recording = RecordingOutput()

    status = run_apply_cycle(
        apply_task, recording, consent=lambda: pytest.fail("asked")
    )

    assert status == 0
    assert recording.results[-1].decision.reason is DecisionReason.BALANCED


def test_declined_plan_starts_nothing() -> None:
    apply_task, platform = create_task(IMBALANCED)

    status = run_apply_cycle(apply_task, RecordingOutput(), consent=lambda: False)

    assert status == 1
    assert platform.observe().guests[GuestId("one")].node == "a"


@pytest.mark.parametrize(("agreed", "steps"), [(True, 2), (False, 0)])
def test_cycle_is_recorded_before_confirmation(*, agreed: bool, steps: int) -> None:
    store = MemoryStore()
    apply_task, _ = create_task(IMBALANCED, store=store)
    recorded: list[CycleRecord] = []

    def consent() -> bool:
        recorded.extend(store.cycles())
        return agreed

    run_apply_cycle(apply_task, RecordingOutput(), consent)

    (cycle,) = recorded
    assert cycle.document.keys() >= {"settings", "memory", "snapshot", "decision"}
    assert len(store.records_of(cycle.run)) == steps


def test_failed_step_is_a_failure() -> None:
    apply_task, platform = create_task(IMBALANCED)
    platform.schedule_fault(2, lambda: platform.fail_node(NodeId("b")))

    status = run_apply_cycle(apply_task, RecordingOutput(), consent=lambda: True)

    assert status == 3


class CancellingObserver(NullObserver):
    """An operator who stops as soon as something runs.

    Args:
        cancellations: How often Ctrl-C is pressed.
    """

    def __init__(self, cancellations: int) -> None:
        self.cancellations = cancellations
        self.recording: RecordingOutput

    def step_progressed(self, step: Step, status: TaskStatus) -> None:
        del step, status
        while self.cancellations:
            self.cancellations -= 1
            self.recording.cancellations[-1].cancel()


@pytest.mark.parametrize(
    ("pulls", "outcome"), [(1, Outcome.DONE), (2, Outcome.ABORTED)]
)
def test_cancelled_step_is_incomplete_and_no_failure(
    pulls: int, outcome: Outcome
) -> None:
    limits = Limits(cooldown=0, min_uptime=0, max_parallel_migrations=1)
    apply_task, _ = create_task(IMBALANCED, Balance(limits=limits))
    operator = CancellingObserver(pulls)
    operator.recording = RecordingOutput(operator)

    status = run_apply_cycle(apply_task, operator.recording, consent=lambda: True)

    report = operator.recording.results[-1].report
    assert report is not None
    assert status == 1
    assert [record.outcome for record in report.records] == [outcome, Outcome.SKIPPED]


def test_interrupted_steps_are_recovered_first() -> None:
    store = MemoryStore()
    apply_task, platform = create_task(IMBALANCED, store=store)
    begun = unfinished_record(platform, store)
    recording = RecordingOutput()

    status = run_apply_cycle(apply_task, recording, consent=lambda: True)

    [resumed] = recording.results[-1].recovered
    assert status == 0
    assert recording.records == (begun,)
    assert (resumed.run, resumed.outcome) == ("earlier", Outcome.DONE)
    assert recording.results[0].before.guests[GuestId("one")].node == "b"
    assert store.unfinished() == ()


@pytest.mark.parametrize("pulls", [1, 2])
def test_cancelled_recovery_starts_nothing(pulls: int) -> None:
    store = MemoryStore()
    apply_task, platform = create_task(IMBALANCED, store=store)
    unfinished_record(platform, store)
    operator = CancellingObserver(pulls)
    operator.recording = RecordingOutput(operator)

    with pytest.raises(KeyboardInterrupt):
        run_apply_cycle(apply_task, operator.recording, consent=lambda: True)

    assert operator.recording.results == []
    assert store.unfinished() == ()
    assert len(store.recent(NOON)) == 1


def test_policy_memory_survives_between_cycles() -> None:
    store, policy = MemoryStore(), AutoRebalance(hold=2, limits=NO_COOLDOWN)
    reasons = []
    for _ in range(2):
        apply_task, _ = create_task(IMBALANCED, policy, store)
        recording = RecordingOutput()
        run_apply_cycle(apply_task, recording, consent=lambda: False)
        reasons.append(recording.results[0].decision.reason)

    assert reasons[0] is DecisionReason.HOLD_NOT_REACHED
    assert reasons[1] is not DecisionReason.HOLD_NOT_REACHED


def test_result_is_shown_when_the_cluster_is_unreachable() -> None:
    apply_task, platform = create_task(
        IMBALANCED, Balance(max_migrations=1, limits=NO_COOLDOWN)
    )

    class Last(NullObserver):
        def step_finished(self, step: Step, record: StepRecord) -> None:
            del step, record
            platform.disconnect()

    recording = RecordingOutput(Last())

    status = run_apply_cycle(apply_task, recording, consent=lambda: True)

    assert status == 0
    assert recording.results[-1].report is not None
    assert recording.results[-1].after is None


def test_records_have_the_time_of_the_clock() -> None:
    apply_task, _ = create_task(IMBALANCED)
    recording = RecordingOutput()

    run_apply_cycle(apply_task, recording, consent=lambda: True)

    report = recording.results[-1].report
    assert report is not None
    for record in report.records:
        assert record.ended_at is not None
        assert timedelta() < record.ended_at - NOON < timedelta(minutes=10)
