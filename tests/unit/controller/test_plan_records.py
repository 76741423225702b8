"""Texts about the outcomes of a plan."""

from __future__ import annotations

import pytest

from opendrs.controller.plan_records import first_failure, outcome_text
from opendrs.model import StepId
from opendrs.ports import Outcome, StepRecord
from support.builders import NOON
from support.simulated_cluster import migration


def step_record(step: int, outcome: Outcome, detail: str = "") -> StepRecord:
    return StepRecord(
        run="",
        step=StepId(str(step)),
        action=migration("vm1", "a", "b"),
        intended_at=NOON,
        outcome=outcome,
        detail=detail,
    )


@pytest.mark.parametrize(
    ("detail", "expected"),
    [
        ("aborted by the operator", "aborted by the operator"),
        ("timeout: did not finish within 5 s", "aborted: timeout: did not finish"),
        ("", "aborted"),
    ],
)
def test_outcome_text_names_the_outcome_once(detail: str, expected: str) -> None:
    text = outcome_text(step_record(1, Outcome.ABORTED, detail))

    assert text.startswith(expected)
    assert text.count("aborted") == 1


@pytest.mark.parametrize(
    ("skipped", "end"), [(0, "operator"), (1, "other steps: 1 skipped")]
)
def test_first_failure_counts_the_other_steps_that_were_not_done(
    skipped: int, end: str
) -> None:
    records = [
        step_record(1, Outcome.DONE),
        *[step_record(2, Outcome.SKIPPED, "dependency not done: 3")] * skipped,
        step_record(3, Outcome.ABORTED, "aborted by the operator"),
    ]

    text = first_failure(records)

    assert text.startswith("step 3 aborted by the operator")
    assert text.endswith(end)
