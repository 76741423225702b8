"""Drawn workloads: cycles of days and weeks, bursts, and guests that go together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opendrs.errors import ConfigurationError
from opendrs.sim.consolidation.hardware import Floats, Integers
from opendrs.sim.consolidation.workload import Workload

DAY = 86_400.0
WEEK = 7 * DAY
SAMPLE = 300.0  # s
MOST = 1000  # bursts a day, or times the load
WEEKEND = 0.6  # of the load of other days


@dataclass(frozen=True, slots=True, kw_only=True)
class Synthetic:
    """What to draw; the same for the same seed.

    Attributes:
        guests: How many.
        days: For how long.
        group: How many guests at a time have the same busy hours.
        load: Mean load on working days, without bursts, as part of the CPU of a guest.
        noise: Standard deviation of what is no cycle, as part of the load.
        bursts: How many bursts a guest has on a day, on average; half an hour each.
        seed: Of all that is drawn.

    Raises:
        ConfigurationError: A value is out of range.
    """

    guests: int = 1000
    days: int = 1
    group: int = 10
    load: float = 0.15
    noise: float = 0.3
    bursts: float = 1.0
    seed: int = 1

    def __post_init__(self) -> None:
        for name in ("guests", "days", "group"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"{name} must be at least 1")
        if not 0 < self.load <= 1:
            raise ConfigurationError(f"load must be in (0, 1], not {self.load}")
        for name in ("noise", "bursts"):
            if not 0 <= getattr(self, name) <= MOST:
                raise ConfigurationError(f"{name} must be from 0 to {MOST}")


def synthetic(asked: Synthetic) -> Workload:
    """Return the workload that *asked* describes.

    Days have a busy hour, the same for a group, by more or less for each guest;
    two days in seven are quieter. Memory is steady but for a tenth that goes with CPU.
    """
    drawn = np.random.default_rng(asked.seed)
    samples = int(asked.days * DAY / SAMPLE)
    time = np.arange(samples, dtype=np.float64) * SAMPLE
    groups = np.arange(asked.guests) // asked.group
    cpu = _cycles(drawn, time, groups)
    cpu *= drawn.gamma(2.0, asked.load / 2.0, asked.guests)[:, None]
    cpu *= 1 + asked.noise * drawn.standard_normal(cpu.shape, dtype=np.float32)
    _burst(drawn, cpu, asked.bursts * asked.days)
    cpu = np.clip(cpu, 0, 1)
    memory = drawn.uniform(0.3, 0.9, (asked.guests, 1)) + 0.1 * cpu
    width = len(str(asked.guests))
    return Workload(
        names=tuple(f"guest-{number:0{width}}" for number in range(asked.guests)),
        cpu=cpu,
        memory=np.clip(memory, 0, 1),
        interval=SAMPLE,
    )


def _cycles(drawn: np.random.Generator, time: Floats, groups: Integers) -> Floats:
    """Return the part of its mean that each guest asks for, by hour and day."""
    count = int(groups.max()) + 1
    peak = drawn.uniform(0, DAY, count)[groups][:, None]
    height = drawn.uniform(0, 0.8, len(groups))[:, None]
    day = 1 + height * np.cos(2 * np.pi * (time - peak) / DAY)
    weekend = time % WEEK >= 5 * DAY
    shape: Floats = day * np.where(weekend, WEEKEND, 1.0)
    return shape


def _burst(drawn: np.random.Generator, cpu: Floats, mean: float) -> None:
    """Raise the load for half an hour at a time."""
    length = int(1800 / SAMPLE)
    for guest, count in enumerate(drawn.poisson(mean, len(cpu)).tolist()):
        for start in drawn.integers(0, cpu.shape[1], count).tolist():
            cpu[guest, start : start + length] += drawn.uniform(0.3, 0.8)
