"""Approval of the plan of a decision: the protocol, and approval by consent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from opendrs.controller.executor import ExecutionReport
from opendrs.model import Plan, Snapshot
from opendrs.policies import Decision, Policy
from opendrs.ports import StepRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedDecision:
    """A decision that is recorded, and that nothing has been started of.

    Attributes:
        run: Name of the execution of its plan.
        recovered: Steps of an interrupted run, with their outcomes.
        snapshot: The snapshot that was evaluated.
        policy: The policy.
        decision: Its decision.
        schedule: Name of the entry of the schedule that it decided for, or empty.
    """

    run: str
    recovered: tuple[StepRecord, ...]
    snapshot: Snapshot
    policy: Policy[Any]
    decision: Decision[Any]
    schedule: str = ""


def _ignore_report(report: ExecutionReport) -> None:
    """Do nothing: the outcomes of the steps are recorded elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovedPlan:
    """Steps that may be executed.

    Attributes:
        run: Name of the execution.
        plan: The steps: the plan of a decision, or a part of it.
        policy: Name of the policy that decided it.
        reason: Code of the reason of the decision.
        stop_reason: Function that returns why no further step may start, or an empty
            text; called before each step. It may raise `StoreError`.
        ended: Function that receives the outcomes; it may raise `StoreError`.
    """

    run: str
    plan: Plan
    policy: str
    reason: str
    stop_reason: Callable[[], str] = str
    ended: Callable[[ExecutionReport], None] = _ignore_report


class Approval(Protocol):
    """Approval of plans. Every method may raise `StoreError`."""

    def reconcile(self) -> None:
        """Settle the plans of interrupted runs; called while no step is running."""

    def next_approved(self) -> ApprovedPlan | None:
        """Return a plan of an earlier cycle that is to be executed now, or None."""

    def may_start(self, decided: RecordedDecision) -> bool:
        """Return False if no step may start, neither now nor after an approval.

        The cycle then continues with the next decision.
        """

    def approve(self, decided: RecordedDecision) -> ApprovedPlan | None:
        """Return the steps of the plan that are to be executed now, or None.

        It is called once in each cycle, also for an empty plan.
        """


class ConsentApproval:
    """Approval that asks before the first step, and has no plans of earlier cycles.

    Args:
        consent: Function that returns True if the plan of a decision may be executed.
    """

    def __init__(self, consent: Callable[[RecordedDecision], bool]) -> None:
        self._consent = consent

    def reconcile(self) -> None:
        """Do nothing: there are no plans of interrupted runs."""

    def next_approved(self) -> ApprovedPlan | None:
        """Return None: there are no plans of earlier cycles."""
        return None

    def may_start(self, decided: RecordedDecision) -> bool:
        """Return True: the operator decides."""
        del decided
        return True

    def approve(self, decided: RecordedDecision) -> ApprovedPlan | None:
        """Return the whole plan if it is not empty and may be executed."""
        plan = decided.decision.plan
        if not plan.steps or not self._consent(decided):
            return None
        return ApprovedPlan(
            run=decided.run,
            plan=plan,
            policy=decided.policy.name,
            reason=decided.decision.reason.value,
        )
