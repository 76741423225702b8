"""What happens to steps, told as events."""

from __future__ import annotations

import logging

from opendrs.controller.brake import Brake
from opendrs.controller.documents import action_document
from opendrs.controller.telling import tell
from opendrs.model import Action, PowerOff, PowerOn, Step, StepId
from opendrs.ports import Outcome, StepRecord, TaskStatus

_FAILURES = (Outcome.FAILED, Outcome.LOST, Outcome.ABORTED)


class StepLog:
    """A watcher that tells the log.

    Args:
        brake: How the operator stops what happens; told when it has been pulled.
    """

    def __init__(self, brake: Brake) -> None:
        self._brake = brake
        self._pulls = 0
        self._running: set[StepId] = set()
        self._why = ""

    def started(self, step: Step) -> None:
        """Log it, with the reason that the policy has for it."""
        self._running.add(step.id)
        _tell("step-started", step, "started", step.why)

    def progressed(self, step: Step, status: TaskStatus) -> None:  # noqa: ARG002 - a Watcher
        """Say nothing of that: it would be said every second."""
        self._tell_brake()

    def waiting(self, step: Step, why: str) -> None:
        """Tell what holds everything up; who waits for others, waits in silence."""
        silent = bool(self._running) or why == self._why
        level = logging.DEBUG if silent else logging.INFO
        _tell("step-waiting", step, "waits", why, level=level)
        self._why = why

    def ended(self, step: Step, record: StepRecord) -> None:
        """Tell it."""
        self._running.discard(step.id)
        self._tell_brake()
        outcome = record.outcome or Outcome.LOST
        level = logging.WARNING if outcome in _FAILURES else logging.INFO
        _tell("step-ended", step, outcome.value, record.detail, level=level)

    def _tell_brake(self) -> None:
        pulls = self._brake.stopping + self._brake.aborting
        if pulls > self._pulls:
            self._pulls = pulls
            if self._brake.aborting:
                tell("aborting", "giving up what runs", level=logging.WARNING)
            else:
                tell("stopping", "starting nothing more; what runs goes to its end")


def _tell(
    event: str, step: Step, what: str, why: str = "", level: int = logging.INFO
) -> None:
    tell(
        event,
        f"step {step.id} ({_deed(step.action)}): {what}{f': {why}' if why else ''}",
        level=level,
        step=step.id,
        **action_document(step.action),
        state=what,
        detail=why,
    )


def _deed(action: Action) -> str:
    if isinstance(action, PowerOn | PowerOff):
        verb = "wake" if isinstance(action, PowerOn) else "put to sleep"
        return f"{verb} {action.node}"
    return f"{action.guest}: {action.source} -> {action.target}"
