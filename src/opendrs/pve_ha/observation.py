"""What a process of the HA stack sees when its turn comes."""

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
    """Something that ends the work of a process for this turn."""


class FilesUnreadableError(HaError):
    """The cluster file system does not answer."""

    def __init__(self) -> None:
        super().__init__("cfs connection refused - not mounted?")


class PowerChange(StrEnum):
    """What a node is about to do."""

    REBOOT = "reboot"
    SHUTDOWN = "shutdown"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFiles:
    """What the cluster file system holds.

    Attributes:
        status: What the last master wrote.
        services: What the operator says of each service.
        lrm_statuses: What each agent wrote.
        rules: The text of the rules.
        groups: The text of the groups; empty when there are none.
        crm_commands: What the operator asked for, one line each.
    """

    status: ManagerStatus
    services: Mapping[ServiceId, ServiceConfig]
    lrm_statuses: Mapping[NodeId, LrmStatus]
    rules: str = ""
    groups: str = ""
    crm_commands: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedMetrics:
    """What is known of nodes and services, apart from what is configured.

    Attributes:
        capacities: What each node has, as far as it is known.
        versions: What each node runs; None when it does not say.
        limits: What each service may use, as far as it is known.
        usages: What each service uses, as far as it is known.
        running: The services that run on each node.
    """

    capacities: Mapping[NodeId, Usage] = field(default_factory=dict)
    versions: Mapping[NodeId, str] = field(default_factory=dict)
    limits: Mapping[ServiceId, Usage] = field(default_factory=dict)
    usages: Mapping[ServiceId, Usage] = field(default_factory=dict)
    running: Mapping[NodeId, Collection[ServiceId]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessObservation:
    """What a process sees at the beginning of its turn.

    Attributes:
        node: Its own node.
        now: The time by its own clock, in seconds.
        members: Every node of the cluster, and whether it is online; none is
            unless a majority is.
        quorate: Whether its own node is in a majority.
        consistent: Whether the cluster file system is in step.
        files: What that holds; None when it does not answer.
        locks: The locks that were taken and not given back.
        datacenter: The settings of the data centre.
        metrics: What is known of nodes and services.
        power_change: What its node is about to do.
        has_lrm_statuses: Whether any agent has ever written its report.
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
        """Return what the cluster file system holds.

        Raises:
            FilesUnreadableError: It does not answer.
        """
        if self.files is None:
            raise FilesUnreadableError
        return self.files
