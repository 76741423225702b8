"""One cycle of apply or demo: recover, plan, confirm, execute."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from opendrs.cli.sources import ClusterSource, observe
from opendrs.cli.time_limit import TimeLimitedPolicy
from opendrs.cli.wiring import cancel_on_signals
from opendrs.controller import (
    CancellationToken,
    ExecutionContext,
    ExecutionObserver,
    ExecutionReport,
    correct_times,
    decide,
    enrich_snapshot,
    execute,
    forget_ended_migrations,
    recover,
)
from opendrs.errors import PlatformError
from opendrs.model import Snapshot
from opendrs.policies import Decision, Policy
from opendrs.policies.optimize import Optimize
from opendrs.ports import Outcome, StepRecord, Store

INCOMPLETE, FAILURE = 1, 3
_FAILURES = (Outcome.FAILED, Outcome.LOST)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyTask:
    """Inputs of one cycle of apply or demo.

    Attributes:
        source: The cluster.
        policy: The policy.
        store: The store for the records.
        time_limit: Search time of the policy in seconds; None for no limit.
        poll_interval: Seconds between two polls of running tasks.
    """

    source: ClusterSource
    policy: Policy[Any]
    store: Store
    time_limit: float | None = None
    poll_interval: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyResult:
    """Result of one cycle: observation, decision and outcomes.

    Attributes:
        task: The inputs of the cycle.
        recovered: Steps that an interrupted run had started, with their outcomes.
        before: The snapshot of the decision.
        decision: The decision.
        report: The outcomes; None if the plan was not executed.
        after: The cluster after the plan; None if it was not executed, or if the
            platform is unreachable.
        metrics: Metrics of the policy after the plan.
    """

    task: ApplyTask
    recovered: tuple[StepRecord, ...]
    before: Snapshot
    decision: Decision[Any]
    report: ExecutionReport | None = None
    after: Snapshot | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)


class OutputFormat(Protocol):
    """Output of one cycle, for an operator or a program."""

    def show_recovery(self, records: Sequence[StepRecord]) -> None:
        """Report *records*, the unfinished steps of an interrupted run."""

    def show_decision(self, result: ApplyResult) -> None:
        """Report the decision."""

    def observer(
        self, cancellation: CancellationToken
    ) -> AbstractContextManager[ExecutionObserver]:
        """Return the observer of the execution."""

    def show_result(self, result: ApplyResult) -> None:
        """Report the outcomes."""


def run_apply_cycle(
    task: ApplyTask, output: OutputFormat, consent: Callable[[], bool]
) -> int:
    """Recover, plan, ask for confirmation, execute; return the exit status.

    Args:
        task: The inputs of the cycle.
        output: The output.
        consent: Called before the first step; nothing is started if it returns False.

    Raises:
        KeyboardInterrupt: The operator stopped the recovery.
        ConfigurationError: A rule of the configuration does not match the cluster.
        PlatformError: The cluster cannot be observed.
        StoreError: A record could not be written.
    """
    correct_times(task.store, task.source.clock.now())
    recovered = _recover(task, output)
    decided = _decide(task, recovered)
    output.show_decision(decided)
    if not decided.decision.plan.steps:
        output.show_result(decided)
        return 0
    if not consent():
        return INCOMPLETE
    cancellation = CancellationToken()
    with cancel_on_signals(cancellation):
        with output.observer(cancellation) as observer:
            report = _execute(decided, observer, cancellation)
        output.show_result(_observe_result(decided, report))
    return exit_status(report, cancellation)


def _recover(task: ApplyTask, output: OutputFormat) -> tuple[StepRecord, ...]:
    """Wait for the unfinished steps of an interrupted run; return their records."""
    unfinished = task.store.unfinished()
    if not unfinished:
        return ()
    output.show_recovery(unfinished)
    cancellation = CancellationToken()
    with cancel_on_signals(cancellation), output.observer(cancellation) as observer:
        recovered = recover(_execution_context(task, observer, cancellation))
    if cancellation.stop_requested:  # an operator who stops here wants no new plan
        raise KeyboardInterrupt
    return recovered


def _decide(task: ApplyTask, recovered: tuple[StepRecord, ...]) -> ApplyResult:
    """Observe the cluster and return the decision of the policy."""
    observed = observe(task.source)
    forget_ended_migrations(observed, task.store, task.source.platform)
    snapshot = enrich_snapshot(observed, task.policy, task.store)
    policy = task.policy
    if task.time_limit is not None and isinstance(policy, Optimize):
        policy = TimeLimitedPolicy(policy, task.time_limit)
    decision = decide(snapshot, policy, task.store)
    return ApplyResult(
        task=task, recovered=recovered, before=snapshot, decision=decision
    )


def _execute(
    decided: ApplyResult, observer: ExecutionObserver, cancellation: CancellationToken
) -> ExecutionReport:
    task = decided.task
    now = task.source.clock.now()
    run = f"apply {now:%Y-%m-%dT%H:%M:%S.%fZ} {os.getpid()}"
    return execute(
        decided.decision.plan, _execution_context(task, observer, cancellation), run=run
    )


def _execution_context(
    task: ApplyTask, observer: ExecutionObserver, cancellation: CancellationToken
) -> ExecutionContext:
    return ExecutionContext(
        platform=task.source.platform,
        clock=task.source.clock,
        store=task.store,
        limits=task.policy.limits,
        observer=observer,
        cancellation=cancellation,
        poll_interval=task.poll_interval,
    )


def _observe_result(decided: ApplyResult, report: ExecutionReport) -> ApplyResult:
    policy = decided.task.policy
    try:
        after = decided.task.source.platform.observe()
    except PlatformError:  # the outcomes must be reported nevertheless
        return replace(decided, report=report)
    metrics = policy.decide(after, policy.initial_memory()).before
    return replace(decided, report=report, after=after, metrics=metrics)


def exit_status(report: ExecutionReport, cancellation: CancellationToken) -> int:
    """Return 0 if all steps are done, 3 if a step failed, otherwise 1."""
    if report.all_done:
        return 0
    # A step that the operator aborted did not fail.
    failures = (
        _FAILURES if cancellation.abort_requested else (*_FAILURES, Outcome.ABORTED)
    )
    return FAILURE if any(map(report.count, failures)) else INCOMPLETE
