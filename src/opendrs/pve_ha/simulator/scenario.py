"""Initial state and commands of a drill."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from opendrs.metrics import ImbalanceMetric
from opendrs.model import UNKNOWN_USAGE, NodeId, Usage
from opendrs.pve_ha.observation import PowerChange
from opendrs.pve_ha.simulator.injected_failures import InjectedFailures
from opendrs.pve_ha.states import ServiceId
from opendrs.pve_ha.status_files import DatacenterSettings, ManagerStatus, ServiceConfig

DEFAULT_VERSION = "9.0.0~2"  # default of the simulator of pve-ha-manager 5.2


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedHost:
    """Current state of a host.

    Attributes:
        power: True if it is powered on.
        network: True if it is connected.
        files_readable: True if the cluster file system responds on it.
        files_consistent: True if the cluster file system is consistent on it.
        capacity: Its capacity, as far as known.
        version: Version of pve-manager; None for the default.
        power_change: Imminent power change; None if there is none.
    """

    power: bool = False
    network: bool = False
    files_readable: bool = True
    files_consistent: bool = True
    capacity: Usage = UNKNOWN_USAGE
    version: str | None = None
    power_change: PowerChange | None = None

    @property
    def online(self) -> bool:
        """Return True if it is powered on and connected."""
        return self.power and self.network


CommandBatch = Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillTiming:
    """Durations and limits of a drill.

    Attributes:
        step_time: Seconds that every step of a process takes.
        max_step_time: Longest allowed delay of a step, in seconds; None for no limit.
        max_round_time: Round duration in seconds from which a cluster is rejected as
            too large; None for no limit.
        max_time: Time in seconds at which a drill that does not settle is aborted.
    """

    step_time: int = 1
    max_step_time: int | None = 300
    max_round_time: int | None = 60
    max_time: int = 10_000


PROXMOX_TIMING = DrillTiming()
INSTANT_TIMING = DrillTiming(step_time=0, max_step_time=None, max_round_time=None)
"""All steps of a round happen at the same time: for clusters of any size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillScenario:
    """A cluster and the commands of a drill.

    Attributes:
        hosts: Its hosts.
        services: Its services.
        batches: Lists of commands in the syntax of Proxmox VE, one list every five
            rounds.
        status: Manager status of a previous master.
        rules: Text of the rules file.
        groups: Text of the groups file.
        datacenter: Settings of the data center.
        limits: Limits of each service.
        usages: Usage of each service.
        running: Services that run on each host initially.
        failures: Injected failures; by default the name of a service defines them.
        timing: Durations and limits.
        imbalance_metric: Form of the imbalance.
        recheck_services: LRMs check in each round that services still run. If services
            stop only with their host, the result is the same without.
        origin: Source of the commands, for error messages.
    """

    hosts: Mapping[NodeId, SimulatedHost]
    services: Mapping[ServiceId, ServiceConfig]
    batches: Sequence[CommandBatch]
    status: ManagerStatus = field(default_factory=ManagerStatus)
    rules: str = ""
    groups: str = ""
    datacenter: DatacenterSettings = field(default_factory=DatacenterSettings)
    limits: Mapping[ServiceId, Usage] = field(default_factory=dict)
    usages: Mapping[ServiceId, Usage] = field(default_factory=dict)
    running: Mapping[NodeId, Collection[ServiceId]] = field(default_factory=dict)
    failures: Mapping[ServiceId, InjectedFailures] = field(default_factory=dict)
    timing: DrillTiming = PROXMOX_TIMING
    imbalance_metric: ImbalanceMetric = ImbalanceMetric.CV
    recheck_services: bool = True
    origin: str = "cmdlist"
