"""The controller loop: run cycles until stopped."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from opendrs.controller.clock import POLL_INTERVAL, ExponentialBackoff, IntervalTimer
from opendrs.controller.cycle import (
    DecisionSource,
    enrich_snapshot,
    forget_ended_migrations,
)
from opendrs.controller.event_log import CycleLogger
from opendrs.controller.events import LogEventCode, log_event
from opendrs.controller.execution_context import ExecutionContext
from opendrs.controller.executor import ExecutionReport, execute
from opendrs.controller.history import correct_times
from opendrs.controller.recovery import recover
from opendrs.controller.serialization import cycle_record
from opendrs.errors import PermissionDeniedError, PlatformError, UnsupportedError
from opendrs.model import Snapshot, format_count

INITIAL_BACKOFF = 5.0  # seconds until the first retry of an unreachable platform


class WakeupEvent:
    """Request for an early cycle; other threads may set it."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        """Request a cycle."""
        self._event.set()

    def consume(self) -> bool:
        """Return True if it was set since the last call, and clear it."""
        was_set = self._event.is_set()
        self._event.clear()
        return was_set


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSettings:
    """Settings of the control loop.

    Attributes:
        interval: Seconds between the starts of two cycles.
        batch_window: Seconds from a wakeup event to the requested cycle.
        observe: Function that returns the current snapshot; may raise
            `PlatformError`.
        require_alive: Function that raises an error if a concurrent service, such as
            the API server, has ended.
        repair_command: Command that repairs violated rules while no controller runs,
            for the log; None if there is none.
    """

    interval: float
    batch_window: float
    observe: Callable[[], Snapshot]
    require_alive: Callable[[], None]
    repair_command: str | None = None


class Controller:
    """Control loop: recover, observe, decide, record, execute.

    Args:
        settings: Settings of the loop.
        context: Dependencies of the executor.
        decision_source: Source of the decisions.
        wakeup_event: Requests for early cycles.
    """

    def __init__(
        self,
        settings: LoopSettings,
        context: ExecutionContext,
        decision_source: DecisionSource,
        wakeup_event: WakeupEvent,
    ) -> None:
        self._settings = settings
        self._context = context
        self._decision_source = decision_source
        self._wakeup_event = wakeup_event
        self._timer = IntervalTimer(settings.interval, context.clock.monotonic())
        self._backoff = ExponentialBackoff(INITIAL_BACKOFF, 0)
        self._reported_error = ""
        self._log = CycleLogger(settings.repair_command)
        self._cycle_count = 0

    def run_forever(self) -> None:
        """Run cycles until stopped and all running steps have ended.

        An unreachable platform is logged once and retried. After a stop request, the
        steps that it executes are left to the next process.

        Raises:
            PermissionDeniedError: A permission on the platform is missing.
            UnsupportedError: The platform does not support a required function.
            ConfigurationError: The configuration does not fit the cluster.
            StoreError: The store could not be read or written.
        """
        while self._wait_until_due():
            try:
                self.run_once()
            except (PermissionDeniedError, UnsupportedError):
                raise
            except PlatformError as error:
                self._record_unreachable(error)
        self._log_stopped()

    def run_once(self) -> ExecutionReport:
        """Run one cycle and return the report of its execution.

        Raises:
            PlatformError: The cluster is unreachable.
            ConfigurationError: The configuration does not fit the cluster.
            StoreError: The store could not be read or written.
        """
        context, source = self._context, self._decision_source
        self._timer.start_cycle(context.clock.monotonic())
        correct_times(context.store, context.clock.now())
        self._recover()
        self._reconcile()
        # A stop during the recovery also prevents a new plan.
        if context.cancellation.stop_requested:
            return ExecutionReport()
        observed = self._settings.observe()
        self._record_reachable()
        forget_ended_migrations(observed, context.store, context.platform)
        snapshot = enrich_snapshot(observed, source.policy, context.store)
        evaluation = source.evaluate(snapshot)
        now = context.clock.now()
        run = self._run_name(now)
        context.store.record_cycle(
            cycle_record(run, now, snapshot, source.policy, evaluation)
        )
        if context.cancellation.stop_requested:
            source.reconcile()
            return ExecutionReport()
        decision = evaluation.decision
        self._log.log_decision(source.policy, decision, snapshot, run)
        source.record_decision(snapshot, decision, run)
        report = execute(decision.plan, context, run=run)
        self._reconcile()
        if report.records:
            log_event(
                LogEventCode.PLAN_EXECUTED, f"plan executed: {report.summary}", run=run
            )
        return report

    def _recover(self) -> None:
        """Follow the unfinished steps of a previous run to their end."""
        unfinished = self._context.store.unfinished()
        if unfinished:
            log_event(
                LogEventCode.RECOVERY_STARTED,
                f"recovering {format_count(len(unfinished), 'unfinished step')} "
                "of a previous run",
                steps=len(unfinished),
            )
            recover(self._context)

    def _reconcile(self) -> None:
        """Settle the requests, unless a stop left steps to the next process."""
        if not self._context.store.unfinished():
            self._decision_source.reconcile()

    def _log_stopped(self) -> None:
        unfinished = len(self._context.store.unfinished())
        steps = (
            f"{format_count(unfinished, 'unfinished step')}: the platform is "
            "unreachable; the next start follows them"
            if unfinished
            else "no step is running"
        )
        log_event(
            LogEventCode.CONTROLLER_STOPPED,
            f"controller stopped: {steps}",
            unfinished=unfinished,
        )

    def _wait_until_due(self) -> bool:
        """Wait until a cycle is due; return False if a stop is requested first."""
        while not self._context.cancellation.stop_requested:
            self._settings.require_alive()
            now = self._context.clock.monotonic()
            if self._wakeup_event.consume():
                self._timer.expedite(now, self._settings.batch_window)
            remaining = self._timer.remaining(now)
            if remaining <= 0:
                return True
            self._context.clock.sleep(min(remaining, POLL_INTERVAL))
        return False

    def _run_name(self, now: datetime) -> str:
        """Return a unique name for the execution of this cycle."""
        self._cycle_count += 1
        return f"run {now:%Y-%m-%dT%H:%M:%S.%fZ} {os.getpid()} {self._cycle_count}"

    def _record_unreachable(self, error: PlatformError) -> None:
        """Schedule a retry of the unreachable cluster; log the first failure."""
        now = self._context.clock.monotonic()
        self._backoff.record_failure(now)
        self._timer.expedite(now, self._backoff.delay)
        if not self._reported_error:
            log_event(
                LogEventCode.CLUSTER_UNREACHABLE,
                f"cluster unreachable: {error}; "
                f"retrying in {self._backoff.delay:.0f} s",
                level=logging.WARNING,
            )
        self._reported_error = str(error)

    def _record_reachable(self) -> None:
        self._backoff.reset()
        if self._reported_error:
            log_event(LogEventCode.CLUSTER_REACHABLE, "cluster reachable again")
        self._reported_error = ""
