"""Plans as records: their ids and digests, and how they ended."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from opendrs.config import json_line
from opendrs.controller.consent import RecordedDecision
from opendrs.controller.step_groups import group_steps
from opendrs.model import (
    Action,
    Plan,
    Snapshot,
    Step,
    StepId,
    plan_as_text,
)
from opendrs.ports import Outcome, PlanRecord, PlanState, StepRecord

_ID_ALPHABET = "23456789abcdefghjkmnpqrstvwxyz"  # without characters that look alike
_ID_LENGTH = 5


def plan_record(
    decided: RecordedDecision, steps: tuple[Step, ...], now: datetime, lifetime: float
) -> PlanRecord:
    """Return a proposed plan of *decided*, without an id.

    Args:
        decided: The decision.
        steps: The steps of the plan: those of the decision, or a part of them.
        now: The time.
        lifetime: Seconds in which the plan can be approved and started.
    """
    decision = decided.decision
    plan = PlanRecord(
        id="",
        run=decided.run,
        created_at=now,
        lifetime=lifetime,
        policy=decided.policy.name,
        reason=decision.reason.value,
        reason_detail=decision.detail,
        steps=steps,
        groups=joint_steps(steps, decided.snapshot),
        digest="",
        snapshot=_sha256(json_line(decided.snapshot)),
        state=PlanState.PROPOSED,
        changed_at=now,
    )
    return replace(plan, digest=plan_digest(plan))


def plan_id(run: str, attempt: int = 0) -> str:
    """Return a short id that is easy to type, derived from the name of a run.

    Args:
        run: Name of the cycle, which is unique.
        attempt: Number of ids derived before that are in use.
    """
    number = int(_sha256(f"{run} {attempt}"), 16)
    characters = []
    for _ in range(_ID_LENGTH):
        number, index = divmod(number, len(_ID_ALPHABET))
        characters.append(_ID_ALPHABET[index])
    return "".join(characters)


def joint_steps(
    steps: Sequence[Step], snapshot: Snapshot
) -> tuple[tuple[StepId, ...], ...]:
    """Return the steps that must start together, for each group of several steps."""
    groups = group_steps(steps, snapshot.rules)
    return tuple(tuple(step.id for step in group) for group in groups if len(group) > 1)


def plan_digest(plan: PlanRecord) -> str:
    """Return the SHA-256 of the steps and of the snapshot of *plan*."""
    return _sha256(f"{plan.snapshot} {plan_as_text(Plan(plan.steps))}")


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def remaining_steps(steps: Sequence[Step], started: Sequence[Step]) -> tuple[Step, ...]:
    """Return the *steps* that are not in *started*, and do not depend on those."""
    names = {step.id for step in started}
    return tuple(
        replace(
            step,
            depends_on=tuple(name for name in step.depends_on if name not in names),
        )
        for step in steps
        if step.id not in names
    )


def are_same(steps: Sequence[Step], others: Sequence[Step]) -> bool:
    """Return True if both are the same actions in the same order.

    Ignored are the details, which contain measurements, and the ids, which count the
    steps of a decision.
    """
    return _essence(steps) == _essence(others)


def _essence(steps: Sequence[Step]) -> list[tuple[Action, list[int]]]:
    """Return each action, with the positions of the steps that it depends on."""
    positions = {step.id: position for position, step in enumerate(steps)}
    return [
        (step.action, sorted(positions[name] for name in step.depends_on))
        for step in steps
    ]


def interrupted_state(
    plan: PlanRecord, records: Iterable[StepRecord]
) -> tuple[PlanState, str]:
    """Return the final state of a *plan* whose execution was interrupted."""
    outcomes = {record.step: record for record in records}
    approved = () if plan.approval is None else plan.approval.steps
    ended = [outcomes[step] for step in approved if step in outcomes]
    done = sum(record.outcome is Outcome.DONE for record in ended)
    if done == len(approved):
        return PlanState.DONE, f"{done} done"
    count = f"{done} of {len(approved)} steps are done"
    details = ("the controller ended during the execution", count, first_failure(ended))
    return PlanState.FAILED, "; ".join(filter(None, details))


def first_failure(records: Iterable[StepRecord]) -> str:
    """Return the first step that was not done, and why; empty if there is none."""
    undone = [each for each in records if each.outcome is not Outcome.DONE]
    if not undone:
        return ""
    first = next((each for each in undone if each.outcome is not Outcome.SKIPPED), None)
    shown = first or undone[0]
    text = f"step {shown.step} {outcome_text(shown)}"
    others = Counter(str(each.outcome) for each in undone if each is not shown)
    if others:
        counts = (f"{count} {name}" for name, count in sorted(others.items()))
        text += f"; other steps: {', '.join(counts)}"
    return text


def outcome_text(record: StepRecord) -> str:
    """Return the outcome and the detail, without naming the outcome twice."""
    outcome = str(record.outcome or Outcome.LOST)
    if record.detail.startswith(outcome):
        return record.detail
    return ": ".join(filter(None, (outcome, record.detail)))
