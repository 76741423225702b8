"""Actions that run in a simulated data center, and how long each takes."""

from __future__ import annotations

from dataclasses import dataclass

from opendrs.model import (
    Action,
    DiskMove,
    LiveMigration,
    NodeId,
    PowerOff,
    PowerOn,
)
from opendrs.ports import TaskState
from opendrs.simulation.migration_model import (
    DiskCopy,
    FixedDuration,
    GuestBehavior,
    PreCopy,
    TimedOperation,
)

RESTART_TIME = 12.0  # seconds to stop a guest, and to start it elsewhere
POWER_ON_TIME = 90.0  # seconds for a node to boot
POWER_OFF_TIME = 15.0  # seconds for a node to shut down
DEFAULT_MEMORY = 1 << 30  # bytes assumed for a guest that was not measured


@dataclass(slots=True)
class RunningAction:
    """State of an action while it runs and afterwards.

    Attributes:
        action: The action.
        operation: Model of its duration.
        state: State of the task.
        detail: Description of the result, in the words of the platform.
    """

    action: Action
    operation: TimedOperation
    state: TaskState = TaskState.RUNNING
    detail: str = ""

    @property
    def is_running(self) -> bool:
        """Return True while the action is running."""
        return self.state is TaskState.RUNNING

    @property
    def nodes(self) -> tuple[NodeId, ...]:
        """Return the nodes of the action."""
        if isinstance(self.action, PowerOn | PowerOff):
            return (self.action.node,)
        return tuple(dict.fromkeys((self.action.source, self.action.target)))

    @property
    def uses_network(self) -> bool:
        """Return True if the action uses bandwidth."""
        return isinstance(self.operation, PreCopy | DiskCopy)

    def end(self, state: TaskState, detail: str) -> None:
        """Record the end of the action."""
        self.state, self.detail = state, detail


def operation_for(
    action: Action, memory: int | None, behavior: GuestBehavior | None
) -> TimedOperation:
    """Return the model of the duration of *action*.

    Args:
        action: The action.
        memory: Bytes used by the guest; None without a guest or measurement.
        behavior: Behavior of the guest; None without a guest.
    """
    if isinstance(action, PowerOn):
        return FixedDuration(POWER_ON_TIME)
    if isinstance(action, PowerOff):
        return FixedDuration(POWER_OFF_TIME)
    if isinstance(action, DiskMove):
        return FixedDuration(0.0)  # after the copy
    if not isinstance(action, LiveMigration) or behavior is None:
        return FixedDuration(RESTART_TIME)
    size = DEFAULT_MEMORY if memory is None else memory
    return PreCopy(size, behavior.dirty_rate, size * behavior.working_set)
