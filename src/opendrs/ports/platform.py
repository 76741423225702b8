"""Protocol of a platform, and the tasks it executes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NewType, Protocol

from opendrs.model import Action, Snapshot

TaskId = NewType("TaskId", str)

# Seconds after a power-off request in which the node may still power off.
MAX_POWER_OFF_DELAY = 1_800.0


class TaskState(StrEnum):
    """State of a task on the platform."""

    RUNNING = "running"
    """The task is queued or running."""
    DONE = "done"
    """The task succeeded."""
    FAILED = "failed"
    """The task failed or was aborted."""
    LOST = "lost"
    """The platform does not know the task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Progress of a migration; None for values that the platform does not report.

    Attributes:
        total: Bytes to transfer in total, as currently known.
        remaining: Bytes still to transfer.
        dirty_rate: Bytes of memory that the guest writes per second.
        bandwidth: Bytes transferred per second.
        downtime: Expected downtime of the guest, in seconds.
    """

    total: int | None = None
    remaining: int | None = None
    dirty_rate: float | None = None
    bandwidth: float | None = None
    downtime: float | None = None


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """Status of a task on the platform.

    Attributes:
        state: State of the task; LOST if the platform does not know it any more.
        detail: Message of the platform, for the operator.
        progress: Progress while it runs.
    """

    state: TaskState
    detail: str = ""
    progress: Progress | None = None


class Platform(Protocol):
    """Cluster of hypervisors.

    Every method may raise `PlatformError`. Actions are started and polled, so that a
    restarted controller can follow them.
    """

    @property
    def name(self) -> str:
        """Return the name of the cluster, for records and logs."""

    def observe(self) -> Snapshot:
        """Return the current state of the cluster."""

    def start(self, action: Action) -> TaskId:
        """Start *action* and return at once.

        The task id is sufficient to query the task from another process.
        """

    def find(self, action: Action) -> TaskId:
        """Return the task id of *action*; start nothing.

        Used if a controller stopped after it started an action and before it recorded
        the task. If the action was never started, the status of the task is LOST or
        FAILED.
        """

    def status(self, task: TaskId) -> TaskStatus:
        """Return the status of *task*."""

    def abort(self, task: TaskId) -> None:
        """Request to abort *task*; `status` returns the result."""
