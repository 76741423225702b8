"""Hosts and guests of simulations, as arrays.

Constants of CloudSim 3.0.3, the experiment of Beloglazov and Buyya (CCPE 2012): 800
hosts,
alternating between two server models, and guests of four sizes, a quarter of each, in
the order of their numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opendrs.errors import ConfigurationError, DiagnosticCode
from opendrs.model import MegabytesPerSecond, Seconds
from opendrs.policies.consolidation import SPECPOWER, power_draw
from opendrs.simulation.workload import CpuUnit, Floats, Integers, MemoryUnit, Workload

HOST_COUNT = 800
SERVER_MODELS = ("hp-ml110-g4", "hp-ml110-g5")  # of hosts with even and odd numbers
CORE_MIPS = np.array([1860.0, 2660.0])  # MIPS
CORES_PER_HOST = 2
GUEST_MIPS = np.array([2500.0, 2000.0, 1000.0, 500.0])
GUEST_MEMORY = np.array([870.0, 1740.0, 1740.0, 613.0])  # MB
MAX_BEHAVIOR_VALUE = 10**9  # seconds, watts, or MB/s
DEFAULT_HOST_MEMORY = 65_536.0  # MB; see `HostSpecs.memory`


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationBehavior:
    """Duration and cost of power actions and migrations.

    Attributes:
        power_on_time: Seconds from power-on until the host runs, at full power.
        power_off_time: Seconds for the shutdown of a host, at idle power.
        powered_off_watts: Watts of a powered-off host.
        bandwidth: MB/s of a migration. A host sends or receives one guest at a time.
        migration_cpu_overhead: Fraction of its CPU that a migrating guest loses; the
            target spends as much on receiving it.

    Raises:
        ConfigurationError: A value is out of range.
    """

    power_on_time: Seconds = 120.0
    power_off_time: Seconds = 30.0
    powered_off_watts: float = 0.0
    bandwidth: MegabytesPerSecond = 62.5  # as in CloudSim 3.0.3: 0.5 Gbit/s
    # Voorsluys et al. 2009, as in Beloglazov and Buyya 2012
    migration_cpu_overhead: float = 0.1

    def __post_init__(self) -> None:
        for name in ("power_on_time", "power_off_time", "powered_off_watts"):
            if not getattr(self, name) >= 0:
                raise ConfigurationError(
                    f"{name}: expected at least 0, got {getattr(self, name)}",
                    code=DiagnosticCode.OUT_OF_RANGE,
                )
        if not self.bandwidth > 0:
            raise ConfigurationError(
                f"bandwidth: expected more than 0 MB/s, got {self.bandwidth}",
                code=DiagnosticCode.OUT_OF_RANGE,
            )
        for name in (
            "power_on_time",
            "power_off_time",
            "powered_off_watts",
            "bandwidth",
        ):
            if getattr(self, name) > MAX_BEHAVIOR_VALUE:
                raise ConfigurationError(
                    f"{name}: expected at most {MAX_BEHAVIOR_VALUE:,}, "
                    f"got {getattr(self, name)}",
                    code=DiagnosticCode.OUT_OF_RANGE,
                )
        if not 0 <= self.migration_cpu_overhead <= 1:
            raise ConfigurationError(
                "migration_cpu_overhead: expected a number in [0, 1], "
                f"got {self.migration_cpu_overhead}",
                code=DiagnosticCode.OUT_OF_RANGE,
            )


@dataclass(frozen=True, slots=True)
class HostSpecs:
    """Hosts as arrays; each of shape (hosts,) except the watts.

    Attributes:
        cpu: MIPS of all cores.
        core_mips: MIPS of one core, the most that one core of a guest gets.
        memory: MB. With CloudSim's 4 GB a host would hold three guests, and memory
            would
            be the only limit. The default is 64 GB, so that CPU is the scarce resource.
        watts: One row of eleven values per power curve.
        curve: Row of each host's power curve.
    """

    cpu: Floats
    core_mips: Floats
    memory: Floats
    watts: Floats
    curve: Integers

    @staticmethod
    def alternating(count: int, memory: float = DEFAULT_HOST_MEMORY) -> HostSpecs:
        """Return *count* hosts, alternating between HP ML110 G4 and G5."""
        kind = np.arange(count) % len(SERVER_MODELS)
        return HostSpecs(
            CORES_PER_HOST * CORE_MIPS[kind],
            CORE_MIPS[kind],
            np.full(count, float(memory)),
            np.array([SPECPOWER[model].watts for model in SERVER_MODELS]),
            kind.astype(np.int64),
        )

    def power(self, load: Floats) -> Floats:
        """Return the watts of each host at *load*, a fraction; at most 1 counts."""
        return power_draw(self.watts, self.curve, np.clip(load, 0, 1))

    def watts_at(self, host: int, load: float) -> float:
        """Return the watts of *host* at *load*."""
        position = min(max(load, 0.0), 1.0) * 10
        decile = min(int(position), 9)
        row = self.watts[self.curve[host]]
        return float(
            row[decile] + (row[decile + 1] - row[decile]) * (position - decile)
        )

    @property
    def min_watts_per_mips(self) -> float:
        """Watts per MIPS of the most efficient host at full load."""
        return float((self.watts[self.curve, -1] / self.cpu).min())


@dataclass(frozen=True, slots=True)
class GuestSpecs:
    """Guests as arrays; each of shape (guests,).

    Attributes:
        cpu: MIPS of all its cores.
        memory: MB that it may use.
        anti_affinity_group: Number of its anti-affinity group; -1 for none.
        cores: Number of cores.
    """

    cpu: Floats
    memory: Floats
    anti_affinity_group: Integers
    cores: Floats

    @staticmethod
    def of_four_sizes(count: int, group_size: int = 0) -> GuestSpecs:
        """Return *count* single-core guests, a quarter of each of CloudSim's sizes.

        Args:
            count: Number of guests.
            group_size: Number of consecutive guests per anti-affinity group; 0 or 1
                for no groups.
        """
        kind = np.arange(count) // max(1, -(-count // len(GUEST_MIPS)))
        group = np.arange(count) // group_size if group_size > 1 else np.full(count, -1)
        return GuestSpecs(
            GUEST_MIPS[kind],
            GUEST_MEMORY[kind],
            group.astype(np.int64),
            np.ones(count),
        )

    @staticmethod
    def for_workload(
        workload: Workload, hosts: HostSpecs, group_size: int = 0
    ) -> GuestSpecs:
        """Return guests with the sizes of *workload*, or with the default sizes.

        Args:
            workload: CPU requested by the guests.
            hosts: The hosts, to which some traces relate the sizes.
            group_size: Number of consecutive guests per anti-affinity group.
        """
        default = GuestSpecs.of_four_sizes(len(workload.names), group_size)
        sizes = workload.sizes
        if sizes is None:
            return default
        core = float(hosts.core_mips.min())
        unit = {
            CpuUnit.MIPS: 1.0,
            CpuUnit.CORES: core,
            CpuUnit.LARGEST_HOST: float(hosts.cpu.max()),
        }
        cpu = sizes.cpu * unit[sizes.cpu_unit]
        cores = np.ceil(cpu / core) if sizes.cores is None else sizes.cores
        memory = default.memory
        if sizes.memory is not None:
            relative = sizes.memory_unit is MemoryUnit.LARGEST_HOST
            memory = sizes.memory * (float(hosts.memory.max()) if relative else 1.0)
        return GuestSpecs(cpu, memory, default.anti_affinity_group, cores)
