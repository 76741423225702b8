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
from opendrs.model import Action, LiveMigration, PowerOff, PowerOn, Step
from opendrs.ports import (
    Outcome,
    Platform,
    Progress,
    StepRecord,
    TaskId,
    TaskState,
    TaskStatus,
)

MIB = 1 << 20


def join_details(*parts: str) -> str:
    """Return what there is to say, in one line."""
    return "; ".join(part for part in parts if part)


def timeout_detail(action: Action, timeout: float, progress: Progress | None) -> str:
    """Return that *action* took longer than *timeout* seconds, and why."""
    if not isinstance(action, LiveMigration):
        return f"did not end within {timeout:.0f} s"
    return f"did not converge within {timeout:.0f} s{_transfer_rates(progress)}"


def _transfer_rates(progress: Progress | None) -> str:
    if progress is None:
        return ""
    dirty_rate, bandwidth = progress.dirty_rate, progress.bandwidth
    parts = [
        f"the guest writes {dirty_rate / MIB:.0f} MiB/s"
        if dirty_rate is not None
        else "",
        f"{bandwidth / MIB:.0f} MiB/s are sent" if bandwidth is not None else "",
    ]
    rates = " and ".join(part for part in parts if part)
    return f": {rates}" if rates else ""


def describe_location(platform: Platform, action: Action) -> str:
    """Return where the guest is now and whether it runs, if that can be seen."""
    if isinstance(action, PowerOn | PowerOff):
        return ""
    try:
        guest = platform.observe().guests.get(action.guest)
    except PlatformError:
        return f"where {action.guest} is now could not be seen"
    if guest is None:
        return f"{action.guest} is on no node that answers"
    return f"{guest.id} is on {guest.node} ({guest.state})"


def appears_done(platform: Platform, action: Action) -> bool:
    """Return whether the cluster looks as if *action* was done.

    Raises:
        PlatformError: It cannot be seen.
    """
    snapshot = platform.observe()
    if isinstance(action, PowerOn | PowerOff):
        node = snapshot.nodes.get(action.node)
        return node is not None and node.online is isinstance(action, PowerOn)
    guest = snapshot.guests.get(action.guest)
    return guest is not None and (guest.node, guest.migrating_to) == (
        action.target,
        None,
    )


OutcomeDetail = Callable[[Outcome], str]


def no_outcome_detail(outcome: Outcome) -> str:  # noqa: ARG001 - a Remark
    """Return nothing: there is nothing to add to any outcome."""
    return ""


class TaskTracker:
    """One step that was to be started, followed until its end.

    The record is written before anything that follows from it. What the
    platform says is believed; where a task was found again rather than
    started, its end must show in the cluster as well, because an older task of
    the same name may be what was found.

    The timeout is measured by the monotonic clock from when this process began to
    follow the step. A step of an earlier process gets the full timeout again: the
    clock may have been set in between, and what runs must not be aborted for that.

    Args:
        step: The step.
        record: Its record, which is in the store and has no outcome.
        context: What is at hand.
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
        """Return whether the outcome is still open."""
        return self.record.outcome is None

    @property
    def is_done(self) -> bool:
        """Return whether the step ended as it should."""
        return self.record.outcome is Outcome.DONE

    def start(self) -> None:
        """Start it, and note its task.

        Where the platform complains, the task is looked for: a complaint that
        came late may belong to a step that runs.
        """
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
        """Return whether the platform took it without complaint."""
        return self.record.task is not None

    def request_abort(self, reason: str) -> None:
        """Have it aborted for *reason*, at the next look and if it still runs."""
        self._abort_detail = self._abort_detail or reason

    def poll(self) -> None:
        """Ask how it stands, and do what follows."""
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
            self._finish_lost(f"cannot be asked after: {error}")
        except PlatformError as error:
            self._handle_unreachable(error)
        else:
            self._backoff.reset()

    def finish(self, outcome: Outcome, *details: str) -> None:
        """Write down *outcome*, and tell the watcher."""
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
        self._context.observer.step_progressed(self.step, status)
        self._check_abort()
        if self._aborted_at is None and self._abort_detail:
            self._abort(task)
        elif self._aborted_at is not None and self._has_timed_out(self._aborted_at):
            self._finish_lost(
                f"{self._abort_detail}, and does not let itself be aborted"
            )

    def _abort(self, task: TaskId) -> None:
        """Ask for the abort; again at the next look when nobody answers."""
        try:
            self._context.platform.abort(task)
        except PlatformUnavailableError:
            return
        except PlatformError as error:
            self._context.observer.step_waiting(
                self.step, f"cannot be aborted: {error}"
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
            self._finish_lost(f"the platform no longer knows {self.record.task}")

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
            self._finish_lost(f"could not be asked after for {seconds:.0f} s: {error}")
        elif str(error) != self._reported_error:
            self._reported_error = str(error)
            self._context.observer.step_waiting(self.step, str(error))
