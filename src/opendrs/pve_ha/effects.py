"""What the HA machines want done: their words to the world."""

from __future__ import annotations

from dataclasses import dataclass

from opendrs.model import NodeId
from opendrs.pve_ha.states import ServiceId
from opendrs.pve_ha.status_files import LrmStatus, ManagerStatus


@dataclass(frozen=True, slots=True)
class AcquireLock:
    """Take a lock, or renew it."""

    name: str


@dataclass(frozen=True, slots=True)
class ReleaseLock:
    """Give a lock back."""

    name: str


@dataclass(frozen=True, slots=True)
class FeedWatchdog:
    """Keep the watchdog of this process from biting; open one if there is none."""


@dataclass(frozen=True, slots=True)
class CloseWatchdog:
    """Close the watchdog of this process, if there is one."""


@dataclass(frozen=True, slots=True)
class WriteManagerStatus:
    """Write the status of the manager."""

    status: ManagerStatus


@dataclass(frozen=True, slots=True)
class WriteLrmStatus:
    """Write the report of the agent of this node."""

    status: LrmStatus


@dataclass(frozen=True, slots=True)
class ClearCrmCommands:
    """Take what the operator asked for out of the queue."""


@dataclass(frozen=True, slots=True)
class SetServiceState:
    """Write what is wanted of a service."""

    service: ServiceId
    state: str


@dataclass(frozen=True, slots=True)
class SetServiceNode:
    """Write where a service is."""

    service: ServiceId
    node: NodeId


@dataclass(frozen=True, slots=True)
class RemoveServiceLock:
    """Take the lock of a service away."""

    service: ServiceId


@dataclass(frozen=True, slots=True)
class LeaveGroup:
    """Take a service out of its group.

    Attributes:
        failback: What the group said of it, and the service says from now on.
    """

    service: ServiceId
    failback: bool


@dataclass(frozen=True, slots=True)
class WriteRules:
    """Write the rules."""

    text: str


@dataclass(frozen=True, slots=True)
class DeleteGroups:
    """Delete the groups."""


Effect = (
    AcquireLock
    | ReleaseLock
    | FeedWatchdog
    | CloseWatchdog
    | WriteManagerStatus
    | WriteLrmStatus
    | ClearCrmCommands
    | SetServiceState
    | SetServiceNode
    | RemoveServiceLock
    | LeaveGroup
    | WriteRules
    | DeleteGroups
)
