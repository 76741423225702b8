"""The hosts, services and commands a drill starts with."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from opendrs.metrics import ImbalanceMetric
from opendrs.model import UNKNOWN_USAGE, NodeId, Usage
from opendrs.pve_ha.observation import PowerChange
from opendrs.pve_ha.simulator.injected_failures import InjectedFailures
from opendrs.pve_ha.states import ServiceId
from opendrs.pve_ha.status_files import DatacenterSettings, ManagerStatus, ServiceConfig

DEFAULT_VERSION = "9.0.0~2"  # what a host runs that does not say, pve-ha-manager 5.2


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedHost:
    """A host, as it is now.

    Attributes:
        power: Whether it is switched on.
        network: Whether it is connected.
        files_readable: Whether the cluster file system answers on it.
        files_consistent: Whether that is in step with the other hosts.
        capacity: What it has, as far as it is known.
        version: The pve-manager it runs; None when it does not say.
        power_change: What it is about to do.
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
        """Return whether it works and is connected."""
        return self.power and self.network


CommandBatch = Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillTiming:
    """How time passes in a drill.

    Attributes:
        step_time: Seconds that every turn of a process takes, whatever it does.
        max_step_time: Seconds a process may be busy in one turn; None for any.
        max_round_time: A cluster in which all turns take so long is refused;
            None for any.
        max_time: When a drill that does not come to rest is ended.
    """

    step_time: int = 1
    max_step_time: int | None = 300
    max_round_time: int | None = 60
    max_time: int = 10_000


PROXMOX_TIMING = DrillTiming()
INSTANT_TIMING = DrillTiming(step_time=0, max_step_time=None, max_round_time=None)


"""All processes take their turns at the same time: for clusters of any size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillScenario:
    """A cluster, and what happens to it.

    Attributes:
        hosts: Its hosts.
        services: Its services.
        batches: What is done to it: lists of commands in the words of Proxmox
            VE, one list every five passes.
        status: What a master told before.
        rules: The text of its rules.
        groups: The text of its groups.
        datacenter: Its settings.
        limits: What each service may use.
        usages: What each service uses.
        running: The services that run on each host in the beginning.
        failures: How services fail whose names do not say it.
        timing: How time passes.
        imbalance_metric: How uneven loads become one number.
        recheck_services: Whether agents check in each round that services still run. No
            drill in which services only stop with their host differs without.
        origin: Where the commands stand, for complaints about them.
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
