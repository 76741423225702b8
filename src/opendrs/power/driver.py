"""The protocol of power drivers, and the task ids of power actions."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from opendrs.model import NodeId, PowerOff, PowerOn
from opendrs.ports import TaskId


class PowerState(StrEnum):
    """Whether a node has power; UNKNOWN also while that changes."""

    ON = "on"
    OFF = "off"
    UNKNOWN = "unknown"


class PowerDriver(Protocol):
    """The power of one node.

    To switch it twice does no harm. `on` and `off` return when the request was
    handed over, which is not when the node has followed it. Every method may
    raise `PlatformError`; nothing it says holds a secret.
    """

    @property
    def off_confirm_time(self) -> float | None:
        """Return what stands for `state` where there is no way to ask for it.

        That is the seconds for which a node that was switched off must not have
        answered the platform before it counts as off; None where `state` tells.
        """

    @property
    def transition_timeout(self) -> float:
        """Return the seconds in which a node should have followed a request."""

    @property
    def detached(self) -> bool:
        """Return whether a complaint of `off` may mean nothing.

        A host that goes to sleep takes down the connection over which it was
        asked to; then only what is seen afterwards tells.
        """

    def on(self) -> None:
        """Ask for the node to be switched on."""

    def off(self) -> None:
        """Ask for the node to be switched off."""

    def state(self) -> PowerState:
        """Return whether the node is on; UNKNOWN where that cannot be told."""


PowerAction = PowerOn | PowerOff

_ACTION_TYPES: dict[str, type[PowerAction]] = {
    "power-on": PowerOn,
    "power-off": PowerOff,
}

_ACTION_CODES = {kind: code for code, kind in _ACTION_TYPES.items()}


def power_task_id(action: PowerAction) -> TaskId:
    """Return the name of *action*: the same for the same, in every process."""
    return TaskId(f"{_ACTION_CODES[type(action)]}/{action.node}")


def parse_power_task(task: TaskId) -> PowerAction | None:
    """Return what *task* names; None when it is a task of another kind."""
    code, separator, node = task.partition("/")
    return (
        _ACTION_TYPES[code](NodeId(node))
        if separator and code in _ACTION_TYPES
        else None
    )


def opposite_action(action: PowerAction) -> PowerAction:
    """Return what undoes *action*."""
    opposite_type = PowerOff if isinstance(action, PowerOn) else PowerOn
    return opposite_type(action.node)
