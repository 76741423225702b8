"""Plans as objects: proposed, approved, executed, and settled after a crash.

Each change of a state is one transaction that succeeds only from the expected states,
so an operator and the controller cannot both decide about a plan.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from opendrs.config import json_line
from opendrs.config.controller_settings import ControllerSettings, Mode
from opendrs.config.schedule_settings import ScheduleSettings
from opendrs.controller.consent import ApprovedPlan, RecordedDecision
from opendrs.controller.events import LogEventCode, log_event
from opendrs.controller.execution_context import CancellationToken
from opendrs.controller.executor import ExecutionReport
from opendrs.controller.modes import (
    OPERATOR_ENTRIES,
    EffectiveMode,
    effective_mode,
    unattended_steps,
)
from opendrs.controller.plan_records import (
    first_failure,
    have_same_actions,
    plan_digest,
    plan_id,
    settlement,
    sha256,
    step_id_groups,
)
from opendrs.model import (
    Plan,
    Step,
    format_count,
)
from opendrs.policies import DecisionReason
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

_LEVELS = {PlanState.FAILED: logging.WARNING, PlanState.RUNNING: logging.DEBUG}
_OPEN = (PlanState.PROPOSED, PlanState.APPROVED)
_DECLINED = (PlanState.REJECTED, PlanState.CANCELLED)
_UNDECIDED = frozenset(
    {
        DecisionReason.CLUSTER_SETTLING,
        DecisionReason.HOLD_NOT_REACHED,
        DecisionReason.INTERVAL_NOT_ELAPSED,
        DecisionReason.METRICS_MISSING,
        DecisionReason.MIGRATION_IN_PROGRESS,
    }
)


class PlanApprovals:
    """Approval by the mode: of the controller, the policy, the reason and the guests.

    Args:
        plans: The plans.
        store: The store with the entries of operators and the records of steps.
        clock: The time.
        settings: The configured modes.
        cancellation: Stop requests to this process.
        platform: Name of the platform, for the commands that messages suggest.
        schedule: Entries of the schedule of the controller.
    """

    def __init__(  # noqa: PLR0913 - the stores, and where plans run
        self,
        plans: PlanStore,
        store: Store,
        clock: Clock,
        settings: ControllerSettings,
        cancellation: CancellationToken,
        *,
        platform: str,
        schedule: Sequence[ScheduleSettings] = (),
    ) -> None:
        self._platform = platform
        self._plans = plans
        self._store = store
        self._clock = clock
        self._settings = settings
        self._cancellation = cancellation
        self._schedule = {entry.name: entry for entry in schedule}
        self._scheduled_policies = frozenset(entry.policy for entry in schedule)
        self._reported_modes: dict[str, EffectiveMode] = {}

    def reconcile(self) -> None:
        """Settle the plans of interrupted runs, and let old ones expire."""
        for plan in self._plans.plans([PlanState.RUNNING]):
            state, detail = settlement(plan, self._store.records_of(plan.run))
            self._change(plan, state, detail)
        for plan in self._plans.plans(_OPEN):
            self._expire(plan)

    def next_approved(self) -> ApprovedPlan | None:
        """Return the oldest plan that was approved and may start now, or None."""
        for plan in self._plans.plans([PlanState.APPROVED]):
            if self._expire(plan):
                continue
            if self._mode(plan.policy, plan.reason).mode is Mode.OBSERVE:
                continue
            approval = plan.approval
            if approval is None or not approval.digest == plan.digest == plan_digest(
                plan
            ):
                detail = "the steps are not those that were approved"
                self._change(plan, PlanState.FAILED, detail)
                continue
            return self._started(plan, approval)
        return None

    def approve(self, decided: RecordedDecision) -> ApprovedPlan | None:
        """Return the steps that the mode allows to start; propose the others."""
        decision = decided.decision
        steps = decision.plan.steps
        schedule = decided.schedule
        self._report_mode(self._mode(decided.policy.name, "", schedule), schedule)
        mode = self._mode(decided.policy.name, decision.reason.value, schedule)
        waiting = self._supersede(steps, decided)
        if not steps or mode.mode is Mode.OBSERVE:
            return None
        if mode.mode is Mode.AUTOMATIC:
            groups = step_id_groups(steps, decided.snapshot)
            unattended = unattended_steps(
                steps, groups, decided.snapshot, self._settings
            )
            if unattended:
                record = self._record(decided)
                return self._start_unattended(record, unattended, schedule)
        if not waiting and not self._is_declined(steps):
            self._propose(self._record(decided))
        return None

    def _mode(self, policy: str, reason: str, schedule: str = "") -> EffectiveMode:
        """Return the mode that applies now to a plan."""
        return effective_mode(
            self._settings,
            self._store.load_all(OPERATOR_ENTRIES),
            self._clock.now(),
            policy=policy,
            reason=reason,
            schedule=self._schedule.get(schedule),
        )

    def _report_mode(self, mode: EffectiveMode, schedule: str) -> None:
        """Log *mode* if it is another than that of the last decision for *schedule*."""
        if self._reported_modes.setdefault(schedule, mode) != mode:
            log_event(
                LogEventCode.MODE_CHANGED,
                f"mode {mode.mode}: {mode.detail}",
                mode=mode.mode,
                source=mode.source,
            )
        self._reported_modes[schedule] = mode

    def _record(self, decided: RecordedDecision) -> PlanRecord:
        """Return the proposed plan of *decided*, without an id."""
        decision = decided.decision
        now = self._clock.now()
        plan = PlanRecord(
            id="",
            run=decided.run,
            created_at=now,
            lifetime=self._settings.approval_time,
            policy=decided.policy.name,
            reason=decision.reason.value,
            reason_detail=decision.detail,
            steps=decision.plan.steps,
            groups=step_id_groups(decision.plan.steps, decided.snapshot),
            digest="",
            snapshot=sha256(json_line(decided.snapshot)),
            state=PlanState.PROPOSED,
            changed_at=now,
        )
        return replace(plan, digest=plan_digest(plan))

    def _add(self, plan: PlanRecord) -> PlanRecord:
        """Add *plan* under a new id, and return it."""
        attempt = 0
        while True:
            named = replace(plan, id=plan_id(plan.run, attempt))
            if self._plans.add(named):
                return named
            attempt += 1

    def _supersede(self, steps: Sequence[Step], decided: RecordedDecision) -> bool:
        """Supersede proposed plans with other steps; return True if one remains.

        A policy that waits does not judge the proposed plan: nothing replaces it then.
        A policy of the schedule does not judge the plans of the others.
        """
        if not steps and decided.decision.reason in _UNDECIDED:
            return True
        remains, run = False, decided.run
        others = self._scheduled_policies - {decided.policy.name}
        for plan in self._plans.plans([PlanState.PROPOSED]):
            if plan.policy in others:
                continue
            if have_same_actions(plan.steps, steps):
                remains = True
                continue
            newer = "other steps" if steps else "nothing is to be done"
            self._change(plan, PlanState.SUPERSEDED, f"newer decision {run}: {newer}")
        return remains

    def _is_declined(self, steps: Sequence[Step]) -> bool:
        """Return True if an operator has declined the same steps recently.

        A plan that was cancelled while it was running has records of steps.
        """
        now = self._clock.now()
        return any(
            now < plan.expires_at
            and have_same_actions(plan.steps, steps)
            and not self._store.records_of(plan.run)
            for plan in self._plans.plans(_DECLINED)
        )

    def _propose(self, record: PlanRecord) -> None:
        plan = self._add(record)
        log_event(
            LogEventCode.PLAN_PROPOSED,
            f"plan {plan.id}: {format_count(len(plan.steps), 'step')} for approval "
            f"until {plan.expires_at:%H:%M:%S} UTC: opendrs approve {self._platform} "
            f"{plan.id}",
            plan=plan.id,
            run=plan.run,
            expires_at=plan.expires_at.isoformat(),
        )

    def _start_unattended(
        self, record: PlanRecord, steps: Sequence[Step], schedule: str
    ) -> ApprovedPlan | None:
        """Record that the mode approves *steps*, and start them."""
        now = self._clock.now()
        approval = PlanApproval(
            user=None,
            at=now,
            steps=tuple(step.id for step in steps),
            digest=record.digest,
        )
        approved = replace(record, state=PlanState.APPROVED, approval=approval)
        return self._started(self._add(approved), approval, schedule)

    def _started(
        self, plan: PlanRecord, approval: PlanApproval, schedule: str = ""
    ) -> ApprovedPlan | None:
        """Return the approved steps of *plan*, which is running then.

        The *schedule* restricts only plans that no operator has approved.

        Returns:
            None if an operator has cancelled it meanwhile.
        """
        if not self._change(plan, PlanState.RUNNING):
            return None
        execution = _Execution(self, plan, approval, schedule)
        steps = tuple(step for step in plan.steps if step.id in approval.steps)
        return ApprovedPlan(
            run=plan.run,
            plan=Plan(steps),
            policy=plan.policy,
            stop_reason=execution.stop_reason,
            ended=execution.ended,
        )

    def _expire(self, plan: PlanRecord) -> bool:
        """Let *plan* expire if its time is over; return True if it is."""
        if self._clock.now() < plan.expires_at:
            return False
        verb = "approved" if plan.state is PlanState.PROPOSED else "started"
        self._change(plan, PlanState.EXPIRED, f"not {verb} in time")
        return True

    def _change(self, plan: PlanRecord, state: PlanState, detail: str = "") -> bool:
        """Change the state of *plan*; return False if an operator was faster."""
        change = PlanChange(state=state, at=self._clock.now(), detail=detail)
        is_changed = self._plans.change(plan.id, change)
        if is_changed:
            log_event(
                LogEventCode.PLAN_STATE_CHANGED,
                f"plan {plan.id}: {state}" + (f": {detail}" if detail else ""),
                level=_LEVELS.get(state, logging.INFO),
                plan=plan.id,
                run=plan.run,
                state=state,
            )
        return is_changed

    def stop_reason(
        self, plan: PlanRecord, approval: PlanApproval, schedule: str
    ) -> str:
        """Return why no further step of the running *plan* may start, or nothing."""
        now = self._plans.plan(plan.id)
        if now is None or now.state is not PlanState.RUNNING:
            return "plan cancelled" if now is None else f"plan {now.state}"
        mode = self._mode(plan.policy, plan.reason, schedule)
        if mode.mode is Mode.OBSERVE:
            return f"mode {mode.mode}: {mode.detail}"
        if mode.mode is Mode.ADVISE and approval.user is None:
            return f"mode {mode.mode}, without an approval: {mode.detail}"
        return ""

    def settle(
        self, plan: PlanRecord, report: ExecutionReport, stop_reason: str
    ) -> None:
        """Record how the execution of *plan* ended, unless steps are left open."""
        if any(record.outcome is None for record in report.records):
            return
        if report.all_done:
            self._change(plan, PlanState.DONE, report.summary)
            return
        if not stop_reason and self._cancellation.stop_requested:
            stop_reason = "the controller was stopped"
        undone = {Outcome.DONE, Outcome.SKIPPED}
        is_failed = any(record.outcome not in undone for record in report.records)
        if stop_reason and not is_failed:
            detail = f"{stop_reason}; {report.summary}"
            self._change(plan, PlanState.CANCELLED, detail)
        else:
            self._change(plan, PlanState.FAILED, first_failure(report.records))


class _Execution:
    """Execution of one plan: why it stops, and how it ended."""

    def __init__(
        self,
        approvals: PlanApprovals,
        plan: PlanRecord,
        approval: PlanApproval,
        schedule: str,
    ) -> None:
        self._approvals = approvals
        self._plan = plan
        self._approval = approval
        self._schedule = schedule
        self._stop_reason = ""

    def stop_reason(self) -> str:
        """Return why no further step may start; once stopped, it stays so."""
        if not self._stop_reason:
            found = self._approvals.stop_reason(
                self._plan, self._approval, self._schedule
            )
            self._stop_reason = found
        return self._stop_reason

    def ended(self, report: ExecutionReport) -> None:
        """Record how the plan ended."""
        self._approvals.settle(self._plan, report, self._stop_reason)
