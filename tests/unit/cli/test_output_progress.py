"""Output of progress during execution."""

import io
from dataclasses import replace
from datetime import timedelta

from opendrs.cli.console import TerminalConsole
from opendrs.cli.output import ProgressObserver
from opendrs.controller import CancellationToken
from opendrs.model import (
    GuestId,
    LiveMigration,
    NodeId,
    PowerOff,
    PowerOn,
    Step,
    StepId,
)
from opendrs.ports import Outcome, Progress, StepRecord, TaskState, TaskStatus
from support.builders import NOON

MOVE = Step(StepId("1"), LiveMigration(GuestId("vm"), NodeId("a"), NodeId("b")))
POWER_ON = Step(StepId("2"), PowerOn(NodeId("c")))
POWER_OFF = Step(StepId("3"), PowerOff(NodeId("c")))


def step_record(step: Step, outcome: Outcome, detail: str = "") -> StepRecord:
    return StepRecord(
        run="test",
        step=step.id,
        action=step.action,
        intended_at=NOON,
        ended_at=NOON.replace(minute=1, second=5),
        outcome=outcome,
        detail=detail,
    )


def recording_console(*, terminal: bool = False) -> tuple[TerminalConsole, io.StringIO]:
    text = io.StringIO()
    made = TerminalConsole(
        file=text,
        width=100,
        force_terminal=terminal,
        force_interactive=terminal,
        color_system=None,
        markup=False,
        _environ={"TERM": "xterm"},
    )
    return made, text


def test_started_and_finished_steps_are_printed() -> None:
    console, text = recording_console()
    with ProgressObserver(console, CancellationToken()) as reporter:
        reporter.step_started(MOVE)
        reporter.step_finished(MOVE, step_record(MOVE, Outcome.DONE))
        reporter.step_finished(
            POWER_ON, step_record(POWER_ON, Outcome.FAILED, "no answer")
        )
        reporter.step_finished(
            POWER_OFF, step_record(POWER_OFF, Outcome.REJECTED, "not empty")
        )

    assert text.getvalue().splitlines() == [
        "started 1: vm a → b",
        "done 1: vm a → b, in 1 min 5 s",
        "failed 2: power on c: no answer",
        "rejected 3: power off c: not empty",
    ]


def test_waiting_detail_is_printed_once() -> None:
    console, text = recording_console()
    with ProgressObserver(console, CancellationToken()) as reporter:
        reporter.step_waiting(MOVE, "no answer")
        reporter.step_waiting(POWER_ON, "no answer")

    assert text.getvalue().splitlines() == ["waiting: no answer"]


def test_waiting_for_a_running_step_is_silent() -> None:
    console, text = recording_console()
    with ProgressObserver(console, CancellationToken()) as reporter:
        reporter.step_started(MOVE)
        reporter.step_waiting(POWER_ON, "2 moves under way")

    assert text.getvalue().splitlines() == ["started 1: vm a → b"]


def test_each_cancellation_is_reported_once() -> None:
    console, text = recording_console()
    cancellation = CancellationToken()
    status = TaskStatus(TaskState.RUNNING)
    with ProgressObserver(console, cancellation) as reporter:
        for _ in range(2):
            cancellation.cancel()
            reporter.step_progressed(MOVE, status)
            reporter.step_progressed(MOVE, status)

    assert text.getvalue().splitlines() == [
        (
            "No further step starts. Running migrations finish; "
            "Ctrl-C again aborts them."
        ),
        "Aborting running migrations.",
    ]


def test_a_terminal_shows_how_far_a_migration_is() -> None:
    console, text = recording_console(terminal=True)
    found = Progress(total=4 << 30, remaining=1 << 30, dirty_rate=3e7, downtime=0.25)
    with ProgressObserver(console, CancellationToken()) as reporter:
        reporter.step_started(MOVE)
        reporter.step_progressed(MOVE, TaskStatus(TaskState.RUNNING, progress=found))

    assert "vm a → b" in text.getvalue()
    assert "1.0 GiB left, dirty 28.6 MiB/s, downtime if now 250 ms" in text.getvalue()


def test_terminal_shows_partial_progress() -> None:
    console, text = recording_console(terminal=True)
    found = Progress(remaining=1 << 30)
    with ProgressObserver(console, CancellationToken()) as reporter:
        reporter.step_progressed(MOVE, TaskStatus(TaskState.RUNNING, progress=found))

    assert "1.0 GiB left" in text.getvalue()


def test_terminal_shows_recovered_steps() -> None:
    console, text = recording_console(terminal=True)
    with ProgressObserver(console, CancellationToken()) as reporter:
        reporter.step_progressed(
            MOVE, TaskStatus(TaskState.RUNNING, progress=Progress(remaining=1))
        )
        reporter.step_finished(MOVE, step_record(MOVE, Outcome.LOST, "gone"))

    assert "lost     1: vm a → b: gone" in text.getvalue()


def test_negative_duration_is_not_shown() -> None:
    console, text = recording_console()
    set_back = replace(
        step_record(MOVE, Outcome.DONE), ended_at=NOON - timedelta(hours=1)
    )
    with ProgressObserver(console, CancellationToken()) as reporter:
        reporter.step_finished(MOVE, set_back)

    assert text.getvalue() == "done 1: vm a → b\n"
