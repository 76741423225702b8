"""The protocol of power drivers, and the task ids of power actions."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from opendrs.model import NodeId, PowerOff, PowerOn
from opendrs.ports import TaskId


class PowerState(StrEnum):
    """Power state of a node; UNKNOWN also during a transition."""

    ON = "on"
    OFF = "off"
    UNKNOWN = "unknown"


class PowerDriver(Protocol):
    """Power driver of one node.

    `on` and `off` are idempotent. They return once the request is sent; the node
    changes its state later. Every method may raise `PlatformError`; its message
    contains no secret.
    """

    @property
    def off_confirm_time(self) -> float | None:
        """Return how long a node must be unresponsive to count as off, in seconds.

        None if `state` returns the power state. Otherwise, a node that was powered
        off counts as off after it has not responded to the platform for this time.
        """

    @property
    def transition_timeout(self) -> float:
        """Return the timeout in seconds until a request must have taken effect."""

    @property
    def detached(self) -> bool:
        """Return True if errors of `off` are ignored once the request is sent.

        A host that powers off closes the connection that carries the request. Only
        the observed state then shows whether it succeeded.
        """

    def on(self) -> None:
        """Request that the node is powered on."""

    def off(self) -> None:
        """Request that the node is powered off."""

    def state(self) -> PowerState:
        """Return the power state of the node; UNKNOWN if it cannot be determined."""


PowerAction = PowerOn | PowerOff

_ACTION_TYPES: dict[str, type[PowerAction]] = {
    "power-on": PowerOn,
    "power-off": PowerOff,
}

_ACTION_CODES = {kind: code for code, kind in _ACTION_TYPES.items()}


def power_task_id(action: PowerAction) -> TaskId:
    """Return the task id of *action*; it is the same in every process."""
    return TaskId(f"{_ACTION_CODES[type(action)]}/{action.node}")


def parse_power_task(task: TaskId) -> PowerAction | None:
    """Return the power action with the id *task*; None for other tasks."""
    code, separator, node = task.partition("/")
    return (
        _ACTION_TYPES[code](NodeId(node))
        if separator and code in _ACTION_TYPES
        else None
    )


def opposite_action(action: PowerAction) -> PowerAction:
    """Return the action that reverses *action*."""
    opposite_type = PowerOff if isinstance(action, PowerOn) else PowerOn
    return opposite_type(action.node)
