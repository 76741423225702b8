"""A cluster of hypervisors, and the tasks it is given."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NewType, Protocol

from opendrs.model import Action, Snapshot

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


MAX_POWER_OFF_DELAY = (
    1_800.0  # seconds for which a node that was asked to go to sleep may still do so
)
