"""The progress of running migrations is recorded at most once a second."""

from __future__ import annotations

from opendrs.controller.progress_record import ProgressRecorder
from opendrs.controller.status import recorded_progress
from opendrs.model import Step, StepId, format_timestamp
from opendrs.ports import Outcome, Progress, StepRecord, TaskState, TaskStatus
from opendrs.simulation import SimulatedClock
from opendrs.store import MemoryStore
from support.builders import NOON
from support.simulated_cluster import migration

STEPS = [
    Step(StepId("1"), migration("one", "a", "b")),
    Step(StepId("2"), migration("two", "a", "b")),
]


def status(remaining: int | None) -> TaskStatus:
    progress = Progress(total=100, remaining=remaining, dirty_rate=5.0)
    return TaskStatus(TaskState.RUNNING, progress=progress)


def test_progress_is_recorded_and_forgotten() -> None:
    store, clock = MemoryStore(), SimulatedClock(NOON)
    recorder = ProgressRecorder(clock)
    recorder.step_progressed(STEPS[0], status(90))
    recorder.steps_polled()  # without a store
    recorder.lease_acquired(store)
    assert recorded_progress(store) == []

    recorder.step_progressed(STEPS[0], status(80))
    recorder.step_progressed(STEPS[1], TaskStatus(TaskState.RUNNING))
    recorder.steps_polled()

    expected = {
        "step": "1",
        "total": 100,
        "remaining": 80,
        "dirty_rate": 5.0,
        "bandwidth": None,
        "at": format_timestamp(NOON),
    }
    assert recorded_progress(store) == [expected]

    recorder.step_progressed(STEPS[0], status(10))
    recorder.steps_polled()
    assert recorded_progress(store) == [expected]

    clock.sleep(1.0)
    recorder.steps_polled()
    assert recorded_progress(store) == [{**expected, "remaining": 10}]

    clock.sleep(1.0)
    record = StepRecord(
        run="r",
        step=STEPS[0].id,
        action=STEPS[0].action,
        intended_at=NOON,
        outcome=Outcome.DONE,
    )
    recorder.step_finished(STEPS[0], record)
    recorder.steps_polled()
    assert recorded_progress(store) == []
