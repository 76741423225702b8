"""Protocol of a platform, and the tasks it executes."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import ClassVar, NewType, Protocol, Self

from opendrs.errors import PlatformError
from opendrs.model import Action, GuestId, Migration, NodeId, Relocation, Snapshot

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


@dataclass(frozen=True, slots=True)
class GuestTask:
    """Contents of a task id: the migration, and the uuid of its guest.

    Base of one class for each platform that gives migrations no id of its own.

    Attributes:
        platform: Name of the platform with its article, for error messages.
        guest: Id of the guest.
        uuid: Its uuid on the platform; empty if it did not exist.
        source: Source node.
        target: Target node.
        is_relocation: True if the guest is stopped, and stays so.
    """

    platform: ClassVar[str]

    guest: GuestId
    uuid: str
    source: NodeId
    target: NodeId
    is_relocation: bool = False

    @classmethod
    def from_migration(cls, migration: Migration, uuid: str) -> Self:
        """Return the task of *migration* of the guest *uuid*."""
        return cls(
            migration.guest,
            uuid,
            migration.source,
            migration.target,
            isinstance(migration, Relocation),
        )

    @classmethod
    def parse(cls, text: TaskId) -> Self:
        """Return the task with the id *text*.

        Raises:
            PlatformError: *text* is not the id of a migration on this platform.
        """
        try:
            fields = json.loads(text)
            uuid, guest = str(fields["uuid"]), GuestId(str(fields["guest"]))
            source, target = str(fields["source"]), str(fields["target"])
            is_relocation = bool(fields.get("is_relocation", False))
        except (AttributeError, ValueError, KeyError, TypeError) as error:
            raise PlatformError(f"not {cls.platform} task id: {text!r}") from error
        return cls(guest, uuid, NodeId(source), NodeId(target), is_relocation)

    @property
    def id(self) -> TaskId:
        """Return the task id; equal migrations have equal ids."""
        fields = asdict(self)
        if not self.is_relocation:
            del fields["is_relocation"]
        return TaskId(json.dumps(fields, sort_keys=True, ensure_ascii=False))


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

        The task id is sufficient to query the task from another process. A platform
        that reports the disks of guests copies only those that its last snapshot
        contains as local: the limits decide about them.
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
