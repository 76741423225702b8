"""Log steps, decisions and rule violations as events."""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import Any, Generic, TypeVar

from opendrs.controller.consent import RecordedDecision
from opendrs.controller.events import LogEventCode, log_event
from opendrs.controller.execution_context import CancellationToken, ExecutionObserver
from opendrs.controller.observers import NullControllerObserver
from opendrs.controller.plan_records import outcome_text
from opendrs.controller.protection import busy_nodes
from opendrs.controller.repair_advice import RepairCommand, may_repair_more
from opendrs.controller.serialization import violation_documents
from opendrs.controller.step_serialization import action_document
from opendrs.guard import Rejection
from opendrs.model import (
    DEFAULT_PROTECTION,
    Action,
    NodeId,
    NodeState,
    PowerOff,
    PowerOn,
    Protection,
    Snapshot,
    Step,
    StepId,
    format_count,
    path_of,
)
from opendrs.policies import Policy, reason_text, repairs_rules
from opendrs.policies.optimize import Repair
from opendrs.policies.optimize.repairs import drain_lines, unresolved_violations
from opendrs.ports import Outcome, StepRecord, TaskStatus
from opendrs.rules import (
    Violation,
    ViolationChange,
    count_strict,
    split_drains,
    violation_change,
)

T = TypeVar("T")
_FAILURES = (Outcome.FAILED, Outcome.LOST, Outcome.ABORTED)


class LoggingObserver(NullControllerObserver):
    """Controller observer that logs the events of steps.

    Args:
        cancellation: Stop and abort requests of the operator, which are logged too.
    """

    def __init__(self, cancellation: CancellationToken) -> None:
        self._cancellation = cancellation
        self._reported_requests = 0
        self._running: set[StepId] = set()
        self._rejections: dict[StepId, Rejection] = {}
        self._last_detail = ""

    def step_started(self, step: Step) -> None:
        """Log the start with the reason, whose values are those of the plan."""
        self._running.add(step.id)
        _log_step(LogEventCode.STEP_STARTED, step, "started", step.detail)

    def step_progressed(self, step: Step, status: TaskStatus) -> None:  # noqa: ARG002 - a protocol
        """Log only cancellations: progress is reported every second."""
        self._log_cancellation()

    def step_waiting(self, step: Step, detail: str) -> None:
        """Log the reason at level info only if no other step is running."""
        is_repeated = bool(self._running) or detail == self._last_detail
        level = logging.DEBUG if is_repeated else logging.INFO
        _log_step(LogEventCode.STEP_WAITING, step, "waits", detail, level=level)
        self._last_detail = detail

    def step_rejected(self, step: Step, rejection: Rejection) -> None:
        """Keep the reason code, which is logged with the outcome."""
        self._rejections[step.id] = rejection

    def step_finished(self, step: Step, record: StepRecord) -> None:
        """Log the outcome; failures at level warning."""
        self._running.discard(step.id)
        rejection = self._rejections.pop(step.id, None)
        reason = {} if rejection is None else {"reason": rejection.reason.value}
        self._log_cancellation()
        outcome = record.outcome or Outcome.LOST
        level = logging.WARNING if outcome in _FAILURES else logging.INFO
        log_event(
            LogEventCode.STEP_FINISHED,
            f"{_describe_step(step)}: {outcome_text(record)}",
            level=level,
            **_step_fields(step, outcome.value, record.detail),
            **reason,
        )

    def _log_cancellation(self) -> None:
        requests = (
            self._cancellation.stop_requested + self._cancellation.abort_requested
        )
        if requests > self._reported_requests:
            self._reported_requests = requests
            if self._cancellation.abort_requested:
                log_event(
                    LogEventCode.ABORT_REQUESTED,
                    "aborting running steps",
                    level=logging.WARNING,
                )
            else:
                log_event(
                    LogEventCode.STOP_REQUESTED,
                    "starting no new steps; running steps finish",
                )


def _log_step(
    event: LogEventCode,
    step: Step,
    state: str,
    detail: str = "",
    level: int = logging.INFO,
) -> None:
    is_start = event is LogEventCode.STEP_STARTED
    separator = "; reason when planned: " if is_start else ": "
    suffix = f"{separator}{detail}" if detail else ""
    log_event(
        event,
        f"{_describe_step(step)}: {state}{suffix}",
        level=level,
        **_step_fields(step, state, detail),
    )


def _step_fields(step: Step, state: str, detail: str) -> dict[str, object]:
    return {
        "step": step.id,
        **action_document(step.action),
        "state": state,
        "detail": detail,
    }


