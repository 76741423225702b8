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
from opendrs.controller.events import log_event
from opendrs.controller.execution_context import ExecutionContext
from opendrs.controller.executor import ExecutionReport, execute
from opendrs.controller.history import correct_times
from opendrs.controller.recovery import recover
from opendrs.controller.serialization import cycle_record
from opendrs.errors import PermissionDeniedError, PlatformError, UnsupportedError
from opendrs.model import Snapshot, format_count

INITIAL_BACKOFF = (
    5.0  # seconds after which a platform that did not answer is asked again
)


class WakeupEvent:
    """Calls for a cycle before it is due; other threads may ring it."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        """Call for a cycle."""
        self._event.set()

    def consume(self) -> bool:
        """Return whether it was rung since this was last asked."""
        was_set = self._event.is_set()
        self._event.clear()
        return was_set


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSettings:
    """What the controller goes by.

    Attributes:
        interval: Seconds from one cycle to the next.
        batch_window: Seconds from a ring of the bell to the cycle it calls for.
        observe: Returns the cluster as it is now; may raise `PlatformError`.
        require_alive: Raises an error when what runs beside the cycles does not.
    """

    interval: float
    batch_window: float
    observe: Callable[[], Snapshot]
    require_alive: Callable[[], None]


class Controller:
    """Runs cycles: what was left is followed, then observe, decide, act, record.

    Args:
        settings: What it goes by.
        context: What is at hand.
        decision_source: Who decides.
        wakeup_event: Calls for a cycle before it is due.
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
        self._log = CycleLogger(context.platform.name)
        self._cycle_count = 0

    def run_forever(self) -> None:
        """Run cycles until the brake is pulled, and what runs has ended.

        A platform that does not answer is told once, and asked again.

        Raises:
            PermissionDeniedError: The platform refuses for want of permission.
            UnsupportedError: It cannot do at all what is needed.
            ConfigurationError: What the operator wrote does not fit the cluster.
            StoreError: The record could not be kept.
        """
        while self._wait_until_due():
            try:
                self.run_once()
            except (PermissionDeniedError, UnsupportedError):
                raise
            except PlatformError as error:
                self._record_unreachable(error)
        log_event("controller-stopped", "stopped: nothing runs any more")

    def run_once(self) -> ExecutionReport:
        """Run one cycle and return what came of it.

        Raises:
            PlatformError: The cluster cannot be seen.
            ConfigurationError: What the operator wrote does not fit it.
            StoreError: The record could not be kept.
        """
        context, source = self._context, self._decision_source
        self._timer.start_cycle(context.clock.monotonic())
        correct_times(context.store, context.clock.now())
        self._recover()
        source.reconcile()
        if (
            context.cancellation.stop_requested
        ):  # who stops what is old wants nothing new
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
        source.reconcile()
        if report.records:
            log_event("plan-executed", f"executed: {report.summary}", run=run)
        return report

    def _recover(self) -> None:
        """Follow to its end what an earlier process has left."""
        unfinished = self._context.store.unfinished()
        if unfinished:
            log_event(
                "recovery-started",
                f"an earlier process left {format_count(len(unfinished), 'step')} under way; "
                "following",
                steps=len(unfinished),
            )
            recover(self._context)

    def _wait_until_due(self) -> bool:
        """Wait until a cycle is due; return False when the brake is pulled first."""
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
        """Return what the execution of this cycle is called; none other is."""
        self._cycle_count += 1
        return f"run {now:%Y-%m-%dT%H:%M:%S.%fZ} {os.getpid()} {self._cycle_count}"

    def _record_unreachable(self, error: PlatformError) -> None:
        """Take note that the cluster cannot be seen; tell it once."""
        now = self._context.clock.monotonic()
        self._backoff.record_failure(now)
        self._timer.expedite(now, self._backoff.delay)
        if not self._reported_error:
            log_event(
                "cluster-unreachable",
                f"the cluster cannot be seen: {error}",
                level=logging.WARNING,
            )
        self._reported_error = str(error)

    def _record_reachable(self) -> None:
        self._backoff.reset()
        if self._reported_error:
            log_event("cluster-reachable", "the cluster can be seen again")
        self._reported_error = ""
