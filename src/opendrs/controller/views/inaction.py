"""The reason why nothing is done next, as a code and one sentence."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum

from opendrs.config.controller_settings import Mode
from opendrs.controller.modes import EffectiveMode
from opendrs.controller.status import FAILED, LastCycle
from opendrs.model import format_count
from opendrs.policies import DecisionReason, reason_text
from opendrs.ports import PlanRecord


class InactionReason(StrEnum):
    """Reason why nothing is done next, if the decision itself does not give it."""

    NO_CYCLE = "no-cycle"
    """No cycle has ended yet."""
    CYCLE_FAILED = "cycle-failed"
    """The platform was unreachable in the last cycle."""
    MODE_OBSERVE = "mode-observe"
    """The mode allows no plan to start."""
    PLAN_ENDED = "plan-ended"
    """The plan of the last cycle has ended."""


def inaction_document(
    cycle: LastCycle | None, mode: EffectiveMode, open_plans: Collection[PlanRecord]
) -> dict[str, str] | None:
    """Return why nothing is done next; None if a plan waits or is executed.

    Args:
        cycle: The last cycle that ended; None if there was none.
        mode: The mode that applies now.
        open_plans: Plans that have not ended.

    Returns:
        The code `reason`: an `InactionReason` or `DecisionReason`; and the `sentence`.
    """
    if open_plans:
        return None
    if cycle is None:
        return _inaction(InactionReason.NO_CYCLE, "no cycle has ended yet")
    if cycle.reason == FAILED:
        sentence = f"the last cycle failed: {cycle.detail}"
        return _inaction(InactionReason.CYCLE_FAILED, sentence)
    if not cycle.steps:
        return _inaction(cycle.reason, decision_sentence(cycle.reason, cycle.detail))
    steps = format_count(cycle.steps, "step")
    if mode.mode is Mode.OBSERVE:
        sentence = f"mode observe: {steps} recorded, not started: {mode.detail}"
        return _inaction(InactionReason.MODE_OBSERVE, sentence)
    sentence = f"the plan of the last cycle, {steps}, has ended"
    return _inaction(InactionReason.PLAN_ENDED, sentence)


def decision_sentence(reason: str, detail: str) -> str:
    """Return the reason of a decision as a sentence.

    Args:
        reason: Code of the reason; of another version, it may be unknown.
        detail: The reason with its numbers; may be empty.
    """
    known = {each.value: reason_text(each) for each in DecisionReason}
    text = known.get(reason, reason)
    return f"{text}: {detail}" if detail else text


def _inaction(reason: str, sentence: str) -> dict[str, str]:
    return {"reason": str(reason), "sentence": sentence}
