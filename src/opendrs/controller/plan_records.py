"""Records of plans: their ids and digests, comparison, and how they ended."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace

from opendrs.controller.step_groups import group_steps
from opendrs.model import Plan, Snapshot, Step, StepId, plan_as_text
from opendrs.ports import Outcome, PlanRecord, PlanState, StepRecord

_ID_ALPHABET = "23456789abcdefghjkmnpqrstvwxyz"  # without characters that look alike
_ID_LENGTH = 5


def plan_id(run: str, attempt: int = 0) -> str:
    """Return a short id that is easy to type, derived from the name of a run.

    Args:
        run: Name of the cycle, which is unique.
        attempt: Number of ids derived before that are in use.
    """
    number = int(sha256(f"{run} {attempt}"), 16)
    characters = []
    for _ in range(_ID_LENGTH):
        number, index = divmod(number, len(_ID_ALPHABET))
        characters.append(_ID_ALPHABET[index])
    return "".join(characters)


def step_id_groups(
    steps: Sequence[Step], snapshot: Snapshot
) -> tuple[tuple[StepId, ...], ...]:
    """Return the steps that must start together, for each group of several steps."""
    groups = group_steps(steps, snapshot.rules)
    return tuple(tuple(step.id for step in group) for group in groups if len(group) > 1)


def plan_digest(plan: PlanRecord) -> str:
    """Return the SHA-256 of the steps of *plan* and of its snapshot."""
    return sha256(f"{plan.snapshot} {plan_as_text(Plan(plan.steps))}")


def sha256(text: str) -> str:
    """Return the SHA-256 of *text* in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def have_same_actions(steps: Sequence[Step], others: Sequence[Step]) -> bool:
    """Return True if both are the same actions in the same order.

    The details are ignored: they contain measurements.
    """
    return [_essence(step) for step in steps] == [_essence(step) for step in others]


def _essence(step: Step) -> Step:
    return replace(step, detail="")


def settlement(
    plan: PlanRecord, records: Iterable[StepRecord]
) -> tuple[PlanState, str]:
    """Return the final state of a *plan* whose execution was interrupted."""
    outcomes = {record.step: record for record in records}
    approved = () if plan.approval is None else plan.approval.steps
    ended = [outcomes[step] for step in approved if step in outcomes]
    done = sum(record.outcome is Outcome.DONE for record in ended)
    if done == len(approved):
        return PlanState.DONE, f"{done} done"
    detail = f"the controller ended during the execution; {done} of {len(approved)} "
    return PlanState.FAILED, f"{detail}steps are done; {first_failure(ended)}".rstrip(
        "; "
    )


def first_failure(records: Iterable[StepRecord]) -> str:
    """Return the first step that was not done, and why; empty if there is none."""
    undone = [each for each in records if each.outcome is not Outcome.DONE]
    if not undone:
        return ""
    first = next((each for each in undone if each.outcome is not Outcome.SKIPPED), None)
    shown = first or undone[0]
    more = f"; {len(undone) - 1} more not done" if len(undone) > 1 else ""
    return f"step {shown.step}: {shown.outcome}: {shown.detail}{more}"
