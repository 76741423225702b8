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
    """What is to be performed.

    Attributes:
        source: Where.
        policy: What decides.
        store: Where it is recorded.
        time_limit: For how long the policy searches; None for as long as it takes.
        poll_interval: Seconds between two looks at what runs.
    """

    source: ClusterSource
    policy: Policy[Any]
    store: Store
    time_limit: float | None = None
    poll_interval: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyResult:
    """What was seen, decided and done.

    Attributes:
        task: What was to be performed.
        recovered: What an interrupted run had started, and what came of it.
        before: The cluster that was decided about.
        decision: What was decided.
        report: What came of it; None when it was not carried out.
        after: The cluster afterwards; None when nothing was done, or when it
            could not be seen.
        metrics: What the policy measures afterwards.
    """

    task: ApplyTask
    recovered: tuple[StepRecord, ...]
    before: Snapshot
    decision: Decision[Any]
    report: ExecutionReport | None = None
    after: Snapshot | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)


class OutputFormat(Protocol):
    """Who is shown the performance."""

    def show_recovery(self, records: Sequence[StepRecord]) -> None:
        """Take note that an interrupted run had started *records*."""

    def show_decision(self, result: ApplyResult) -> None:
        """Take note of the decision."""

    def observer(
        self, cancellation: CancellationToken
    ) -> AbstractContextManager[ExecutionObserver]:
        """Return whom to tell what happens."""

    def show_result(self, result: ApplyResult) -> None:
        """Take note of the end."""


def run_apply_cycle(
    task: ApplyTask, output: OutputFormat, consent: Callable[[], bool]
) -> int:
    """Resume, plan, ask, act; return the exit status.

    Args:
        task: What to perform.
        output: Who is shown it.
        consent: Asked before anything is started.

    Raises:
        KeyboardInterrupt: The operator stopped it before there was a plan.
        ConfigurationError: A rule of the configuration does not fit the cluster.
        PlatformError: The cluster cannot be seen.
        StoreError: The record could not be kept.
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
    """Follow to its end what an interrupted run has started."""
    unfinished = task.store.unfinished()
    if not unfinished:
        return ()
    output.show_recovery(unfinished)
    cancellation = CancellationToken()
    with cancel_on_signals(cancellation), output.observer(cancellation) as observer:
        recovered = recover(_execution_context(task, observer, cancellation))
    if cancellation.stop_requested:  # who stops what is old wants nothing new
        raise KeyboardInterrupt
    return recovered


def _decide(task: ApplyTask, recovered: tuple[StepRecord, ...]) -> ApplyResult:
    """Return what is seen now, and what to do about it."""
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
    except PlatformError:  # what was done must be told all the same
        return replace(decided, report=report)
    metrics = policy.decide(after, policy.initial_memory()).before
    return replace(decided, report=report, after=after, metrics=metrics)


def exit_status(report: ExecutionReport, cancellation: CancellationToken) -> int:
    """Return 0 when all was done, 1 when some was not, 3 when some failed."""
    if report.all_done:
        return 0
    # What the operator gave up did not fail.
    failures = (
        _FAILURES if cancellation.abort_requested else (*_FAILURES, Outcome.ABORTED)
    )
    return FAILURE if any(map(report.count, failures)) else INCOMPLETE
