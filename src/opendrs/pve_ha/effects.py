"""Effects: actions that the HA processes request from their environment."""

from __future__ import annotations

from dataclasses import dataclass

from opendrs.model import NodeId
from opendrs.pve_ha.states import ServiceId
from opendrs.pve_ha.status_files import LrmStatus, ManagerStatus


@dataclass(frozen=True, slots=True)
class AcquireLock:
    """Acquire a lock, or renew it."""

    name: str


@dataclass(frozen=True, slots=True)
class ReleaseLock:
    """Release a lock."""

    name: str


@dataclass(frozen=True, slots=True)
class FeedWatchdog:
    """Update the watchdog of this process; open one if there is none."""


@dataclass(frozen=True, slots=True)
class CloseWatchdog:
    """Close the watchdog of this process, if there is one."""


@dataclass(frozen=True, slots=True)
class WriteManagerStatus:
    """Write the manager status."""

    status: ManagerStatus


@dataclass(frozen=True, slots=True)
class WriteLrmStatus:
    """Write the status of the LRM of this node."""

    status: LrmStatus


@dataclass(frozen=True, slots=True)
class ClearCrmCommands:
    """Remove all commands of the operator from the queue."""


@dataclass(frozen=True, slots=True)
class SetServiceState:
    """Write the requested state of a service."""

    service: ServiceId
    state: str


@dataclass(frozen=True, slots=True)
class SetServiceNode:
    """Write the node of a service."""

    service: ServiceId
    node: NodeId


@dataclass(frozen=True, slots=True)
class RemoveServiceLock:
    """Remove the lock of a service."""

    service: ServiceId


@dataclass(frozen=True, slots=True)
class LeaveGroup:
    """Remove a service from its group.

    Attributes:
        failback: Setting of the group, written to the service.
    """

    service: ServiceId
    failback: bool


@dataclass(frozen=True, slots=True)
class WriteRules:
    """Write the rules file."""

    text: str


@dataclass(frozen=True, slots=True)
class DeleteGroups:
    """Delete the groups file."""


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
