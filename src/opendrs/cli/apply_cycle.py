"""One cycle of apply or demo: recover, plan, confirm, execute."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from opendrs.cli.platforms import ClusterSource
from opendrs.cli.sources import observe
from opendrs.cli.time_limit import TimeLimitedDecisionSource
from opendrs.cli.wiring import cancel_on_signals
from opendrs.controller import (
    CancellationToken,
    CycleContext,
    ExecutionContext,
    ExecutionObserver,
    ExecutionReport,
    NullObserver,
    RecordedDecision,
    run_cycle,
)
from opendrs.controller.consent import ConsentApproval
from opendrs.controller.cycle import PolicyDecisionSource
from opendrs.errors import PlatformError
from opendrs.model import DEFAULT_PROTECTION, Protection, Snapshot
from opendrs.policies import Decision, Policy, repair_for
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
        protection: Protection of the cluster.
        time_limit: Search time of the policy in seconds; None for no limit.
        poll_interval: Seconds between two polls of running tasks.
    """

    source: ClusterSource
    policy: Policy[Any]
    store: Store
    protection: Protection = DEFAULT_PROTECTION
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
    cancellation = CancellationToken()
    result = run_cycle(_cycle_context(task, output, consent, cancellation))
    if result.decided is None:  # an operator who stops the recovery wants no plan
        raise KeyboardInterrupt
    decided = _apply_result(task, result.decided)
    if not decided.decision.plan.steps:
        output.show_result(decided)
        return 0
    if result.report is None:
        return INCOMPLETE
    with cancel_on_signals(cancellation):
        output.show_result(_observe_result(decided, result.report))
    return exit_status(result.report, cancellation)


class _ApplyObserver:
    """Cycle observer that shows the events on the output of the command.

    While steps run, Ctrl-C and SIGTERM cancel them instead of ending the program.
    """

    def __init__(
        self, task: ApplyTask, output: OutputFormat, cancellation: CancellationToken
    ) -> None:
        self._task = task
        self._output = output
        self._cancellation = cancellation

    def recovery_started(self, records: Sequence[StepRecord]) -> None:
        """Show the unfinished steps."""
        self._output.show_recovery(records)

    def decision_recorded(self, decided: RecordedDecision) -> None:
        """Show the decision."""
        self._output.show_decision(_apply_result(self._task, decided))

    @contextmanager
    def running_steps(self) -> Iterator[ExecutionObserver]:
        """Yield the observer of the output."""
        with (
            cancel_on_signals(self._cancellation),
            self._output.observer(self._cancellation) as observer,
        ):
            yield observer


def _cycle_context(
    task: ApplyTask,
    output: OutputFormat,
    consent: Callable[[], bool],
    cancellation: CancellationToken,
) -> CycleContext:
    source = PolicyDecisionSource(task.policy, task.store)
    if task.time_limit is not None and isinstance(task.policy, Optimize):
        source = TimeLimitedDecisionSource(task.policy, task.store, task.time_limit)
    return CycleContext(
        command="apply",
        execution=ExecutionContext(
            platform=task.source.platform,
            clock=task.source.clock,
            store=task.store,
            limits=task.policy.limits,
            protection=task.protection,
            observer=NullObserver(),
            cancellation=cancellation,
            poll_interval=task.poll_interval,
        ),
        observe=lambda: observe(task.source),
        decision_source=source,
        approval=ConsentApproval(lambda _: consent()),
        observer=_ApplyObserver(task, output, cancellation),
    )


def _apply_result(task: ApplyTask, decided: RecordedDecision) -> ApplyResult:
    return ApplyResult(
        task=task,
        recovered=decided.recovered,
        before=decided.snapshot,
        decision=decided.decision,
    )


def _observe_result(decided: ApplyResult, report: ExecutionReport) -> ApplyResult:
    policy = decided.task.policy
    try:
        after = decided.task.source.platform.observe()
    except PlatformError:  # the outcomes must be reported nevertheless
        return replace(decided, report=report)
    decider = repair_for(policy) if decided.decision.repair_first else policy
    metrics = decider.decide(after, decider.initial_memory()).before
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
