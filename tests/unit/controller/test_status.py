"""State of a controller process before the end of its first cycle."""

from __future__ import annotations

from datetime import timedelta

import pytest

from opendrs.controller.status import ControllerProcess, is_recent
from opendrs.model import StepId
from opendrs.ports import Outcome, StepRecord
from support.builders import NOON
from support.simulated_cluster import migration

PROCESS = ControllerProcess(
    host="host",
    pid=1,
    version="1",
    started_at=NOON,
    policy="balance",
    interval=30.0,
)


# Three intervals of 30 s may pass.
@pytest.mark.parametrize(("seconds", "recent"), [(90, True), (91, False)])
def test_before_its_first_cycle_the_start_of_the_controller_counts(
    seconds: float, *, recent: bool
) -> None:
    now = NOON + timedelta(seconds=seconds)

    assert is_recent(PROCESS, None, now, ()) is recent


def test_first_plan_in_execution_is_not_late() -> None:
    step = StepRecord(
        run="run",
        step=StepId("s1"),
        action=migration("vm", "a", "b"),
        intended_at=NOON,
    )

    assert is_recent(PROCESS, None, NOON + timedelta(hours=2), (step,))


# Three intervals of 30 s may pass after the end of the last step.
@pytest.mark.parametrize(("seconds", "recent"), [(90, True), (91, False)])
def test_after_a_plan_the_end_of_its_last_step_counts(
    seconds: float, *, recent: bool
) -> None:
    ended = NOON + timedelta(hours=2)
    step = StepRecord(
        run="run",
        step=StepId("s1"),
        action=migration("vm", "a", "b"),
        intended_at=NOON,
        ended_at=ended,
        outcome=Outcome.DONE,
    )

    found = is_recent(PROCESS, None, ended + timedelta(seconds=seconds), (step,))

    assert found is recent
