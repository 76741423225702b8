"""Cycles that only drain nodes and return guests, by this process or a controller."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    stop_after_attempt,
    wait_fixed,
)

from opendrs.arrays import SkipReason
from opendrs.cli.console import console, warn
from opendrs.cli.output import ProgressObserver
from opendrs.cli.platform_store import open_store
from opendrs.cli.platforms import ClusterSource
from opendrs.cli.sources import observe
from opendrs.cli.wiring import cancel_on_signals
from opendrs.config.settings import Settings
from opendrs.controller import (
    CancellationToken,
    CycleContext,
    ExecutionContext,
    ExecutionObserver,
    NullObserver,
    RecordedDecision,
    run_cycle,
)
from opendrs.controller.consent import ConsentApproval
from opendrs.controller.maintenance import MaintenanceDecisionSource
from opendrs.errors import LeaseLostError, PlatformUnavailableError
from opendrs.model import NodeId, Snapshot, format_count
from opendrs.policies import DecisionReason, Policy, guests_on
from opendrs.ports import Outcome, StepRecord, Store

RETRY_INTERVAL = 5.0  # seconds until a decision that lacks measurements is repeated
POLL_INTERVAL = 2.0  # seconds between two looks at a node
METRICS_TIMEOUT = 120.0  # seconds; some platforms need two samples, or do not respond
MAX_RETRIES = int(METRICS_TIMEOUT / RETRY_INTERVAL)
_TEMPORARY = (SkipReason.METRICS_MISSING, SkipReason.MIGRATION_IN_PROGRESS)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceTask:
    """Inputs of cycles that only drain nodes and return guests.

    Attributes:
        command: Name of the command, for the record.
        source: The cluster.
        settings: The configuration.
        policy: The configured policy, for its limits.
        shows_progress: True to print the progress.
        cancellation: Stop requests of the operator.
    """

    command: str
    source: ClusterSource
    settings: Settings
    policy: Policy[Any]
    shows_progress: bool
    cancellation: CancellationToken = field(default_factory=CancellationToken)


@dataclass(frozen=True, slots=True)
class MaintenanceResult:
    """Result of the cycles.

    Attributes:
        records: The steps, with their outcomes.
        last: The last decision; None if the first cycle was stopped before it.
    """

    records: tuple[StepRecord, ...] = ()
    last: RecordedDecision | None = None


def run_maintenance(task: MaintenanceTask) -> MaintenanceResult | None:
    """Run cycles until there is nothing more to drain or to return.

    Returns:
        None if another process holds the store: a controller, which does the work.

    Raises:
        KeyboardInterrupt: The operator stopped the recovery.
        PlatformError: The cluster cannot be observed.
        StoreError: A record could not be written.
    """
    try:
        with open_store(task.source, task.settings) as store:
            return _run_cycles(task, store)
    except LeaseLostError:
        return None


def _run_cycles(task: MaintenanceTask, store: Store) -> MaintenanceResult:
    context = _cycle_context(task, store)
    records: list[StepRecord] = []
    retries = 0
    while True:
        result = run_cycle(context)
        if result.decided is None:
            raise KeyboardInterrupt
        made = () if result.report is None else result.report.records
        records += made
        if task.cancellation.stop_requested or _is_final(result.decided, made):
            return MaintenanceResult(tuple(records), result.decided)
        if not made:
            retries += 1
            if retries > MAX_RETRIES:
                return MaintenanceResult(tuple(records), result.decided)
            task.source.clock.sleep(RETRY_INTERVAL)


def _is_final(decided: RecordedDecision, made: Sequence[StepRecord]) -> bool:
    """Return True if a further cycle would not do more."""
    if made:
        return not any(record.outcome is Outcome.DONE for record in made)
    if decided.decision.reason is DecisionReason.MIGRATION_IN_PROGRESS:
        return False
    return all(
        each.reason not in _TEMPORARY for each in decided.decision.skipped.values()
    )


def wait_until(
    task: MaintenanceTask, node: NodeId, is_done: Callable[[Snapshot], bool]
) -> Snapshot:
    """Wait until *is_done*, and print how many guests are on *node* when it changes.

    Raises:
        PlatformError: The cluster cannot be observed, also after two minutes.
    """
    screen, shown = console(min_width=1), -1
    observing = Retrying(
        retry=retry_if_exception_type(PlatformUnavailableError),
        wait=wait_fixed(RETRY_INTERVAL),
        stop=stop_after_attempt(MAX_RETRIES),
        sleep=task.source.clock.sleep,
        before_sleep=_warn_of_retry,
        reraise=True,
    )
    while True:
        snapshot = observing(observe, task.source)
        left = len(guests_on(snapshot, {node}))
        if left != shown and task.shows_progress:
            screen.print(f"{node}: {format_count(left, 'guest')}")
        shown = left
        if is_done(snapshot):
            return snapshot
        task.source.clock.sleep(POLL_INTERVAL)


def _warn_of_retry(state: RetryCallState) -> None:
    assert state.outcome is not None  # noqa: S101 - an attempt has failed
    warn(f"{state.outcome.exception()}; retry in {RETRY_INTERVAL:g} s")


class _MaintenanceObserver:
    """Cycle observer that prints the progress of steps."""

    def __init__(self, task: MaintenanceTask) -> None:
        self._task = task

    def recovery_started(self, records: Sequence[StepRecord]) -> None:
        """Print the number of unfinished steps."""
        if self._task.shows_progress:
            steps = format_count(len(records), "unfinished step")
            console().print(f"Recovering {steps} of an interrupted run.")

    def decision_recorded(self, decided: RecordedDecision) -> None:
        """Do nothing: the preview has shown the plan."""

    @contextmanager
    def running_steps(self) -> Iterator[ExecutionObserver]:
        """Yield the observer of the steps."""
        cancellation = self._task.cancellation
        observer: AbstractContextManager[ExecutionObserver] = (
            ProgressObserver(console(min_width=1), cancellation)
            if self._task.shows_progress
            else nullcontext(NullObserver())
        )
        with cancel_on_signals(cancellation), observer as receiver:
            yield receiver


def _cycle_context(task: MaintenanceTask, store: Store) -> CycleContext:
    return CycleContext(
        command=task.command,
        execution=ExecutionContext(
            platform=task.source.platform,
            clock=task.source.clock,
            store=store,
            limits=task.policy.limits,
            protection=task.settings.protection,
            observer=NullObserver(),
            cancellation=task.cancellation,
        ),
        observe=lambda: observe(task.source),
        decision_source=MaintenanceDecisionSource(None, task.policy, store),
        approval=ConsentApproval(lambda _: True),
        observer=_MaintenanceObserver(task),
    )
