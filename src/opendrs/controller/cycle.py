"""One cycle: recover, observe, decide, record, approve, execute.

`apply`, `demo` and `run` call `run_cycle`. What differs between them is in its context:
the source of decisions, the approval of the plan, and the observer that reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar
from uuid import uuid4

from opendrs.controller.consent import Approval, ApprovedPlan, RecordedDecision
from opendrs.controller.drained_nodes import limits_of
from opendrs.controller.enrichment import enrich_snapshot, forget_ended_migrations
from opendrs.controller.execution_context import ExecutionContext, ExecutionObserver
from opendrs.controller.executor import ExecutionReport, execute
from opendrs.controller.history import correct_times
from opendrs.controller.node_inventory import record_nodes
from opendrs.controller.policy_memory import load_memory, save_memory
from opendrs.controller.protection import CircuitBreaker
from opendrs.controller.recovery import recover
from opendrs.controller.serialization import DrainReport, cycle_record
from opendrs.controller.usage_history import record_usage
from opendrs.model import Snapshot, Step
from opendrs.optimizer import Portion
from opendrs.policies import (
    Decision,
    Drain,
    Policy,
    Return,
    completed,
    first_repair,
    forecast_horizon_of,
)
from opendrs.policies.optimize import Repair
from opendrs.ports import StepRecord, Store
from opendrs.rules import without_undo_rules

MemoryT = TypeVar("MemoryT")


@dataclass(frozen=True, slots=True)
class Evaluation(Generic[MemoryT]):
    """A decision with the memory it was based on.

    Attributes:
        memory: Memory of the policy before the decision.
        decision: The decision.
        search: Portions of a search that a time limit has ended; empty without one.
        policy: The policy that decided; None for that of the decision source.
        schedule: Name of the entry of the schedule that it decided for, or empty.
        drain: The nodes that operators drain, with the guests that cannot leave.
    """

    memory: MemoryT
    decision: Decision[MemoryT]
    search: tuple[Portion, ...] = ()
    policy: Policy[Any] | None = None
    schedule: str = ""
    drain: DrainReport | None = None


def evaluations(
    snapshot: Snapshot, policy: Policy[MemoryT], store: Store, schedule: str = ""
) -> Iterator[Evaluation[MemoryT]]:
    """Yield the repair of violated strict rules, if any, and the decision of *policy*.

    The policy is evaluated, and its memory saved, only when its decision is needed. The
    visible nodes are saved in the node inventory as well.

    Args:
        snapshot: The cluster, as returned by `enrich_snapshot`.
        policy: The policy.
        store: Contains the memory of the policy.
        schedule: Name of the entry of the schedule that the policy decides for.

    Raises:
        StoreError: The memory cannot be read or written, or does not fit the policy.
    """
    record_nodes(snapshot, store)
    memory = load_memory(policy, store, schedule)
    repair = first_repair(policy, snapshot, memory)
    if repair is not None:
        yield Evaluation(memory, repair, schedule=schedule)
    decision = completed(policy, snapshot, policy.decide(snapshot, memory))
    save_memory(policy, decision.memory, store, schedule)
    yield Evaluation(memory, decision, schedule=schedule)


class DecisionSource(Protocol):
    """Source of the decision in each cycle. Every method may raise `StoreError`."""

    @property
    def policy(self) -> Policy[Any]:
        """Return the policy that is evaluated."""

    def reconcile(self) -> None:
        """Settle open requests; called while no step is running."""

    def evaluations(self, snapshot: Snapshot) -> Iterator[Evaluation[Any]]:
        """Yield the decisions about *snapshot*, in the order of their precedence.

        There is at least one. The first one whose plan may start is used, and those
        after it are not evaluated. Every plan but the last one has steps.
        """

    def record_decision(
        self, decision: Decision[Any], run: str, started: Sequence[Step]
    ) -> None:
        """Record that steps of the last yielded decision are about to be executed.

        Args:
            decision: The decision.
            run: Name of the execution.
            started: The steps: all of the plan, or a part of them.
        """

    def record_approved(self, approved: ApprovedPlan) -> None:
        """Record that a plan of an earlier cycle is about to be executed."""


class PolicyDecisionSource:
    """Decision source that evaluates a policy without agent requests.

    Args:
        policy: The policy.
        store: Contains the memory of the policy.
        schedule: Name of the entry of the schedule that it decides for, or empty.
    """

    def __init__(self, policy: Policy[Any], store: Store, schedule: str = "") -> None:
        self._policy = policy
        self._store = store
        self._schedule = schedule

    @property
    def policy(self) -> Policy[Any]:
        """Return the policy that is evaluated."""
        return self._policy

    def reconcile(self) -> None:
        """Do nothing: there are no requests to settle."""

    def evaluations(self, snapshot: Snapshot) -> Iterator[Evaluation[Any]]:
        """Yield the repair of violated strict rules, if any, and the decision."""
        return evaluations(snapshot, self._policy, self._store, self._schedule)

    def record_decision(
        self, decision: Decision[Any], run: str, started: Sequence[Step]
    ) -> None:
        """Do nothing: there are no requests to update."""

    def record_approved(self, approved: ApprovedPlan) -> None:
        """Do nothing: there are no requests to update."""


@dataclass(frozen=True, slots=True)
class CycleResult:
    """Result of a cycle.

    Attributes:
        decided: The decision; None if the cycle was stopped before it.
        report: The outcomes of the steps; None if the plan was not executed.
        approved: Name and outcomes of each executed plan of an earlier cycle.
    """

    decided: RecordedDecision | None = None
    report: ExecutionReport | None = None
    approved: tuple[tuple[str, ExecutionReport], ...] = ()


class CycleObserver(Protocol):
    """Receiver of the events of a cycle, such as a log or a terminal."""

    def recovery_started(self, records: Sequence[StepRecord]) -> None:
        """Handle that the unfinished *records* of an interrupted run are followed."""

    def decision_recorded(self, decided: RecordedDecision) -> None:
        """Handle a decision, also one whose plan may not start."""

    def running_steps(self) -> AbstractContextManager[ExecutionObserver]:
        """Return a context manager for the time in which steps run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleContext:
    """Dependencies of a cycle.

    Attributes:
        command: Name of the command that runs the cycle, such as `apply`.
        execution: Dependencies of the executor. Its observer is not used.
        observe: Function that returns the current snapshot; may raise
            `PlatformError`.
        decision_source: Source of the decision.
        approval: Approval of the plan, and plans that were approved since.
        observer: Receives the events of the cycle.
    """

    command: str
    execution: ExecutionContext
    observe: Callable[[], Snapshot]
    decision_source: DecisionSource
    approval: Approval
    observer: CycleObserver


