"""The seams to the world outside: what opendrs needs, and nothing it has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NewType, Protocol

from opendrs.model import Action, Snapshot, StepId

TaskId = NewType("TaskId", str)


class TaskState(StrEnum):
    """How a task on the platform stands."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a migration is; None where the platform does not say.

    Attributes:
        total: Bytes to transfer in all, as now known.
        remaining: Bytes still to transfer.
        dirty_rate: Bytes a second that the guest writes anew.
        bandwidth: Bytes a second that are transferred.
        downtime: Seconds for which the guest is expected to stand still.
    """

    total: int | None = None
    remaining: int | None = None
    dirty_rate: float | None = None
    bandwidth: float | None = None
    downtime: float | None = None


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """How a task on the platform stands, and in the platform's own words.

    Attributes:
        state: How it stands; LOST when the platform no longer knows it.
        detail: What the platform says, for the operator.
        progress: How far it is, while it runs.
    """

    state: TaskState
    detail: str = ""
    progress: Progress | None = None


class Platform(Protocol):
    """A cluster of hypervisors.

    Every method may raise `PlatformError`. Work is started and then asked
    after, so that a controller that stops can pick it up again.
    """

    @property
    def name(self) -> str:
        """Return the name of the cluster, for records and logs."""

    def observe(self) -> Snapshot:
        """Return the cluster as it is now."""

    def start(self, action: Action) -> TaskId:
        """Start *action* and return at once.

        The task id holds all that is needed to ask after the task from
        another process.
        """

    def find(self, action: Action) -> TaskId:
        """Return the task that *action* would have been given.

        Asked when a controller stopped between starting an action and noting
        its task; starts nothing.
        """

    def status(self, task: TaskId) -> TaskStatus:
        """Return how *task* stands."""

    def abort(self, task: TaskId) -> None:
        """Ask for *task* to be given up; `status` tells what came of it."""


class Clock(Protocol):
    """The passing of time."""

    def now(self) -> datetime:
        """Return the time: aware, in UTC."""

    def sleep(self, seconds: float) -> None:
        """Return after *seconds*."""


class Outcome(StrEnum):
    """What came of a step."""

    DONE = "done"
    FAILED = "failed"
    ABORTED = "aborted"
    REFUSED = "refused"
    SKIPPED = "skipped"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """What is kept of one step that was to be executed.

    Attributes:
        run: The run of `apply` or of the controller it belongs to.
        step: Its name in the plan.
        action: What was to be done.
        intended_at: When it was decided to start it; written before the start.
        task: What the platform calls it; None until the platform has said.
        ended_at: When the outcome was seen.
        outcome: What came of it; None while it is not known.
        detail: Why, in words for the operator.
    """

    run: str
    step: StepId
    action: Action
    intended_at: datetime
    task: TaskId | None = None
    ended_at: datetime | None = None
    outcome: Outcome | None = None
    detail: str = ""


class Store(Protocol):
    """What a controller remembers. May raise `StoreError`.

    What is saved is safe from a crash before the method returns.
    """

    def load(self, key: str) -> Mapping[str, object] | None:
        """Return what was saved under *key*, or None."""

    def save(self, key: str, value: Mapping[str, object]) -> None:
        """Save *value*, which can be written as JSON, under *key*."""

    def write(self, record: StepRecord) -> None:
        """Add *record*, or replace the one of the same run and step."""

    def unfinished(self) -> tuple[StepRecord, ...]:
        """Return the records without an outcome, the oldest first."""

    def recent(self, since: datetime) -> tuple[StepRecord, ...]:
        """Return the records intended at or after *since*, the oldest first."""
