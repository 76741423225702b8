"""One step that was to be started, followed until its end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from opendrs.controller.means import Means
from opendrs.controller.patience import Patience
from opendrs.controller.words import has_arrived, joined, too_slow, whereabouts
from opendrs.errors import (
    PermissionDeniedError,
    PlatformError,
    PlatformUnavailableError,
    UnsupportedError,
)
from opendrs.model import Step
from opendrs.ports import Outcome, StepRecord, TaskId, TaskState, TaskStatus

Remark = Callable[[Outcome], str]


def no_remark(outcome: Outcome) -> str:  # noqa: ARG001 - a Remark
    """Return nothing: there is nothing to add to any outcome."""
    return ""


class Pursuit:
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
        means: What is at hand.
    """

    def __init__(self, step: Step, record: StepRecord, means: Means) -> None:
        self.step = step
        self.record = record
        self.remark: Remark = no_remark
        self._means = means
        self._patience = Patience(means.poll, means.limits.patience)
        self._told = ""
        self._announced = False
        self._start_error = ""
        self._reason_to_abort = ""
        self._began = means.clock.monotonic()
        self._aborted_at: float | None = None
        self._last: TaskStatus | None = None

    @property
    def running(self) -> bool:
        """Return whether the outcome is still open."""
        return self.record.outcome is None

    @property
    def done(self) -> bool:
        """Return whether the step ended as it should."""
        return self.record.outcome is Outcome.DONE

    def start(self) -> None:
        """Start it, and note its task.

        Where the platform complains, the task is looked for: a complaint that
        came late may belong to a step that runs.
        """
        try:
            task = self._means.platform.start(self.step.action)
        except (PermissionDeniedError, UnsupportedError) as error:
            self.end(Outcome.FAILED, f"could not be started: {error}")
        except PlatformError as error:
            self._start_error = f"could not be started: {error}"
        else:
            self._note(task)
            self._announce()

    @property
    def started_cleanly(self) -> bool:
        """Return whether the platform took it without complaint."""
        return self.record.task is not None

    def give_up(self, reason: str) -> None:
        """Have it aborted for *reason*, at the next look and if it still runs."""
        self._reason_to_abort = self._reason_to_abort or reason

    def look(self) -> None:
        """Ask how it stands, and do what follows."""
        if self._patience.waits(self._means.clock.monotonic()):
            return
        try:
            task = self.record.task or self._means.platform.find(self.step.action)
            status = self._means.platform.status(task)
            if status.state is TaskState.RUNNING:
                self._run_on(task, status)
            else:
                self._conclude(status)
        except (PermissionDeniedError, UnsupportedError) as error:
            self._lose(f"cannot be asked after: {error}")
        except PlatformError as error:
            self._hear_nothing(error)
        else:
            self._patience.succeeded()

    def end(self, outcome: Outcome, *details: str) -> None:
        """Write down *outcome*, and tell the watcher."""
        self.record = replace(
            self.record,
            outcome=outcome,
            ended_at=self._means.clock.now(),
            detail=joined(*details, self.remark(outcome)),
        )
        self._means.store.write(self.record)
        self._means.watcher.ended(self.step, self.record)

    def _note(self, task: TaskId) -> None:
        self.record = replace(self.record, task=task)
        self._means.store.write(self.record)

    def _announce(self) -> None:
        if not self._announced:
            self._announced = True
            self._means.watcher.started(self.step)

    def _run_on(self, task: TaskId, status: TaskStatus) -> None:
        if self.record.task is None:
            self._note(task)
        self._announce()
        self._last, self._told = status, ""
        self._means.watcher.progressed(self.step, status)
        self._decide_to_abort()
        if self._aborted_at is None and self._reason_to_abort:
            self._abort(task)
        elif self._aborted_at is not None and self._overdue(self._aborted_at):
            self._lose(f"{self._reason_to_abort}, and does not let itself be aborted")

    def _abort(self, task: TaskId) -> None:
        """Ask for the abort; again at the next look when nobody answers."""
        try:
            self._means.platform.abort(task)
        except PlatformUnavailableError:
            return
        except PlatformError as error:
            self._means.watcher.waiting(self.step, f"cannot be aborted: {error}")
        self._aborted_at = self._means.clock.monotonic()

    def _decide_to_abort(self) -> None:
        if self._means.brake.aborting:
            self.give_up("aborted by the operator")
        elif self._overdue(self._began):
            progress = self._last.progress if self._last is not None else None
            patience = self._means.limits.patience
            self.give_up(too_slow(self.step.action, patience, progress))

    def _overdue(self, since: float) -> bool:
        return self._means.clock.monotonic() - since >= self._means.limits.patience

    def _conclude(self, status: TaskStatus) -> None:
        platform, action = self._means.platform, self.step.action
        if status.state is TaskState.DONE:
            found = self.record.task is None
            if found and not has_arrived(platform, action):
                self._never_started()
            else:
                self.end(Outcome.DONE)
        elif status.state is TaskState.FAILED:
            aborted = self._aborted_at is not None
            outcome = Outcome.ABORTED if aborted else Outcome.FAILED
            why = self._reason_to_abort if aborted else status.detail
            self.end(outcome, self._start_error, why, whereabouts(platform, action))
        elif self.record.task is None:
            self._never_started()
        else:
            self._lose(f"the platform no longer knows {self.record.task}")

    def _never_started(self) -> None:
        if self._start_error:
            self.end(Outcome.FAILED, self._start_error)
        else:
            self.end(Outcome.LOST, "never started")

    def _lose(self, why: str) -> None:
        platform, action = self._means.platform, self.step.action
        self.end(Outcome.LOST, self._start_error, why, whereabouts(platform, action))

    def _hear_nothing(self, error: PlatformError) -> None:
        now = self._means.clock.monotonic()
        self._patience.failed(now)
        if self._patience.exhausted(now):
            seconds = self._means.limits.patience
            self._lose(f"could not be asked after for {seconds:.0f} s: {error}")
        elif str(error) != self._told:
            self._told = str(error)
            self._means.watcher.waiting(self.step, str(error))
