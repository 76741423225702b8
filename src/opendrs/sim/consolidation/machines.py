"""The hosts and guests of the default model, as columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opendrs.errors import ConfigurationError
from opendrs.model.quantities import MegabytesPerSecond, Seconds
from opendrs.policies.consolidation import SPECPOWER, power_columns
from opendrs.sim.consolidation.hardware import (
    CORE,
    CORES,
    GUEST_MEMORY,
    GUEST_MIPS,
    POWER,
    Floats,
    Integers,
)
from opendrs.sim.consolidation.workload import CpuUnit, MemoryUnit, Workload

MOST = 10**9  # seconds, watts, or MB a second
MEMORY = 65_536.0  # MB; see `Machines.memory`


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """What switching hosts and moving guests takes.

    Attributes:
        wake: Seconds until a host that is woken runs; it draws full power.
        shutdown: Seconds until a host that is put to sleep does; it draws what it
            draws idle.
        asleep: Watts that a sleeping host draws.
        bandwidth: MB a second at which a guest moves. A host sends or receives one
            guest at a time.
        loss: Part of its CPU that a guest does without while it moves; the
            target spends as much on receiving it.

    Raises:
        ConfigurationError: A value is out of range.
    """

    wake: Seconds = 120.0
    shutdown: Seconds = 30.0
    asleep: float = 0.0
    bandwidth: MegabytesPerSecond = 62.5  # as in CloudSim 3.0.3: 0.5 Gbit/s
    loss: float = 0.1  # Voorsluys et al. 2009, as in Beloglazov and Buyya 2012

    def __post_init__(self) -> None:
        for name in ("wake", "shutdown", "asleep"):
            if not getattr(self, name) >= 0:
                raise ConfigurationError(f"{name} must be 0 or more")
        if not self.bandwidth > 0:
            raise ConfigurationError("bandwidth must be above 0 MB/s")
        for name in ("wake", "shutdown", "asleep", "bandwidth"):
            if getattr(self, name) > MOST:
                raise ConfigurationError(f"{name} must be at most {MOST:,}")
        if not 0 <= self.loss <= 1:
            raise ConfigurationError("loss must be in [0, 1]")


@dataclass(frozen=True, slots=True)
class Machines:
    """The hosts, as columns; each of shape (hosts,) but for the watts.

    Attributes:
        cpu: MIPS of all cores.
        core: MIPS of one core; a guest gets no more than that on each of its own.
        memory: MB. CloudSim's 4 GB would hold three guests, and memory would be all
            that counts; it is 64 GB here, so that CPU is what is short.
        watts: One row of eleven values per power curve.
        curve: Which of them each host has.
    """

    cpu: Floats
    core: Floats
    memory: Floats
    watts: Floats
    curve: Integers

    @staticmethod
    def of(count: int, memory: float = MEMORY) -> Machines:
        """Return *count* hosts, HP ML110 G4 and G5 in turn."""
        kind = np.arange(count) % len(POWER)
        return Machines(
            CORES * CORE[kind],
            CORE[kind],
            np.full(count, float(memory)),
            np.array([SPECPOWER[each].watts for each in POWER]),
            kind.astype(np.int64),
        )

    def power(self, load: Floats) -> Floats:
        """Return the watts each draws at *load*, a part of its CPU; more is 1."""
        return power_columns(self.watts, self.curve, np.clip(load, 0, 1))

    def watts_at(self, host: int, load: float) -> float:
        """Return the watts that *host* draws at *load*."""
        place = min(max(load, 0.0), 1.0) * 10
        below = min(int(place), 9)
        row = self.watts[self.curve[host]]
        return float(row[below] + (row[below + 1] - row[below]) * (place - below))

    @property
    def least_watts(self) -> float:
        """Watts per MIPS of the thriftiest host at full load."""
        return float((self.watts[self.curve, -1] / self.cpu).min())


@dataclass(frozen=True, slots=True)
class Tenants:
    """The guests, as columns; each of shape (guests,).

    Attributes:
        cpu: MIPS of all its cores.
        memory: MB that it may use.
        apart: Number of the group whose members must be apart; -1 for none.
        cores: How many it has.
    """

    cpu: Floats
    memory: Floats
    apart: Integers
    cores: Floats

    @staticmethod
    def of(count: int, apart: int = 0) -> Tenants:
        """Return *count* guests of CloudSim's four kinds, a quarter of each.

        They have one core each.

        Args:
            count: How many.
            apart: How many at a time, as they are numbered, must be apart; 0 and
                1 for no such rule.
        """
        kind = np.arange(count) // max(1, -(-count // len(GUEST_MIPS)))
        group = np.arange(count) // apart if apart > 1 else np.full(count, -1)
        return Tenants(
            GUEST_MIPS[kind],
            GUEST_MEMORY[kind],
            group.astype(np.int64),
            np.ones(count),
        )

    @staticmethod
    def serving(work: Workload, machines: Machines, apart: int = 0) -> Tenants:
        """Return the guests of *work*, as large as it tells; else of the usual kinds.

        Args:
            work: What they ask for.
            machines: The hosts, against which some traces tell sizes.
            apart: How many at a time, as they are numbered, must be apart.
        """
        usual = Tenants.of(len(work.names), apart)
        sizes = work.sizes
        if sizes is None:
            return usual
        core = float(machines.core.min())
        unit = {
            CpuUnit.MIPS: 1.0,
            CpuUnit.CORES: core,
            CpuUnit.LARGEST_HOST: float(machines.cpu.max()),
        }
        cpu = sizes.cpu * unit[sizes.cpu_unit]
        cores = np.ceil(cpu / core) if sizes.cores is None else sizes.cores
        memory = usual.memory
        if sizes.memory is not None:
            whole = sizes.memory_unit is MemoryUnit.LARGEST_HOST
            memory = sizes.memory * (float(machines.memory.max()) if whole else 1.0)
        return Tenants(cpu, memory, usual.apart, cores)
