"""One action under way, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass

from opendrs.model import Action, Migration, NodeId, PowerOff, PowerOn, Relocation
from opendrs.ports import TaskState
from opendrs.sim.temper import Temper
from opendrs.sim.work import Pause, PreCopy, Work

RESTART = 12.0  # seconds to stop a guest, and to start it elsewhere
WAKE = 90.0  # seconds for a node to boot
SLEEP = 15.0  # seconds for a node to shut down
UNMEASURED = 1 << 30  # bytes a guest is taken to use that was not measured


@dataclass(slots=True)
class Journey:
    """One action, while it is under way and ever after.

    Attributes:
        action: What is done.
        work: What takes the time.
        state: How it stands.
        detail: What happened, in the words of the data centre.
    """

    action: Action
    work: Work
    state: TaskState = TaskState.RUNNING
    detail: str = ""

    @property
    def running(self) -> bool:
        """Return whether it is under way."""
        return self.state is TaskState.RUNNING

    @property
    def nodes(self) -> tuple[NodeId, ...]:
        """Return the nodes that take part."""
        if isinstance(self.action, PowerOn | PowerOff):
            return (self.action.node,)
        return (self.action.source, self.action.target)

    @property
    def over_the_network(self) -> bool:
        """Return whether it takes bandwidth."""
        return isinstance(self.action, Migration)

    def end(self, state: TaskState, detail: str) -> None:
        """Note that it ended, and how."""
        self.state, self.detail = state, detail


def work_for(action: Action, memory: int | None, temper: Temper | None) -> Work:
    """Return what *action* takes.

    Args:
        action: What is to be done.
        memory: Bytes the guest uses, if there is one and it was measured.
        temper: How the guest behaves, if there is one.
    """
    if isinstance(action, PowerOn):
        return Pause(WAKE)
    if isinstance(action, PowerOff):
        return Pause(SLEEP)
    if isinstance(action, Relocation) or temper is None:
        return Pause(RESTART)
    size = UNMEASURED if memory is None else memory
    return PreCopy(size, temper.dirty_rate, size * temper.working_set)
