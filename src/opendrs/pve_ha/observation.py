"""Input of one step of an HA process."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from opendrs.model import NodeId, Usage
from opendrs.pve_ha.states import ServiceId
from opendrs.pve_ha.status_files import (
    ClusterLock,
    DatacenterSettings,
    LrmStatus,
    ManagerStatus,
    ServiceConfig,
)


class HaError(Exception):
    """Error that ends the work of a process for the current step."""


class FilesUnreadableError(HaError):
    """The cluster file system does not respond."""

    def __init__(self) -> None:
        super().__init__("cfs connection refused - not mounted?")


class PowerChange(StrEnum):
    """Imminent reboot or shutdown of a node."""

    REBOOT = "reboot"
    SHUTDOWN = "shutdown"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFiles:
    """Contents of the cluster file system.

    Attributes:
        status: Status written by the last master.
        services: Configuration of each service.
        lrm_statuses: Status written by each LRM.
        rules: Text of the rules file.
        groups: Text of the groups file; empty if there is none.
        crm_commands: Queued commands of the operator, one line each.
    """

    status: ManagerStatus
    services: Mapping[ServiceId, ServiceConfig]
    lrm_statuses: Mapping[NodeId, LrmStatus]
    rules: str = ""
    groups: str = ""
    crm_commands: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedMetrics:
    """Measured and reported values of nodes and services.

    Attributes:
        capacities: Capacity of each node, as far as known.
        versions: Version of pve-manager on each node; absent if unknown.
        limits: Limits of each service, as far as known.
        usages: Usage of each service, as far as known.
        running: Services that run on each node.
    """

    capacities: Mapping[NodeId, Usage] = field(default_factory=dict)
    versions: Mapping[NodeId, str] = field(default_factory=dict)
    limits: Mapping[ServiceId, Usage] = field(default_factory=dict)
    usages: Mapping[ServiceId, Usage] = field(default_factory=dict)
    running: Mapping[NodeId, Collection[ServiceId]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessObservation:
    """Input of one step of a process.

    Attributes:
        node: Node of the process.
        now: Time of its own clock, in seconds.
        members: All nodes of the cluster and their online state. Without a majority no
            node is online.
        quorate: True if the node belongs to a majority.
        consistent: True if the cluster file system is consistent.
        files: Contents of the cluster file system; None if it does not respond.
        locks: Locks that were acquired and not released.
        datacenter: Settings of the data center.
        metrics: Values of nodes and services.
        power_change: Imminent power change of the node; None if there is none.
        has_lrm_statuses: True once any LRM has written its status.
    """

    node: NodeId
    now: int
    members: Mapping[NodeId, bool]
    quorate: bool
    consistent: bool = True
    files: ClusterFiles | None
    locks: Mapping[str, ClusterLock]
    datacenter: DatacenterSettings = field(default_factory=DatacenterSettings)
    metrics: ObservedMetrics = field(default_factory=ObservedMetrics)
    power_change: PowerChange | None = None
    has_lrm_statuses: bool = True

    def require_files(self) -> ClusterFiles:
        """Return the contents of the cluster file system.

        Raises:
            FilesUnreadableError: It does not respond.
        """
        if self.files is None:
            raise FilesUnreadableError
        return self.files
