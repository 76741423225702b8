"""Changes of the states of plans by the controller, each of them logged once."""

from __future__ import annotations

import logging

from opendrs.controller.events import LogEventCode, log_event
from opendrs.ports import Clock, PlanChange, PlanRecord, PlanState, PlanStore

_LEVELS = {PlanState.FAILED: logging.WARNING, PlanState.RUNNING: logging.DEBUG}


class PlanStates:
    """The states of the plans of a controller.

    Each method may raise `StoreError`.

    Args:
        plans: The plans.
        clock: The time.
    """

    def __init__(self, plans: PlanStore, clock: Clock) -> None:
        self._plans = plans
        self._clock = clock

    def change(self, plan: PlanRecord, state: PlanState, detail: str = "") -> bool:
        """Change the state of *plan*; return False if an operator was faster."""
        change = PlanChange(state=state, at=self._clock.now(), detail=detail)
        is_changed = self._plans.change(plan.id, change)
        if is_changed:
            _log(plan, state, detail)
        return is_changed

    def end_late(self, plan: PlanRecord) -> bool:
        """End *plan* if it can no longer start; return True if it cannot.

        A plan without the approval of an operator starts in the cycle that decided it.
        If it has not, the controller was killed, and the decision is not repeated.
        """
        if plan.approval is not None and plan.approval.user is None:
            detail = "the controller ended before the plan started"
            self.change(plan, PlanState.FAILED, detail)
            return True
        if self._clock.now() < plan.expires_at:
            return False
        verb = "approved" if plan.state is PlanState.PROPOSED else "started"
        self.change(plan, PlanState.EXPIRED, f"not {verb} in time")
        return True


def _log(plan: PlanRecord, state: PlanState, detail: str) -> None:
    log_event(
        LogEventCode.PLAN_STATE_CHANGED,
        f"plan {plan.id}: {state}" + (f": {detail}" if detail else ""),
        level=_LEVELS.get(state, logging.INFO),
        plan=plan.id,
        run=plan.run,
        state=state,
    )