def run_cycle(context: CycleContext) -> CycleResult:
    """Recover, execute approved plans, observe, decide, record, approve, execute.

    The decision and everything that reproduces it is recorded before the first step
    starts. A stop request prevents a new decision, and the start of steps.

    Raises:
        ConfigurationError: The configuration does not fit the cluster.
        PlatformError: The cluster cannot be observed.
        StoreError: The store could not be read or written.
    """
    execution = context.execution
    execution.starts.migrations = 0
    correct_times(execution.store, execution.clock.now())
    recovered = _recover(context)
    _reconcile(context)
    approved = execute_approved(context)
    if execution.cancellation.stop_requested:
        return CycleResult(approved=approved)
    decided = _decide(context, recovered)
    report = _execute(context, decided)
    _reconcile(context)
    return CycleResult(decided, report, approved)


def execute_approved(
    context: CycleContext,
) -> tuple[tuple[str, ExecutionReport], ...]:
    """Execute the plans of earlier cycles that have been approved since.

    Called while no step is running.

    Returns:
        Name and outcomes of each execution.

    Raises:
        StoreError: The store could not be read or written.
    """
    executed = []
    while not context.execution.cancellation.stop_requested:
        approved = context.approval.next_approved()
        if approved is None:
            break
        context.decision_source.record_approved(approved)
        executed.append((approved.run, _run_steps(context, approved)))
    return tuple(executed)


