"""What happens is told while it happens."""

import io
from dataclasses import replace
from datetime import timedelta

from builders import NOON
from opendrs.cli.progress import Reporter
from opendrs.cli.screen import Screen
from opendrs.controller import Brake
from opendrs.model import GuestId, Migration, NodeId, PowerOff, PowerOn, Step, StepId
from opendrs.ports import (
    Outcome,
    Progress,
    StepRecord,
    TaskState,
    TaskStatus,
)

MOVE = Step(StepId("1"), Migration(GuestId("vm"), NodeId("a"), NodeId("b")))
WAKE = Step(StepId("2"), PowerOn(NodeId("c")))
SLEEP = Step(StepId("3"), PowerOff(NodeId("c")))


def record(step: Step, outcome: Outcome, detail: str = "") -> StepRecord:
    return StepRecord(
        run="test",
        step=step.id,
        action=step.action,
        intended_at=NOON,
        ended_at=NOON.replace(minute=1, second=5),
        outcome=outcome,
        detail=detail,
    )


def screen(*, terminal: bool = False) -> tuple[Screen, io.StringIO]:
    text = io.StringIO()
    made = Screen(
        file=text,
        width=100,
        force_terminal=terminal,
        force_interactive=terminal,
        color_system=None,
        markup=False,
        _environ={"TERM": "xterm"},
    )
    return made, text


def test_tells_what_starts_and_how_it_ends() -> None:
    console, text = screen()
    with Reporter(console, Brake()) as reporter:
        reporter.started(MOVE)
        reporter.ended(MOVE, record(MOVE, Outcome.DONE))
        reporter.ended(WAKE, record(WAKE, Outcome.FAILED, "no answer"))
        reporter.ended(SLEEP, record(SLEEP, Outcome.REFUSED, "not empty"))

    assert text.getvalue().splitlines() == [
        "started 1: vm a → b",
        "done 1: vm a → b, in 1 min 5 s",
        "failed 2: wake c: no answer",
        "refused 3: put c to sleep: not empty",
    ]


def test_tells_once_what_everything_waits_for() -> None:
    console, text = screen()
    with Reporter(console, Brake()) as reporter:
        reporter.waiting(MOVE, "no answer")
        reporter.waiting(WAKE, "no answer")

    assert text.getvalue().splitlines() == ["waiting: no answer"]


def test_waiting_for_a_step_that_runs_is_nothing_to_tell() -> None:
    console, text = screen()
    with Reporter(console, Brake()) as reporter:
        reporter.started(MOVE)
        reporter.waiting(WAKE, "2 moves under way")

    assert text.getvalue().splitlines() == ["started 1: vm a → b"]


def test_tells_once_what_each_pull_of_the_brake_means() -> None:
    console, text = screen()
    brake = Brake()
    status = TaskStatus(TaskState.RUNNING)
    with Reporter(console, brake) as reporter:
        for _ in range(2):
            brake.pull()
            reporter.progressed(MOVE, status)
            reporter.progressed(MOVE, status)

    assert text.getvalue().splitlines() == [
        ("Starting nothing more. Running migrations finish; Ctrl-C again aborts them."),
        "Aborting running migrations.",
    ]


def test_a_terminal_shows_how_far_a_migration_is() -> None:
    console, text = screen(terminal=True)
    found = Progress(total=4 << 30, remaining=1 << 30, dirty_rate=3e7, downtime=0.25)
    with Reporter(console, Brake()) as reporter:
        reporter.started(MOVE)
        reporter.progressed(MOVE, TaskStatus(TaskState.RUNNING, progress=found))

    assert "vm a → b" in text.getvalue()
    assert "1.0 GiB left, dirty 28.6 MiB/s, downtime 250 ms" in text.getvalue()


def test_a_terminal_shows_what_is_known_when_that_is_little() -> None:
    console, text = screen(terminal=True)
    found = Progress(remaining=1 << 30)
    with Reporter(console, Brake()) as reporter:
        reporter.progressed(MOVE, TaskStatus(TaskState.RUNNING, progress=found))

    assert "1.0 GiB left" in text.getvalue()


def test_a_terminal_shows_the_end_of_what_an_earlier_run_started() -> None:
    console, text = screen(terminal=True)
    with Reporter(console, Brake()) as reporter:
        reporter.progressed(
            MOVE, TaskStatus(TaskState.RUNNING, progress=Progress(remaining=1))
        )
        reporter.ended(MOVE, record(MOVE, Outcome.LOST, "gone"))

    assert "lost     1: vm a → b: gone" in text.getvalue()


def test_a_step_that_ended_before_it_began_took_no_known_time() -> None:
    console, text = screen()
    set_back = replace(record(MOVE, Outcome.DONE), ended_at=NOON - timedelta(hours=1))
    with Reporter(console, Brake()) as reporter:
        reporter.ended(MOVE, set_back)

    assert text.getvalue() == "done 1: vm a → b\n"
