"""What happens to steps is told as events."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from builders import NOON
from opendrs.controller import Brake
from opendrs.controller.steplog import StepLog
from opendrs.model import NodeId, PowerOff, PowerOn, Step
from opendrs.ports import Outcome, StepRecord, TaskState, TaskStatus
from stage import migration, step

FIRST = step("1", migration("vm", "a", "b"))
SECOND = step("2", PowerOff(NodeId("a")))


@pytest.fixture(autouse=True)
def _everything_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "opendrs")


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.levelname, record.getMessage()) for record in caplog.records]


def ended(of: Step, outcome: Outcome, detail: str = "") -> StepRecord:
    record = StepRecord(run="run", step=of.id, action=of.action, intended_at=NOON)
    return replace(record, outcome=outcome, detail=detail)


def test_the_life_of_a_step_is_told(caplog: pytest.LogCaptureFixture) -> None:
    log = StepLog(Brake())

    log.started(FIRST)
    log.progressed(FIRST, TaskStatus(TaskState.RUNNING))
    log.ended(FIRST, ended(FIRST, Outcome.DONE))

    assert told(caplog) == [
        ("INFO", "step 1 (vm: a -> b): started"),
        ("INFO", "step 1 (vm: a -> b): done"),
    ]
    about = vars(caplog.records[0])["about"]
    assert about["guest"] == "vm"
    assert (about["source"], about["target"], about["state"]) == ("a", "b", "started")


def test_a_step_that_was_started_is_logged_with_its_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    StepLog(Brake()).started(replace(FIRST, why="imbalance 0.947 to 0.854"))

    assert told(caplog) == [
        ("INFO", "step 1 (vm: a -> b): started: imbalance 0.947 to 0.854")
    ]
    assert vars(caplog.records[0])["about"]["detail"] == "imbalance 0.947 to 0.854"


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.LOST, Outcome.ABORTED])
def test_a_failure_is_a_warning_and_says_why(
    caplog: pytest.LogCaptureFixture, outcome: Outcome
) -> None:
    StepLog(Brake()).ended(SECOND, ended(SECOND, outcome, "no power"))

    assert told(caplog) == [
        ("WARNING", f"step 2 (put to sleep a): {outcome}: no power")
    ]


def test_what_holds_everything_up_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = StepLog(Brake())
    for why in ("b is full", "b is full", "b is away"):
        log.waiting(FIRST, why)

    assert told(caplog) == [
        ("INFO", "step 1 (vm: a -> b): waits: b is full"),
        ("DEBUG", "step 1 (vm: a -> b): waits: b is full"),
        ("INFO", "step 1 (vm: a -> b): waits: b is away"),
    ]


def test_who_waits_for_others_waits_in_silence(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = StepLog(Brake())
    waking = step("3", PowerOn(NodeId("c")))
    log.started(waking)
    log.waiting(FIRST, "c is asleep")

    assert told(caplog) == [
        ("INFO", "step 3 (wake c): started"),
        ("DEBUG", "step 1 (vm: a -> b): waits: c is asleep"),
    ]


def test_each_pull_of_the_brake_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    brake = Brake()
    log = StepLog(brake)
    for pulls in (0, 1, 0, 1, 1):
        for _ in range(pulls):
            brake.pull()
        log.progressed(FIRST, TaskStatus(TaskState.RUNNING))

    assert told(caplog) == [
        ("INFO", "starting nothing more; what runs goes to its end"),
        ("WARNING", "giving up what runs"),
    ]
