"""What a process of the HA stack sees when its turn comes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from opendrs.ha.documents import (
    AgentReport,
    Datacenter,
    ManagerStatus,
    ServiceConfig,
)
from opendrs.ha.identifiers import ServiceId
from opendrs.ha.locks import Lock
from opendrs.model import NodeId, Usage


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
class Files:
    """What the cluster file system holds.

    Attributes:
        status: What the last master wrote.
        services: What the operator says of each service.
        reports: What each agent wrote.
        rules: The text of the rules.
        groups: The text of the groups; empty when there are none.
        requests: What the operator asked for, one line each.
    """

    status: ManagerStatus
    services: Mapping[ServiceId, ServiceConfig]
    reports: Mapping[NodeId, AgentReport]
    rules: str = ""
    groups: str = ""
    requests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurements:
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
class Observation:
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
        measurements: What is known of nodes and services.
        power_change: What its node is about to do.
        reporting: Whether any agent has ever written its report.
    """

    node: NodeId
    now: int
    members: Mapping[NodeId, bool]
    quorate: bool
    consistent: bool = True
    files: Files | None
    locks: Mapping[str, Lock]
    datacenter: Datacenter = field(default_factory=Datacenter)
    measurements: Measurements = field(default_factory=Measurements)
    power_change: PowerChange | None = None
    reporting: bool = True

    def readable_files(self) -> Files:
        """Return what the cluster file system holds.

        Raises:
            FilesUnreadableError: It does not answer.
        """
        if self.files is None:
            raise FilesUnreadableError
        return self.files