def _describe_step(step: Step) -> str:
    return f"step {step.id} ({_describe_action(step.action)})"


def _describe_action(action: Action) -> str:
    if isinstance(action, PowerOn | PowerOff):
        verb = "power on" if isinstance(action, PowerOn) else "power off"
        return f"{verb} {action.node}"
    guest, source, target = path_of(action)
    return f"{guest}: {source} → {target}"


MAX_SHOWN = 3  # violations or notes in one log line; the JSON form contains all
_MAX_EXAMINED = 100  # violations for which the blocker of a repair is determined
_NUMBER = re.compile(r"(?<![\w.-])\d[\d.,]*(?![\w-])")


class _ChangeDetector(Generic[T]):
    """Detector of values that no decision of the cycle before had.

    A cycle has several decisions if the plans of the first ones may not start.

    Args:
        initial: Value before the first decision.
    """

    def __init__(self, initial: T) -> None:
        self._last = initial
        self._cycle: datetime | None = None
        self._former: list[T] = []
        self._current: list[T] = []

    def is_new(self, cycle: datetime, value: T) -> bool:
        """Return True if *value* is new in the cycle of the snapshot taken at *cycle*.

        It is not, either, if the decision before had it.
        """
        if cycle != self._cycle:
            self._cycle, self._former, self._current = cycle, self._current, []
        is_known = value == self._last or value in self._former
        self._last = value
        self._current.append(value)
        return not is_known


def _state_text(state: NodeState) -> str:
    return "unreachable" if state is NodeState.UNKNOWN else state.value


