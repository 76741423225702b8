"""Hosts and guests of CloudSim 3.0.3, as arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opendrs.policies.consolidation import SPECPOWER
from opendrs.simulation.hardware import (
    CORE_MIPS,
    CORES_PER_HOST,
    GUEST_MEMORY,
    GUEST_MIPS,
    SERVER_MODELS,
)
from opendrs.simulation.workload import Floats, Integers

HOST_MEMORY = 4096.0  # MB
MAX_GUESTS_PER_HOST = 10  # limit given by the committed bandwidth of a host
MIGRATION_BANDWIDTH = 62.5  # MB/s: half of 1 Gbit/s
INTERVAL = 300.0  # s between samples, and between decisions
LOAD_STEPS = 10
OVERLOAD_STEPS = 40  # tenths of load above 100 % in the power tables


@dataclass(frozen=True, slots=True)
class CloudSimHosts:
    """Hosts as arrays.

    Attributes:
        core_mips: MIPS of one core; shape (hosts,).
        mips: MIPS of all cores; shape (hosts,).
        power_row: Start of each host's values in the two tables; shape (hosts,).
        watts: Watts at each tenth of the load, one server model after the other.
        slope: Increase of the watts from there, per hundredth of load.
    """

    core_mips: Floats
    mips: Floats
    power_row: Integers
    watts: Floats
    slope: Floats

    @staticmethod
    def alternating(count: int) -> CloudSimHosts:
        """Return *count* hosts, alternating between the server models."""
        kind = np.arange(count) % len(SERVER_MODELS)
        measured = np.array([SPECPOWER[model].watts for model in SERVER_MODELS])
        watts = np.pad(measured, ((0, 0), (0, OVERLOAD_STEPS)), mode="edge")
        slope = np.diff(watts, axis=1, append=watts[:, -1:]) / LOAD_STEPS
        core = CORE_MIPS[kind]
        return CloudSimHosts(
            core,
            CORES_PER_HOST * core,
            kind * watts.shape[1],
            watts.ravel(),
            slope.ravel(),
        )

    def power(self, load: Floats, hosts: Integers | slice = slice(None)) -> Floats:
        """Return the watts of *hosts* at *load*, a fraction of all MIPS.

        Many choices are ties that rounding errors decide, so the order of the
        operations is that of the original.
        """
        tenth = (load * LOAD_STEPS).astype(np.int64)
        index = self.power_row[hosts] + tenth
        watts: Floats = (
            self.watts[index] + self.slope[index] * (load - tenth / LOAD_STEPS) * 100
        )
        return watts


@dataclass(frozen=True, slots=True)
class CloudSimGuests:
    """Guests as arrays; each of shape (guests,).

    Attributes:
        mips: MIPS of the single core.
        memory: MB.
    """

    mips: Floats
    memory: Floats

    @staticmethod
    def of_four_sizes(count: int) -> CloudSimGuests:
        """Return *count* guests, a quarter of each size."""
        kind = np.arange(count) // max(1, -(-count // len(GUEST_MIPS)))
        return CloudSimGuests(GUEST_MIPS[kind], GUEST_MEMORY[kind])
