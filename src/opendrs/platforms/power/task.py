"""Names of what is asked of the power of nodes."""

from __future__ import annotations

from opendrs.model import NodeId, PowerOff, PowerOn
from opendrs.ports import TaskId

Switch = PowerOn | PowerOff
_KINDS: dict[str, type[Switch]] = {"power-on": PowerOn, "power-off": PowerOff}
_WORDS = {kind: word for word, kind in _KINDS.items()}


def task_of(switch: Switch) -> TaskId:
    """Return the name of *switch*: the same for the same, in every process."""
    return TaskId(f"{_WORDS[type(switch)]}/{switch.node}")


def switch_of(task: TaskId) -> Switch | None:
    """Return what *task* names; None when it is a task of another kind."""
    word, slash, node = task.partition("/")
    return _KINDS[word](NodeId(node)) if slash and word in _KINDS else None


def opposite(switch: Switch) -> Switch:
    """Return what undoes *switch*."""
    undo = PowerOff if isinstance(switch, PowerOn) else PowerOn
    return undo(switch.node)
