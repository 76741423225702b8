"""Protocol of the plans of a controller, their states, and their approval."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from opendrs.model import Step, StepId
from opendrs.ports.store import OperatorAction


class PlanState(StrEnum):
    """State of a plan. The values are stable."""

    PROPOSED = "proposed"
    """The plan waits for the approval of an operator."""
    APPROVED = "approved"
    """The plan was approved; the controller starts it next."""
    RUNNING = "running"
    """Steps of the plan are executed."""
    DONE = "done"
    """All approved steps are done."""
    FAILED = "failed"
    """A step was not done, or the controller ended before it was started."""
    CANCELLED = "cancelled"
    """An operator or the mode stopped the plan; steps in progress finished."""
    REJECTED = "rejected"
    """An operator rejected the plan."""
    EXPIRED = "expired"
    """The plan was not approved, or not started, in time."""
    SUPERSEDED = "superseded"
    """A newer decision, or the end of a drain, replaced the plan."""

    @property
    def is_final(self) -> bool:
        """Return True if the state does not change any more."""
        return not PLAN_TRANSITIONS[self]


PLAN_TRANSITIONS: Mapping[PlanState, frozenset[PlanState]] = {
    PlanState.PROPOSED: frozenset(
        {
            PlanState.APPROVED,
            PlanState.REJECTED,
            PlanState.EXPIRED,
            PlanState.SUPERSEDED,
        }
    ),
    PlanState.APPROVED: frozenset(
        {
            PlanState.RUNNING,
            PlanState.CANCELLED,
            PlanState.EXPIRED,
            PlanState.FAILED,
            PlanState.SUPERSEDED,
        }
    ),
    PlanState.RUNNING: frozenset(
        {PlanState.DONE, PlanState.FAILED, PlanState.CANCELLED}
    ),
    PlanState.DONE: frozenset(),
    PlanState.FAILED: frozenset(),
    PlanState.CANCELLED: frozenset(),
    PlanState.REJECTED: frozenset(),
    PlanState.EXPIRED: frozenset(),
    PlanState.SUPERSEDED: frozenset(),
}
"""The states that may follow each state."""
INITIAL_STATES = frozenset({PlanState.PROPOSED, PlanState.APPROVED})
OPEN_PLAN_STATES = tuple(state for state in PlanState if not state.is_final)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanApproval:
    """Approval of a plan.

    Attributes:
        user: User that approved it; None if it needed none.
        at: Time of the approval.
        steps: The approved steps, with all that they depend on.
        digest: `PlanRecord.digest` of the plan that was approved.
    """

    user: str | None
    at: datetime
    steps: tuple[StepId, ...]
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRecord:
    """A plan that waits for approval, is executed, or has ended.

    Attributes:
        id: Short name for the operator.
        run: Name of the cycle that decided it, and of its execution. Two plans of one
            cycle have different steps.
        created_at: Time of the decision.
        lifetime: Seconds after `created_at` in which it can be approved and started.
            They grow while newer decisions have the same steps.
        policy: Name of the policy.
        reason: Code of the reason of the decision.
        reason_detail: The reason as a sentence.
        steps: The steps.
        groups: Steps that must start together, for each group of several steps.
        digest: SHA-256 of the steps and of the snapshot that they were decided for.
        snapshot: SHA-256 of that snapshot.
        state: The state.
        changed_at: Time of the last change of the state.
        detail: Why the plan has this state, for the operator.
        approval: The approval; None before.
    """

    id: str
    run: str
    created_at: datetime
    lifetime: float
    policy: str
    reason: str
    reason_detail: str
    steps: tuple[Step, ...]
    groups: tuple[tuple[StepId, ...], ...]
    digest: str
    snapshot: str
    state: PlanState
    changed_at: datetime
    detail: str = ""
    approval: PlanApproval | None = None

    @property
    def expires_at(self) -> datetime:
        """Return the time from which it can neither be approved nor started."""
        return self.created_at + timedelta(seconds=self.lifetime)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanChange:
    """Change of the state of a plan.

    Attributes:
        state: The new state.
        at: Time of the change.
        detail: Reason of the change, for the operator.
        approval: The approval, if the new state is approved.
        action: Command of the operator that changes the state, for the audit; None if
            the controller changes it.
        only_from: State that the plan must have; None for any that the new state may
            follow.
    """

    state: PlanState
    at: datetime
    detail: str = ""
    approval: PlanApproval | None = None
    action: OperatorAction | None = None
    only_from: PlanState | None = None


class PlanStore(Protocol):
    """Store of plans. Methods may raise `StoreError`."""

    def add(self, plan: PlanRecord) -> bool:
        """Add *plan*, whose state is initial; delete the oldest plans that ended.

        Returns:
            False if its id is in use; nothing has changed then.
        """

    def plan(self, name: str) -> PlanRecord | None:
        """Return the plan with the id *name*, or None."""

    def plans(
        self, states: Collection[PlanState] = tuple(PlanState)
    ) -> tuple[PlanRecord, ...]:
        """Return the plans in one of *states*, the oldest first."""

    def plans_of(self, runs: Collection[str]) -> tuple[PlanRecord, ...]:
        """Return the plans that the cycles *runs* decided, the oldest first."""

    def declining_commands(self, after: int) -> Mapping[int, OperatorAction]:
        """Return the commands that rejected or cancelled plans, the oldest first.

        Args:
            after: Number of the last command that is left out; 0 for all.

        Returns:
            The commands by number; the numbers increase.
        """

    def change(self, name: str, change: PlanChange) -> bool:
        """Change the state of the plan *name*, in one transaction with the audit.

        Returns:
            False if its present state does not allow the change, or there is no such
            plan; nothing has changed then.
        """

    def renew(self, name: str, lifetime: float) -> bool:
        """Set the lifetime of the plan *name* if it is proposed.

        Returns:
            False if it is not; nothing has changed then.
        """