class CycleLogger:
    """Cycle observer that logs decisions, node states and violated strict rules.

    A decision that equals one of the previous cycle is logged at level debug.

    Args:
        execution_observer: Receives the events of running steps.
        repair_command: Command that repairs violated rules while no controller runs;
            None if there is none.
        protection: Contains the jobs during which nodes receive no guests.
    """

    def __init__(
        self,
        execution_observer: ExecutionObserver,
        repair_command: RepairCommand | None = None,
        protection: Protection = DEFAULT_PROTECTION,
    ) -> None:
        self._protection = protection
        self._last_busy: dict[NodeId, str] = {}
        self._last_states: dict[NodeId, NodeState] = {}
        self._execution_observer = execution_observer
        self._repair_command = repair_command
        # By entry of the schedule, because the entries alternate.
        self._decisions = defaultdict[str, _ChangeDetector[object]](
            lambda: _ChangeDetector(None)
        )
        self._violations = _ChangeDetector[tuple[tuple[Violation, ...], ...]](((), ()))

    def recovery_started(self, records: Sequence[StepRecord]) -> None:
        """Log the number of unfinished steps."""
        log_event(
            LogEventCode.RECOVERY_STARTED,
            f"recovering {format_count(len(records), 'unfinished step')} "
            "of a previous run",
            steps=len(records),
        )

    def running_steps(self) -> AbstractContextManager[ExecutionObserver]:
        """Return the execution observer in a context manager without effect."""
        return nullcontext(self._execution_observer)

    def decision_recorded(self, decided: RecordedDecision) -> None:
        """Log the decision, and the violated strict rules if they changed."""
        policy, decision = decided.policy, decided.decision
        steps = decision.plan.steps
        actions = [step.action for step in steps]
        self._log_node_states(decided.snapshot)
        self._log_busy_nodes(decided.snapshot)
        self._log_violations(policy, decided.snapshot, actions)
        planned = f"{format_count(len(steps), 'step')} planned"
        outline = planned if steps else "no steps planned"
        reasons = [reason_text(decision.reason), decision.detail]
        schedule = decided.schedule
        name = policy.name
        if schedule not in ("", name):
            name = f"{schedule}: {name}"
        text = f"{name}: {outline}: {': '.join(filter(None, reasons))}"
        if not steps:
            text = "; ".join([text, *_first_texts(decision.notes, "note")])
        # A decision with the same reason and other numbers counts as unchanged.
        detail = _NUMBER.sub("#", decision.detail)
        outcome = policy.name, decision.reason, detail, actions
        taken_at = decided.snapshot.taken_at
        is_new = self._decisions[schedule].is_new(taken_at, outcome)
        log_event(
            LogEventCode.DECISION_MADE,
            text,
            level=logging.INFO if is_new else logging.DEBUG,
            run=decided.run,
            policy=policy.name,
            **({"schedule": schedule} if schedule else {}),
            reason=decision.reason,
            detail=decision.detail,
            notes=list(decision.notes),
            steps=len(steps),
        )

    def _log_node_states(self, snapshot: Snapshot) -> None:
        """Log the states of nodes that changed, and at first those not online."""
        former = self._last_states
        self._last_states = {name: node.state for name, node in snapshot.nodes.items()}
        for name, state in sorted(self._last_states.items()):
            before = former.get(name, NodeState.ONLINE)
            if state is before:
                continue
            log_event(
                LogEventCode.NODE_STATE_CHANGED,
                f"{name}: {_state_text(state)}, was {_state_text(before)}",
                level=logging.WARNING if state is NodeState.UNKNOWN else logging.INFO,
                node=name,
                state=state.value,
            )

    def _log_busy_nodes(self, snapshot: Snapshot) -> None:
        """Log the nodes that receive no guests because of jobs, if they changed."""
        busy = busy_nodes(snapshot, self._protection)
        if busy == self._last_busy:
            return
        self._last_busy = busy
        if not busy:
            event, text = LogEventCode.NODE_JOBS_ENDED, "no job is running any more"
        else:
            event = LogEventCode.NODE_JOBS_RUNNING
            jobs = "; ".join(f"{node}: {job}" for node, job in sorted(busy.items()))
            text = f"no guest is migrated to nodes with jobs: {jobs}"
        log_event(event, text, nodes=busy)

    def _log_violations(
        self, policy: Policy[Any], snapshot: Snapshot, actions: Iterable[Action]
    ) -> None:
        change = violation_change(snapshot, snapshot.apply(*actions))
        violations = change.strict_before, change.strict_after
        if not self._violations.is_new(snapshot.taken_at, violations):
            return
        if not any(violations):
            log_event(
                LogEventCode.RULES_KEPT,
                "rules: all strict rules hold; no guest is on a node in maintenance",
            )
            return
        log_event(
            LogEventCode.RULES_BROKEN,
            "; ".join(self._describe_violations(policy, snapshot, change)),
            level=logging.WARNING if change.strict_after else logging.INFO,
            broken=violation_documents(change.strict_before),
            remaining=violation_documents(change.strict_after),
        )

    def _describe_violations(
        self, policy: Policy[Any], snapshot: Snapshot, change: ViolationChange
    ) -> list[str]:
        """Return the drains and violated strict rules, what remains, and a hint."""
        rules_before, drains_before = split_drains(change.strict_before)
        rules_after, drains_after = split_drains(change.strict_after)
        remaining = unresolved_violations(
            [*drains_after[:_MAX_EXAMINED], *rules_after[:_MAX_EXAMINED]],
            snapshot,
            policy.limits,
        )
        others = [one.text for one in remaining if not one.is_drain][:MAX_SHOWN]
        parts = []
        if drains_before or drains_after:
            parts.append(
                f"drain: guests on nodes in maintenance: {len(drains_before)}; "
                f"after this plan: {len(drains_after)}"
            )
            parts += drain_lines(remaining)
        if (more := len(drains_after) - _MAX_EXAMINED) > 0:
            parts.append(f"and {format_count(more, 'more guest')}")
        if rules_before or rules_after:
            before, after = count_strict(rules_before), count_strict(rules_after)
            parts.append(
                f"rules: violated strict rules: {before}; after this plan: {after}"
            )
        parts += others
        if len(rules_after) > len(others):
            parts.append(f"and {len(rules_after) - len(others)} more")
        if any(one.repairable for one in remaining):
            parts += self._repair_advice(policy, snapshot, change)
        return parts

    def _repair_advice(
        self, policy: Policy[Any], snapshot: Snapshot, change: ViolationChange
    ) -> Iterator[str]:
        """Yield how to repair what remains, if that may repair more than *policy*."""
        command = self._repair_command
        repair = Repair(limits=policy.limits) if command is None else command.policy
        if not may_repair_more(repair, snapshot, policy, change):
            return
        action = "try to repair" if repairs_rules(policy) else "repair"
        yield f"to {action}, configure the policy {Repair.name}"
        if command is not None:
            yield f"or stop this controller and run: {command.line}"


def _first_texts(texts: tuple[str, ...], noun: str) -> list[str]:
    """Return the first of *texts*, and the number of the others."""
    shown, more = list(texts[:MAX_SHOWN]), len(texts) - MAX_SHOWN
    return [*shown, f"and {format_count(more, f'more {noun}')}"] if more > 0 else shown
