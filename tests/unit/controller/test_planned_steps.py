"""Steps that open plans will execute."""

from __future__ import annotations

from dataclasses import replace

import pytest

from opendrs.controller.planned_steps import planned_steps
from opendrs.model import Step, StepId
from opendrs.ports import Outcome, PlanApproval, PlanState, StepRecord
from support.builders import NOON
from support.open_plans import open_plan
from support.simulated_cluster import migration, step

STEPS = (
    step("1", migration("vm1", "a", "b")),
    step("2", migration("vm2", "a", "c")),
    step("3", migration("vm3", "b", "c")),
)
PLAN = open_plan(*STEPS)


def record(of: Step, outcome: Outcome | None, run: str = PLAN.run) -> StepRecord:
    return StepRecord(
        run=run,
        step=of.id,
        action=of.action,
        intended_at=NOON,
        ended_at=None if outcome is None else NOON,
        outcome=outcome,
    )


@pytest.mark.parametrize(
    ("subject", "expected"),
    [("vm1", ["1"]), ("a", ["1", "2"]), ("c", ["2", "3"]), ("d", [])],
)
def test_step_concerns_its_guest_and_both_nodes(
    subject: str, expected: list[str]
) -> None:
    found = planned_steps([PLAN], [])

    assert [each.step.id for each in found if each.concerns(subject)] == expected


def test_steps_that_ended_or_are_not_approved_are_not_planned() -> None:
    approval = PlanApproval(
        user="ada", at=NOON, steps=(StepId("1"), StepId("2")), digest=PLAN.digest
    )
    plan = replace(PLAN, state=PlanState.RUNNING, approval=approval)
    other = record(STEPS[1], Outcome.DONE, run="another run")

    found = list(
        planned_steps([plan], [record(STEPS[0], None), record(STEPS[2], None), other])
    )
    later = planned_steps([plan], [record(STEPS[0], Outcome.FAILED)])

    assert [(each.step.id, each.running) for each in found] == [
        ("1", True),
        ("2", False),
    ]
    assert [each.step.id for each in later] == ["2"]
