"""The hosts and guests of the experiment of Beloglazov and Buyya (CCPE 2012).

Constants of CloudSim 3.0.3: 800 hosts of two kinds in turn, and guests of four
kinds, a quarter of them each, in the order they are numbered in.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from opendrs.policies.consolidation import SPECPOWER

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Truths = npt.NDArray[np.bool_]

HOSTS = 800
POWER = ("hp-ml110-g4", "hp-ml110-g5")  # hosts with even numbers, with odd ones
CORE = np.array([1860.0, 2660.0])  # MIPS
CORES = 2
HOST_MEMORY = 4096.0  # MB
HOST_GUESTS = 10  # as many as its bandwidth is promised to
GUEST_MIPS = np.array([2500.0, 2000.0, 1000.0, 500.0])
GUEST_MEMORY = np.array([870.0, 1740.0, 1740.0, 613.0])  # MB
MIGRATION_BANDWIDTH = 62.5  # MB/s: half of a gigabit a second
INTERVAL = 300.0  # s between samples, and between decisions

TENTHS = 10
BEYOND = 40  # tenths of load above 100 % that a request may ask about


@dataclass(frozen=True, slots=True)
class Hosts:
    """The hosts, as columns.

    Attributes:
        core: MIPS of one core; shape (hosts,).
        total: MIPS of all cores; shape (hosts,).
        kind: Where the watts of each begin in the two tables; shape (hosts,).
        watts: Watts at each tenth of the load, one kind after the other.
        slope: By how much they grow from there, for each hundredth.
    """

    core: Floats
    total: Floats
    kind: Integers
    watts: Floats
    slope: Floats

    @staticmethod
    def of(count: int) -> Hosts:
        """Return *count* hosts, the kinds in turn."""
        kind = np.arange(count) % len(POWER)
        measured = np.array([SPECPOWER[each].watts for each in POWER])
        watts = np.pad(measured, ((0, 0), (0, BEYOND)), mode="edge")
        slope = np.diff(watts, axis=1, append=watts[:, -1:]) / TENTHS
        core = CORE[kind]
        return Hosts(
            core, CORES * core, kind * watts.shape[1], watts.ravel(), slope.ravel()
        )

    def power(self, load: Floats, which: Integers | slice = slice(None)) -> Floats:
        """Return the watts drawn at *load*, a part of all MIPS, by *which* hosts.

        Many choices are between equals but for rounding: the order of the
        arithmetic is that of the original.
        """
        tenth = (load * TENTHS).astype(np.int64)
        at = self.kind[which] + tenth
        drawn: Floats = self.watts[at] + self.slope[at] * (load - tenth / TENTHS) * 100
        return drawn


@dataclass(frozen=True, slots=True)
class Guests:
    """The guests, as columns; each of shape (guests,).

    Attributes:
        mips: MIPS of its one core.
        memory: MB.
    """

    mips: Floats
    memory: Floats

    @staticmethod
    def of(count: int) -> Guests:
        """Return *count* guests, a quarter of each kind."""
        kind = np.arange(count) // max(1, -(-count // len(GUEST_MIPS)))
        return Guests(GUEST_MIPS[kind], GUEST_MEMORY[kind])