def _run_steps(context: CycleContext, approved: ApprovedPlan) -> ExecutionReport:
    with context.observer.running_steps() as observer:
        execution = replace(
            context.execution,
            observer=observer,
            stop_reason=approved.stop_reason,
            limits=limits_of(approved.policy, context.execution.limits),
        )
        report = execute(approved.plan, execution, run=approved.run)
    approved.ended(report)
    return report


def _recover(context: CycleContext) -> tuple[StepRecord, ...]:
    """Follow the unfinished steps of an interrupted run; return their records."""
    unfinished = context.execution.store.unfinished()
    if not unfinished:
        return ()
    context.observer.recovery_started(unfinished)
    with context.observer.running_steps() as observer:
        return recover(replace(context.execution, observer=observer))


def _reconcile(context: CycleContext) -> None:
    """Settle plans and requests, unless a stop left steps to the next process."""
    if not context.execution.store.unfinished():
        context.approval.reconcile()
        context.decision_source.reconcile()


def _decide(
    context: CycleContext, recovered: tuple[StepRecord, ...]
) -> RecordedDecision:
    """Observe the cluster, and return the first decision whose plan may start.

    If none may, that is the last one. All of them are recorded and reported.
    """
    execution, source = context.execution, context.decision_source
    observed = context.observe()
    forget_ended_migrations(observed, execution.store, execution.platform)
    snapshot = enrich_snapshot(
        observed, source.policy, execution.store, execution.protection
    )
    if forecast_horizon_of(source.policy):
        record_usage(snapshot, execution.store)
    CircuitBreaker(
        execution.store,
        execution.protection,
        execution.limits,
        execution.platform.name,
    ).update(execution.clock.now(), observed)
    for evaluation in source.evaluations(snapshot):
        decided = _record(context, snapshot, evaluation, recovered)
        if execution.cancellation.stop_requested:
            break
        context.observer.decision_recorded(decided)
        if context.approval.may_start(decided):
            break
    return decided


def _record(
    context: CycleContext,
    snapshot: Snapshot,
    evaluation: Evaluation[Any],
    recovered: tuple[StepRecord, ...],
) -> RecordedDecision:
    """Return the decision of *evaluation* after recording it."""
    execution = context.execution
    policy = evaluation.policy or context.decision_source.policy
    if isinstance(policy, Drain | Return | Repair) or evaluation.decision.repair_first:
        snapshot = without_undo_rules(snapshot)  # they did not apply
    decided_at = execution.clock.now()
    decided = RecordedDecision(
        run=f"{context.command} {decided_at:%Y-%m-%dT%H:%M:%S.%fZ} {uuid4().hex[:8]}",
        recovered=recovered,
        snapshot=snapshot,
        policy=policy,
        decision=evaluation.decision,
        schedule=evaluation.schedule,
    )
    execution.store.record_cycle(
        cycle_record(
            decided.run,
            decided_at,
            snapshot,
            policy=policy,
            memory=evaluation.memory,
            decision=evaluation.decision,
            search=evaluation.search,
            schedule=evaluation.schedule,
            drain=evaluation.drain,
        )
    )
    return decided


def _execute(
    context: CycleContext, decided: RecordedDecision
) -> ExecutionReport | None:
    """Execute the plan of *decided* if it is approved; otherwise return None."""
    execution, plan = context.execution, decided.decision.plan
    if execution.cancellation.stop_requested:
        return None
    approved = context.approval.approve(decided)
    if plan.steps and approved is None:
        return None
    started = () if approved is None else approved.plan.steps
    context.decision_source.record_decision(decided.decision, decided.run, started)
    return ExecutionReport() if approved is None else _run_steps(context, approved)
