"""The controller loop: run cycles until stopped."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from opendrs.controller.clock import POLL_INTERVAL, ExponentialBackoff, IntervalTimer
from opendrs.controller.consent import Approval
from opendrs.controller.cycle import (
    CycleContext,
    CycleResult,
    DecisionSource,
    execute_approved,
    run_cycle,
)
from opendrs.controller.event_log import CycleLogger
from opendrs.controller.events import LogEventCode, log_event
from opendrs.controller.execution_context import ExecutionContext
from opendrs.controller.executor import ExecutionReport
from opendrs.controller.observers import ControllerObserver, NullControllerObserver
from opendrs.controller.policy_schedule import PolicySchedule
from opendrs.controller.repair_advice import RepairCommand
from opendrs.errors import PermissionDeniedError, PlatformError, UnsupportedError
from opendrs.model import Protection, Snapshot, format_count
from opendrs.ports import Platform

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
class Reconfiguration:
    """Replacement of the parts of a controller between two cycles.

    Attributes:
        interval: Seconds between the starts of two cycles.
        platform: Executes the actions.
        protection: Protection of the cluster.
        policies: Names of the policies, for the observer.
        decision_source: Source of the decisions.
        approval: Approval of the plans.
        schedule: Times of the cycles of several policies, instead of *interval*.
    """

    interval: float
    platform: Platform
    protection: Protection
    policies: str
    decision_source: DecisionSource
    approval: Approval
    schedule: PolicySchedule | None = None


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
        observer: Receives the events of the loop.
        reconfigure: Function that returns new parts if the configuration has
            changed; otherwise None.
        schedule: Times of the cycles of several policies, instead of *interval*.
    """

    interval: float
    batch_window: float
    observe: Callable[[], Snapshot]
    require_alive: Callable[[], None]
    repair_command: RepairCommand | None = None
    observer: ControllerObserver = field(default_factory=NullControllerObserver)
    reconfigure: Callable[[], Reconfiguration | None] = lambda: None
    schedule: PolicySchedule | None = None


class Controller:
    """Control loop: one cycle after the other, until stopped.

    Args:
        settings: Settings of the loop.
        execution: Dependencies of the executor.
        decision_source: Source of the decisions.
        wakeup_event: Requests for early cycles.
        approval: Approval of the plans.
    """

    def __init__(
        self,
        settings: LoopSettings,
        execution: ExecutionContext,
        decision_source: DecisionSource,
        wakeup_event: WakeupEvent,
        approval: Approval,
    ) -> None:
        self._settings = settings
        self._execution = execution
        self._wakeup_event = wakeup_event
        self._cycle = CycleContext(
            command="run",
            execution=execution,
            observe=self._observe,
            decision_source=decision_source,
            approval=approval,
            observer=self._cycle_logger(execution),
        )
        self._schedule = settings.schedule
        self._timer = IntervalTimer(
            self._timer_interval(settings.interval), execution.clock.monotonic()
        )
        self._backoff = ExponentialBackoff(INITIAL_BACKOFF, 0)
        self._reported_error = ""

    def _cycle_logger(self, execution: ExecutionContext) -> CycleLogger:
        command = self._settings.repair_command
        return CycleLogger(execution.observer, command, execution.protection)

    def _timer_interval(self, interval: float) -> float:
        """Return the interval of the timer: with a schedule, it only expedites."""
        return interval if self._schedule is None else math.inf

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
        """Run one cycle and return the report of the steps that it executed.

        Raises:
            PlatformError: The cluster is unreachable.
            ConfigurationError: The configuration does not fit the cluster.
            StoreError: The store could not be read or written.
        """
        result = self._run_observed_cycle()
        reports = [report for _, report in result.approved]
        if result.report is not None:
            reports.append(result.report)
        return ExecutionReport(
            tuple(record for report in reports for record in report.records)
        )

    def _run_observed_cycle(self) -> CycleResult:
        """Run one cycle and report its end to the observer."""
        clock, observer = self._execution.clock, self._settings.observer
        started_at = clock.monotonic()
        self._timer.start_cycle(started_at)
        if self._schedule is not None:
            self._schedule.start_cycle()
        try:
            result = run_cycle(self._cycle)
        except PlatformError as error:
            if self._schedule is not None:
                self._schedule.cycle_failed()
            observer.cycle_failed(error, clock.monotonic() - started_at)
            raise
        observer.cycle_finished(result, clock.monotonic() - started_at)
        return result

    def _observe(self) -> Snapshot:
        snapshot = self._settings.observe()
        self._record_reachable()
        return snapshot

    def _log_stopped(self) -> None:
        unfinished = len(self._execution.store.unfinished())
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
        while not self._execution.cancellation.stop_requested:
            self._settings.require_alive()
            self._settings.observer.loop_polled()
            self._replace_parts(self._settings.reconfigure())
            now = self._execution.clock.monotonic()
            if self._wakeup_event.consume():
                self._request_cycle(now)
            remaining = self._timer.remaining(now)
            if remaining <= 0 or self._is_scheduled(now):
                return True
            execute_approved(self._cycle)
            self._execution.clock.sleep(min(remaining, POLL_INTERVAL))
        return False

    def _request_cycle(self, now: float) -> None:
        """Request an early cycle."""
        self._timer.expedite(now, self._settings.batch_window)
        if self._schedule is not None:
            self._schedule.request_cycle()

    def _is_scheduled(self, now: float) -> bool:
        """Return True if the schedule has a cycle that is due."""
        if self._schedule is None or self._backoff.is_waiting(now):
            return False
        return self._schedule.is_due()

    def _replace_parts(self, new: Reconfiguration | None) -> None:
        """Use the parts in *new* from the next cycle on."""
        if new is None:
            return
        self._schedule = new.schedule
        self._execution = replace(
            self._execution,
            platform=new.platform,
            limits=new.decision_source.policy.limits,
            protection=new.protection,
        )
        self._cycle = replace(
            self._cycle,
            execution=self._execution,
            decision_source=new.decision_source,
            approval=new.approval,
            observer=self._cycle_logger(self._execution),
        )
        interval = self._timer_interval(new.interval)
        self._timer.change_interval(interval, self._execution.clock.monotonic())
        self._settings.observer.configured(new.policies, new.interval)

    def _record_unreachable(self, error: PlatformError) -> None:
        """Schedule a retry of the unreachable cluster; log the first failure."""
        now = self._execution.clock.monotonic()
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
