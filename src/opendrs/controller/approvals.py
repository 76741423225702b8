"""Plans as objects: proposed, approved, executed, and settled after a crash.

Each change of a state is one transaction that succeeds only from the expected states,
so an operator and the controller cannot both decide about a plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace

from opendrs.config.controller_settings import ControllerSettings, Mode
from opendrs.config.schedule_settings import ScheduleSettings
from opendrs.controller.consent import ApprovedPlan, RecordedDecision
from opendrs.controller.events import LogEventCode, log_event
from opendrs.controller.execution_context import CancellationToken
from opendrs.controller.executor import ExecutionReport
from opendrs.controller.modes import (
    OPERATOR_ENTRIES,
    EffectiveMode,
    ModeSource,
    effective_mode,
    unattended_steps,
)
from opendrs.controller.plan_records import (
    are_same,
    interrupted_state,
    joint_steps,
    plan_digest,
    plan_id,
    plan_record,
    remaining_steps,
)
from opendrs.controller.plan_states import PlanStates
from opendrs.controller.proposal_validity import is_still_valid
from opendrs.model import Plan, Snapshot, Step, format_count, format_timestamp
from opendrs.policies import UNDECIDED
from opendrs.ports import (
    Clock,
    PlanApproval,
    PlanRecord,
    PlanState,
    PlanStore,
    Store,
)

_OPEN = (PlanState.PROPOSED, PlanState.APPROVED)
_DECLINED = (PlanState.REJECTED, PlanState.CANCELLED)


class PlanApprovals:
    """Approval by the mode: of the controller, the policy, the reason and the guests.

    Args:
        plans: The plans.
        store: The store with the entries of operators and the records of steps.
        clock: The time.
        settings: The configured modes.
        cancellation: Stop requests to this process.
        target: Platform and configuration file, as in the commands that messages
            suggest.
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
        target: str,
        schedule: Sequence[ScheduleSettings] = (),
    ) -> None:
        self._target = target
        self._plans = plans
        self._states = PlanStates(plans, store, clock)
        self._store = store
        self._clock = clock
        self._settings = settings
        self._cancellation = cancellation
        self._schedule = {entry.name: entry for entry in schedule}
        self._reported_modes: dict[str, EffectiveMode] = {}

    def with_settings(
        self, settings: ControllerSettings, schedule: Sequence[ScheduleSettings] = ()
    ) -> PlanApprovals:
        """Return the approvals with new settings; a change of the mode is logged."""
        changed = copy(self)
        changed._settings = settings  # noqa: SLF001 - of this class
        changed._schedule = {entry.name: entry for entry in schedule}  # noqa: SLF001
        return changed

    def reconcile(self) -> None:
        """Settle the plans of interrupted runs, and let old ones expire."""
        for plan in self._plans.plans([PlanState.RUNNING]):
            state, detail = interrupted_state(plan, self._store.records_of(plan.run))
            self._states.change(plan, state, detail)
        for plan in self._plans.plans(_OPEN):
            self._states.end_late(plan)

    def next_approved(self) -> ApprovedPlan | None:
        """Return the oldest plan that was approved and may start now, or None."""
        self._states.log_declined()
        for plan in self._plans.plans([PlanState.APPROVED]):
            if self._states.end_late(plan):
                continue
            if self._mode(plan.policy, plan.reason).mode is Mode.OBSERVE:
                continue
            approval = plan.approval
            if approval is None or not approval.digest == plan.digest == plan_digest(
                plan
            ):
                detail = "the steps are not those that were approved"
                self._states.change(plan, PlanState.FAILED, detail)
                continue
            return self._started(plan, approval)
        return None

    def may_start(self, decided: RecordedDecision) -> bool:
        """Return False in mode observe, and if an operator has declined the plan."""
        mode = self._decided_mode(decided)
        if mode.mode is Mode.OBSERVE:
            return False
        if self._unattended(decided, mode):
            return True
        return not self._is_declined(decided.decision.plan.steps)

    def approve(self, decided: RecordedDecision) -> ApprovedPlan | None:
        """Return the steps that the mode allows to start; propose the others."""
        steps = decided.decision.plan.steps
        self._report_mode(decided)
        mode = self._decided_mode(decided)
        unattended = self._unattended(decided, mode)
        waiting = remaining_steps(steps, unattended)
        is_proposed = self._supersede(waiting, decided)
        if not steps or mode.mode is Mode.OBSERVE:
            return None
        if waiting and not is_proposed and not self._is_declined(waiting):
            self._propose(decided, waiting)
        if not unattended:
            return None
        return self._start_unattended(decided, unattended, mode.mode)

    def _unattended(
        self, decided: RecordedDecision, mode: EffectiveMode
    ) -> tuple[Step, ...]:
        """Return the steps of *decided* that need no approval in *mode*."""
        steps, snapshot = decided.decision.plan.steps, decided.snapshot
        groups = joint_steps(steps, snapshot)
        return unattended_steps(steps, groups, snapshot, self._settings, mode)

    def _decided_mode(self, decided: RecordedDecision) -> EffectiveMode:
        """Return the mode that applies now to the plan of *decided*."""
        reason = decided.decision.reason.value
        return self._mode(decided.policy.name, reason, decided.schedule)

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

    def _report_mode(self, decided: RecordedDecision) -> None:
        """Log the mode if it is another than that of the decision before.

        Only decisions of the same policy, or for the same entry of the schedule, are
        compared: their mode may be restricted.
        """
        mode = self._mode(decided.policy.name, "", decided.schedule)
        key = decided.schedule or decided.policy.name
        if self._reported_modes.get(key, mode) != mode:
            log_event(
                LogEventCode.MODE_CHANGED,
                f"mode {mode.mode}: {mode.detail}",
                mode=mode.mode,
                source=mode.source,
            )
        self._reported_modes[key] = mode

    def _record(self, decided: RecordedDecision, steps: Sequence[Step]) -> PlanRecord:
        now, lifetime = self._clock.now(), self._settings.approval_time
        return plan_record(decided, tuple(steps), now, lifetime)

    def _add(self, plan: PlanRecord) -> PlanRecord:
        """Add *plan* under a new id, and return it."""
        attempt = 0
        while True:
            named = replace(plan, id=plan_id(plan.run, attempt))
            if self._plans.add(named):
                return named
            attempt += 1

    def _supersede(self, steps: Sequence[Step], decided: RecordedDecision) -> bool:
        """Supersede proposed plans that are not valid; return True if one remains.

        A policy that waits does not judge the proposed plan: nothing replaces it then.
        A policy of the schedule does not judge the plans of the others. A plan with
        other steps remains while it is still valid, one with the same is renewed.

        Args:
            steps: The steps of the decision that need an approval.
            decided: The decision.
        """
        self._supersede_unattended(decided.snapshot)
        if decided.decision.reason in UNDECIDED and not decided.decision.plan.steps:
            return True
        remains = False
        scheduled = {entry.policy for entry in self._schedule.values()}
        others = scheduled - {decided.policy.name}
        for plan in self._plans.plans([PlanState.PROPOSED]):
            if plan.policy in others:
                continue
            if is_still_valid(plan, decided, steps):
                remains = True
                if are_same(plan.steps, steps):
                    self._states.renew(plan, self._settings.approval_time)
                else:
                    self._states.log_kept(plan)
            else:
                newer = "other steps" if steps else "nothing is to be approved"
                detail = f"newer decision: {newer}"
                self._states.change(plan, PlanState.SUPERSEDED, detail)
        return remains

    def _supersede_unattended(self, snapshot: Snapshot) -> None:
        """Supersede proposed plans with steps that need no approval any more.

        The mode or the configuration has changed, or the circuit breaker was closed.
        """
        for plan in self._plans.plans([PlanState.PROPOSED]):
            modes = [
                self._mode(plan.policy, plan.reason, schedule)
                for schedule in self._schedules_of(plan.policy)
            ]
            mode = min(modes, key=lambda each: each.mode.level)
            if unattended_steps(
                plan.steps, plan.groups, snapshot, self._settings, mode
            ):
                detail = f"mode {mode.mode} ({mode.detail}): it needs no approval"
                self._states.change(plan, PlanState.SUPERSEDED, detail)

    def _schedules_of(self, policy: str) -> Sequence[str]:
        """Return the entries of the schedule that may have proposed a plan."""
        entries = [
            each.name for each in self._schedule.values() if each.policy == policy
        ]
        return entries or [""]

    def _is_declined(self, steps: Sequence[Step]) -> bool:
        """Return True if an operator has declined the same steps recently.

        A plan that was cancelled while it was running has records of steps.
        """
        now = self._clock.now()
        return any(
            now < plan.expires_at
            and are_same(plan.steps, steps)
            and not self._was_started(plan)
            for plan in self._plans.plans(_DECLINED)
        )

    def _was_started(self, plan: PlanRecord) -> bool:
        names = {step.id for step in plan.steps}
        return any(each.step in names for each in self._store.records_of(plan.run))

    def _propose(self, decided: RecordedDecision, steps: Sequence[Step]) -> None:
        plan = self._add(self._record(decided, steps))
        log_event(
            LogEventCode.PLAN_PROPOSED,
            f"plan {plan.id} proposed: {format_count(len(plan.steps), 'step')}; "
            f"approve it with opendrs approve {self._target} {plan.id}; it expires at "
            f"{plan.expires_at:%H:%M:%S} UTC, or later if its steps are decided again",
            plan=plan.id,
            run=plan.run,
            expires_at=format_timestamp(plan.expires_at),
        )

    def _start_unattended(
        self, decided: RecordedDecision, steps: Sequence[Step], mode: Mode
    ) -> ApprovedPlan | None:
        """Record that *mode* lets *steps* start without an operator, and start them."""
        record = self._record(decided, steps)
        approval = PlanApproval(
            user=None,
            at=record.created_at,
            steps=tuple(step.id for step in steps),
            digest=record.digest,
        )
        approved = replace(record, state=PlanState.APPROVED, approval=approval)
        return self._started(
            self._add(approved), approval, least=mode, schedule=decided.schedule
        )

    def _started(
        self,
        plan: PlanRecord,
        approval: PlanApproval,
        *,
        least: Mode = Mode.ADVISE,
        schedule: str = "",
    ) -> ApprovedPlan | None:
        """Return the approved steps of *plan*, which is running then.

        The *schedule* restricts only plans that no operator has approved.

        Args:
            plan: The plan.
            approval: Its approval.
            least: The least mode in which its steps may start.
            schedule: Name of the entry of the schedule, or empty.

        Returns:
            None if an operator has cancelled it meanwhile.
        """
        if not self._states.start(plan, approval):
            return None
        execution = _Execution(self, plan, approval, least, schedule)
        steps = tuple(step for step in plan.steps if step.id in approval.steps)
        return ApprovedPlan(
            run=plan.run,
            plan=Plan(steps),
            policy=plan.policy,
            reason=plan.reason,
            stop_reason=execution.stop_reason,
            ended=execution.ended,
        )

    def stop_reason(
        self, plan: PlanRecord, approval: PlanApproval, least: Mode, schedule: str
    ) -> str:
        """Return why no further step of the running *plan* may start, or nothing."""
        now = self._plans.plan(plan.id)
        if now is None or now.state is not PlanState.RUNNING:
            return "plan cancelled" if now is None else f"plan {now.state}"
        mode = self._mode(plan.policy, plan.reason, schedule)
        if mode.mode is Mode.OBSERVE:
            return f"mode {mode.mode}: {mode.detail}"
        is_restricted = (
            mode.mode.level < least.level or mode.source is ModeSource.BREAKER
        )
        if is_restricted and approval.user is None:
            return f"mode {mode.mode}, without an approval: {mode.detail}"
        return ""

    def settle(
        self, plan: PlanRecord, report: ExecutionReport, stop_reason: str
    ) -> None:
        """Record how the execution of *plan* ended."""
        if not stop_reason and self._cancellation.stop_requested:
            stop_reason = "the controller was stopped"
        self._states.settle(plan, report, stop_reason)


class _Execution:
    """Execution of one plan: why it stops, and how it ended."""

    def __init__(
        self,
        approvals: PlanApprovals,
        plan: PlanRecord,
        approval: PlanApproval,
        least: Mode,
        schedule: str,
    ) -> None:
        self._approvals = approvals
        self._plan = plan
        self._approval = approval
        self._least = least
        self._schedule = schedule
        self._stop_reason = ""

    def stop_reason(self) -> str:
        """Return why no further step may start; once stopped, it stays so."""
        if not self._stop_reason:
            found = self._approvals.stop_reason(
                self._plan, self._approval, self._least, self._schedule
            )
            self._stop_reason = found
        return self._stop_reason

    def ended(self, report: ExecutionReport) -> None:
        """Record how the plan ended."""
        self._approvals.settle(self._plan, report, self._stop_reason)
