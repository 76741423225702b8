"""Changes of the states of plans by the controller or operators, each logged once."""

from __future__ import annotations

import logging

from opendrs.controller.events import LogEventCode, log_event
from opendrs.controller.executor import ExecutionReport
from opendrs.controller.plan_records import first_failure
from opendrs.model import decoding, format_count
from opendrs.ports import (
    Clock,
    Outcome,
    PlanApproval,
    PlanChange,
    PlanRecord,
    PlanState,
    PlanStore,
    Store,
)

LOGGED_KEY = "logged-commands"  # of the entry with the number of the last command
_LEVELS = {PlanState.FAILED: logging.WARNING, PlanState.RUNNING: logging.DEBUG}
_DECLINING = {"reject": PlanState.REJECTED, "cancel": PlanState.CANCELLED}


class PlanStates:
    """The states of the plans of a controller.

    Each method may raise `StoreError`.

    Args:
        plans: The plans.
        store: The store with the entry of what is logged.
        clock: The time.
    """

    def __init__(self, plans: PlanStore, store: Store, clock: Clock) -> None:
        self._plans = plans
        self._store = store
        self._clock = clock
        self._kept: set[str] = set()

    def change(self, plan: PlanRecord, state: PlanState, detail: str = "") -> bool:
        """Change the state of *plan*; return False if an operator was faster.

        A plan that is approved meanwhile does not expire, nor is it superseded.
        """
        is_proposed = plan.state is PlanState.PROPOSED
        change = PlanChange(
            state=state,
            at=self._clock.now(),
            detail=detail,
            only_from=plan.state if is_proposed else None,
        )
        is_changed = self._plans.change(plan.id, change)
        if is_changed:
            # The detail of a plan that is done is that of the event `plan-executed`.
            is_shown = detail and state is not PlanState.DONE
            text = f"{state}: {detail}" if is_shown else state.value
            level = _LEVELS.get(state, logging.INFO)
            _log(plan.id, state, text, level, run=plan.run)
        return is_changed

    def start(self, plan: PlanRecord, approval: PlanApproval) -> bool:
        """Record that *plan* is running; return False if an operator has cancelled it.

        The approval of an operator is logged here, because the command that approves
        runs in another process.
        """
        if not self.change(plan, PlanState.RUNNING):
            return False
        if approval.user is not None:
            steps = f"{len(approval.steps)} of {format_count(len(plan.steps), 'step')}"
            text = f"approved by {approval.user}: {steps}"
            _log(plan.id, PlanState.APPROVED, text, run=plan.run)
        return True

    def settle(
        self, plan: PlanRecord, report: ExecutionReport, stop_reason: str
    ) -> None:
        """Record how the execution of *plan* ended, unless steps are left open.

        Args:
            plan: The plan.
            report: The outcomes of its steps.
            stop_reason: Why no further step could start; empty if all could.
        """
        if any(record.outcome is None for record in report.records):
            return
        log_event(
            LogEventCode.PLAN_EXECUTED,
            f"plan {plan.id}: all steps ended: {report.summary}",
            plan=plan.id,
            run=plan.run,
        )
        if report.all_done:
            self.change(plan, PlanState.DONE, report.summary)
            return
        undone = {Outcome.DONE, Outcome.SKIPPED}
        is_failed = any(record.outcome not in undone for record in report.records)
        if stop_reason and not is_failed:
            detail = f"{stop_reason}; {report.summary}"
            self.change(plan, PlanState.CANCELLED, detail)
        else:
            self.change(plan, PlanState.FAILED, first_failure(report.records))

    def renew(self, plan: PlanRecord, seconds: float) -> None:
        """Let *plan* expire so many *seconds* from now: it has been decided again.

        Its id, and the digest that an approval is bound to, remain.
        """
        age = max(0.0, (self._clock.now() - plan.created_at).total_seconds())
        self._plans.renew(plan.id, age + seconds)

    def log_kept(self, plan: PlanRecord) -> None:
        """Log once that *plan* stays proposed beside decisions with other steps."""
        if plan.id in self._kept:
            return
        self._kept.add(plan.id)
        log_event(
            LogEventCode.PLAN_KEPT,
            f"plan {plan.id}: stays proposed, and newer steps do not replace it, as "
            "long as it is valid",
            plan=plan.id,
            run=plan.run,
        )

    def log_declined(self) -> None:
        """Log the plans that operators have rejected or cancelled since the last call.

        A controller that is killed meanwhile does not log them again. The first one on
        a store logs only what follows.
        """
        saved = self._store.load(LOGGED_KEY)
        with decoding("the number of a command", saved):
            last = 0 if saved is None else int(str(saved["number"]))
        declined = self._plans.declining_commands(last)
        if saved is None or declined:
            self._store.save(LOGGED_KEY, {"number": max(declined, default=last)})
        if saved is None:
            return
        for action in declined.values():
            state = _DECLINING[action.command]
            because = action.arguments.get("because")
            reason = f": {because}" if because else ""
            text = f"{state} by {action.user}{reason}"
            _log(str(action.arguments.get("plan")), state, text)

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


def _log(
    plan: str,
    state: PlanState,
    text: str,
    level: int = logging.INFO,
    **fields: object,
) -> None:
    log_event(
        LogEventCode.PLAN_STATE_CHANGED,
        f"plan {plan}: {text}",
        level=level,
        plan=plan,
        state=state,
        **fields,
    )
