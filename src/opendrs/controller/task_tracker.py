"""Follow the task of one step until it has an outcome."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from opendrs.controller.clock import ExponentialBackoff
from opendrs.controller.execution_context import ExecutionContext
from opendrs.errors import (
    PermissionDeniedError,
    PlatformError,
    PlatformUnavailableError,
    UnsupportedError,
)
from opendrs.model import (
    Action,
    DiskMove,
    LiveMigration,
    NodeState,
    PowerOff,
    PowerOn,
    Step,
    disk_named,
)
from opendrs.ports import (
    MigrationRates,
    Outcome,
    Platform,
    Progress,
    StepRecord,
    TaskId,
    TaskState,
    TaskStatus,
)

MIB = 1 << 20
MAX_STOP_DELAY = 10.0  # seconds for which a stop waits for an unreachable platform


def join_details(*parts: str) -> str:
    """Return the parts that are not empty as one line."""
    return "; ".join(part for part in parts if part)


def timeout_detail(action: Action, timeout: float, progress: Progress | None) -> str:
    """Return the detail of an *action* that took longer than *timeout* seconds."""
    if not isinstance(action, LiveMigration):
        return f"timeout: did not finish within {timeout:.0f} s"
    rates = _transfer_rates(progress)
    return f"timeout: did not converge within {timeout:.0f} s{rates}"


def _transfer_rates(progress: Progress | None) -> str:
    if progress is None:
        return ""
    dirty_rate, bandwidth = progress.dirty_rate, progress.bandwidth
    parts = [
        "" if dirty_rate is None else f"dirty rate {dirty_rate / MIB:.0f} MiB/s",
        "" if bandwidth is None else f"bandwidth {bandwidth / MIB:.0f} MiB/s",
    ]
    rates = ", ".join(part for part in parts if part)
    return f": {rates}" if rates else ""


def describe_location(platform: Platform, action: Action) -> str:
    """Return the current node and state of the guest as text; empty for a node."""
    if isinstance(action, PowerOn | PowerOff):
        return ""
    try:
        guest = platform.observe().guests.get(action.guest)
    except PlatformError:
        return f"location of {action.guest} unknown: platform unreachable"
    if guest is None:
        return f"{action.guest} is on no reachable node"
    if isinstance(action, DiskMove):
        disk = disk_named(guest, action.disk)
        where = "unknown" if disk is None else disk.storage
        return f"{guest.id} is on {guest.node}, storage of {action.disk}: {where}"
    return f"{guest.id} is on {guest.node} ({guest.state})"


def appears_done(platform: Platform, action: Action) -> bool:
    """Return True if the cluster is in the state that *action* leads to.

    Raises:
        PlatformError: The cluster is unreachable, or the node that would show it is.
    """
    snapshot = platform.observe()
    if isinstance(action, PowerOn | PowerOff):
        node = snapshot.nodes.get(action.node)
        if node is not None and node.state is NodeState.UNKNOWN:
            raise PlatformUnavailableError(f"{action.node} does not respond")
        return node is not None and node.online is isinstance(action, PowerOn)
    guest = snapshot.guests.get(action.guest)
    if guest is None:
        for name in (action.source, action.target):
            if name in snapshot.nodes and not snapshot.nodes[name].reachable:
                raise PlatformUnavailableError(f"{name} does not respond")
        return False
    if isinstance(action, DiskMove):
        disk = disk_named(guest, action.disk)
        return disk is not None and (disk.storage, disk.moving_to) == (
            action.target_storage,
            None,
        )
    return (guest.node, guest.migrating_to) == (action.target, None)


def _newer(rate: float | None, before: float | None) -> float | None:
    return before if rate is None else rate


OutcomeDetail = Callable[[Outcome], str]


def no_outcome_detail(outcome: Outcome) -> str:  # noqa: ARG001 - an OutcomeDetail
    """Return an empty text for every outcome."""
    return ""


class TaskTracker:
    """Tracker of one step from its start to its outcome.

    The record is written before each action that depends on it. The task status of
    the platform is authoritative, with one exception: the end of a recovered task
    must be visible in the cluster as well, because it may be an older task of the
    same name.

    The timeout is measured with the monotonic clock from when this process began to
    track the step. A step of a previous process gets the full timeout again: the
    system clock may have been set in between, which must not abort a running step.

    Args:
        step: The step.
        record: Record of the step in the store, without an outcome.
        context: Dependencies of the executor.
    """

    def __init__(
        self, step: Step, record: StepRecord, context: ExecutionContext
    ) -> None:
        self.step = step
        self.record = record
        self.outcome_detail: OutcomeDetail = no_outcome_detail
        self._context = context
        self._backoff = ExponentialBackoff(
            context.poll_interval, context.limits.migration_timeout
        )
        self._reported_error = ""
        self._start_reported = False
        self._start_error = ""
        self._abort_detail = ""
        self._started_at = context.clock.monotonic()
        self._aborted_at: float | None = None
        self._last_status: TaskStatus | None = None

    @property
    def is_running(self) -> bool:
        """Return True if there is no outcome yet."""
        return self.record.outcome is None

    @property
    def is_left_open(self) -> bool:
        """Return True if a stop is requested while the status cannot be queried.

        The step remains without an outcome in the store. The next process recovers it.
        """
        now = self._context.clock.monotonic()
        return (
            self.is_running
            and self._context.cancellation.stop_requested
            and self._backoff.has_failed_for(MAX_STOP_DELAY, now)
        )

    @property
    def is_done(self) -> bool:
        """Return True if the outcome is done."""
        return self.record.outcome is Outcome.DONE

    def start(self) -> None:
        """Start the step and record its task.

        After most errors, the next poll searches for the task: a late error, such as
        a timeout, does not mean that the step is not running.

        Raises:
            LeaseLostError: Another controller may be active; nothing was started.
        """
        self._context.store.require_lease()
        try:
            task = self._context.platform.start(self.step.action)
        except (PermissionDeniedError, UnsupportedError) as error:
            self.finish(Outcome.FAILED, f"could not be started: {error}")
        except PlatformError as error:
            self._start_error = f"could not be started: {error}"
        else:
            self._record_task(task)
            self._report_start()

    @property
    def was_accepted(self) -> bool:
        """Return True if the platform accepted the step without an error."""
        return self.record.task is not None

    def request_abort(self, reason: str) -> None:
        """Request an abort for *reason* at the next poll; the first reason counts."""
        self._abort_detail = self._abort_detail or reason

    def poll(self) -> None:
        """Query the task status and handle it."""
        if self._backoff.is_waiting(self._context.clock.monotonic()):
            return
        try:
            task = self.record.task or self._context.platform.find(self.step.action)
            status = self._context.platform.status(task)
            if status.state is TaskState.RUNNING:
                self._handle_running(task, status)
            else:
                self._handle_ended(status)
        except (PermissionDeniedError, UnsupportedError) as error:
            self._finish_lost(f"task status not available: {error}")
        except PlatformError as error:
            self._handle_unreachable(error)
        else:
            self._backoff.reset()

    def finish(self, outcome: Outcome, *details: str) -> None:
        """Record *outcome* and notify the observer."""
        self.record = replace(
            self.record,
            outcome=outcome,
            ended_at=self._context.clock.now(),
            detail=join_details(*details, self.outcome_detail(outcome)),
        )
        self._context.store.write(self.record)
        self._context.observer.step_finished(self.step, self.record)

    def _record_task(self, task: TaskId) -> None:
        self.record = replace(self.record, task=task)
        self._context.store.write(self.record)

    def _report_start(self) -> None:
        if not self._start_reported:
            self._start_reported = True
            self._context.observer.step_started(self.step)

    def _handle_running(self, task: TaskId, status: TaskStatus) -> None:
        if self.record.task is None:
            self._record_task(task)
        self._report_start()
        self._last_status, self._reported_error = status, ""
        self._record_rates(status.progress)
        self._context.observer.step_progressed(self.step, status)
        self._check_abort()
        if self._aborted_at is None and self._abort_detail:
            self._abort(task)
        elif self._aborted_at is not None and self._has_timed_out(self._aborted_at):
            self._finish_lost(f"{self._abort_detail}; the abort had no effect")

    def _record_rates(self, progress: Progress | None) -> None:
        """Keep the rates for the record; the platform may not report them again."""
        if progress is None:
            return
        last = self.record.rates
        rates = MigrationRates(
            bandwidth=_newer(progress.bandwidth, last.bandwidth),
            dirty_rate=_newer(progress.dirty_rate, last.dirty_rate),
        )
        self.record = replace(self.record, rates=rates)

    def _abort(self, task: TaskId) -> None:
        """Abort *task*; retry at the next poll if the platform is unreachable.

        Raises:
            LeaseLostError: Another controller may follow the task by now.
        """
        self._context.store.require_lease()
        try:
            self._context.platform.abort(task)
        except PlatformUnavailableError:
            return
        except PlatformError as error:
            self._context.observer.step_waiting(
                self.step, f"could not be aborted: {error}"
            )
        self._aborted_at = self._context.clock.monotonic()

    def _check_abort(self) -> None:
        if self._context.cancellation.abort_requested:
            self.request_abort("aborted by the operator")
        elif self._has_timed_out(self._started_at):
            progress = (
                self._last_status.progress if self._last_status is not None else None
            )
            timeout = self._context.limits.migration_timeout
            self.request_abort(timeout_detail(self.step.action, timeout, progress))

    def _has_timed_out(self, since: float) -> bool:
        return (
            self._context.clock.monotonic() - since
            >= self._context.limits.migration_timeout
        )

    def _handle_ended(self, status: TaskStatus) -> None:
        platform, action = self._context.platform, self.step.action
        if status.state is TaskState.DONE:
            was_recovered = self.record.task is None
            if was_recovered and not appears_done(platform, action):
                self._finish_unstarted()
            else:
                self.finish(Outcome.DONE)
        elif status.state is TaskState.FAILED:
            aborted = self._aborted_at is not None
            outcome = Outcome.ABORTED if aborted else Outcome.FAILED
            detail = self._abort_detail if aborted else status.detail
            self.finish(
                outcome, self._start_error, detail, describe_location(platform, action)
            )
        elif self.record.task is None:
            self._finish_unstarted()
        else:
            self._finish_lost(f"task unknown to the platform: {self.record.task}")

    def _finish_unstarted(self) -> None:
        if self._start_error:
            self.finish(Outcome.FAILED, self._start_error)
        else:
            self.finish(Outcome.LOST, "never started")

    def _finish_lost(self, detail: str) -> None:
        platform, action = self._context.platform, self.step.action
        self.finish(
            Outcome.LOST, self._start_error, detail, describe_location(platform, action)
        )

    def _handle_unreachable(self, error: PlatformError) -> None:
        now = self._context.clock.monotonic()
        self._backoff.record_failure(now)
        if self._backoff.is_exhausted(now):
            seconds = self._context.limits.migration_timeout
            self._finish_lost(f"platform unreachable for {seconds:.0f} s: {error}")
        elif str(error) != self._reported_error:
            self._reported_error = str(error)
            self._context.observer.step_waiting(self.step, f"{error}; retrying")
