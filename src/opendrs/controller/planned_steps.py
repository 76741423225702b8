"""Steps that open plans will execute: what happens next to a guest or a node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from opendrs.controller.step_serialization import action_document, concerns
from opendrs.model import Migration, Step, StepId
from opendrs.ports import PlanRecord, StepRecord


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A step of an open plan that has not ended.

    Attributes:
        plan: The plan.
        step: The step.
        running: True if it has started.
    """

    plan: PlanRecord
    step: Step
    running: bool

    @property
    def document(self) -> dict[str, object]:
        """Return the step as plain values, with the plan and its state."""
        return {
            "plan": self.plan.id,
            "plan_state": self.plan.state.value,
            "step": self.step.id,
            **action_document(self.step.action),
            "detail": self.step.detail,
            "running": self.running,
        }

    def concerns(self, subject: str) -> bool:
        """Return True if it moves the guest *subject*, or to or from that node."""
        return concerns(self.step.action, subject)

    @property
    def migrated_guest(self) -> str | None:
        """Return the guest that it moves to another node; None if it moves none."""
        action = self.step.action
        return action.guest if isinstance(action, Migration) else None


def planned_steps(
    plans: Iterable[PlanRecord], records: Iterable[StepRecord]
) -> Iterator[PlannedStep]:
    """Yield the steps of open *plans* that are to start, or have not ended.

    Steps that an approval leaves out are absent.

    Args:
        plans: Plans that are proposed, approved or running.
        records: Records of their steps, and of others.
    """
    started = {(each.run, each.step): each for each in records}
    for plan in plans:
        approved = None if plan.approval is None else set[StepId](plan.approval.steps)
        for step in plan.steps:
            if approved is not None and step.id not in approved:
                continue
            record = started.get((plan.run, step.id))
            if record is None or record.outcome is None:
                yield PlannedStep(plan, step, running=record is not None)
