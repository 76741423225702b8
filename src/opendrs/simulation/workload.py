"""Workloads: the demand of guests over time, recorded or synthetic."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from opendrs.errors import ConfigurationError, ModelError

MIN_SAMPLES = 2  # samples


class CpuUnit(StrEnum):
    """What the CPU of a guest is told in."""

    MIPS = "mips"
    CORES = "cores"  # as fast as those of the slowest host
    LARGEST_HOST = "largest host"  # part of it


class MemoryUnit(StrEnum):
    """What the memory of a guest is told in."""

    MB = "mb"
    LARGEST_HOST = "largest host"  # part of it


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestSizes:
    """How large guests are, as their trace tells; each of shape (guests,).

    Attributes:
        cpu: All of the CPU of each, above 0.
        cpu_unit: What that is told in.
        cores: How many cores each can use at once, at least 1; None for as many as
            its CPU needs.
        memory: All of the memory of each, above 0; None where the trace does not tell.
        memory_unit: What that is told in.

    Raises:
        ModelError: A size is not above 0, or there is not one for each guest.
    """

    cpu: Floats
    cpu_unit: CpuUnit
    cores: Floats | None = None
    memory: Floats | None = None
    memory_unit: MemoryUnit = MemoryUnit.MB

    def __post_init__(self) -> None:
        for name in ("cpu", "cores", "memory"):
            values = getattr(self, name)
            if values is None:
                continue
            if values.shape != self.cpu.shape or values.ndim != 1:
                raise ModelError(f"sizes: there is not one {name} for each guest")
            if not ((values > 0) & (values < np.inf)).all():
                raise ModelError(f"sizes: {name} must be above 0")
        if self.cores is not None and (self.cores < 1).any():
            raise ModelError("sizes: a guest has at least 1 core")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The load of guests, sample by sample.

    A sample is the mean over the interval that begins with it.

    Attributes:
        names: The guests, in the order they are numbered in.
        cpu: CPU of each, as part of its own; shape (guests, samples).
        memory: Memory of each in use, as part of its own; None where it was not
            recorded: then each is taken to use all of it.
        sizes: How large they are; None where the trace does not tell.
        interval: Seconds from one sample to the next.
        notes: What was changed in reading.

    Raises:
        ModelError: There is not a row or a size for each guest, fewer than two
            samples, or one that is not in [0, 1].
    """

    names: tuple[str, ...]
    cpu: Floats
    memory: Floats | None = None
    sizes: GuestSizes | None = None
    interval: float = 300.0
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, values in (("cpu", self.cpu), ("memory", self.memory)):
            if values is None:
                continue
            shape = values.shape
            if shape != (len(self.names), *shape[1:]) or shape[1] < MIN_SAMPLES:
                raise ModelError(
                    f"{name}: {len(self.names)} guests have no samples of {shape}"
                )
            if not ((values >= 0) & (values <= 1)).all():
                raise ModelError(f"{name} must be in [0, 1]")
        if self.memory is not None and self.memory.shape != self.cpu.shape:
            raise ModelError("cpu and memory have not as many samples")
        if self.sizes is not None and len(self.sizes.cpu) != len(self.names):
            raise ModelError("sizes: there is not one for each guest")
        if not 0 < self.interval < np.inf:
            raise ModelError(f"the interval must be above 0 s, not {self.interval}")


DAY = 86_400.0
WEEK = 7 * DAY
SAMPLE_INTERVAL = 300.0  # s
MAX_SYNTHETIC_VALUE = 1000  # bursts a day, or times the load
WEEKEND_FACTOR = 0.6  # of the load of other days


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticSettings:
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
            if not 0 <= getattr(self, name) <= MAX_SYNTHETIC_VALUE:
                raise ConfigurationError(
                    f"{name} must be from 0 to {MAX_SYNTHETIC_VALUE}"
                )


def synthetic_workload(settings: SyntheticSettings) -> Workload:
    """Return the workload that *settings* describes.

    Days have a busy hour, the same for a group, by more or less for each guest;
    two days in seven are quieter. Memory is steady but for a tenth that goes with CPU.
    """
    rng = np.random.default_rng(settings.seed)
    samples = int(settings.days * DAY / SAMPLE_INTERVAL)
    time = np.arange(samples, dtype=np.float64) * SAMPLE_INTERVAL
    groups = np.arange(settings.guests) // settings.group
    cpu = _daily_cycles(rng, time, groups)
    cpu *= rng.gamma(2.0, settings.load / 2.0, settings.guests)[:, None]
    cpu *= 1 + settings.noise * rng.standard_normal(cpu.shape, dtype=np.float32)
    _add_bursts(rng, cpu, settings.bursts * settings.days)
    cpu = np.clip(cpu, 0, 1)
    memory = rng.uniform(0.3, 0.9, (settings.guests, 1)) + 0.1 * cpu
    width = len(str(settings.guests))
    return Workload(
        names=tuple(f"guest-{number:0{width}}" for number in range(settings.guests)),
        cpu=cpu,
        memory=np.clip(memory, 0, 1),
        interval=SAMPLE_INTERVAL,
    )


def _daily_cycles(rng: np.random.Generator, time: Floats, groups: Integers) -> Floats:
    """Return the part of its mean that each guest asks for, by hour and day."""
    count = int(groups.max()) + 1
    peak = rng.uniform(0, DAY, count)[groups][:, None]
    height = rng.uniform(0, 0.8, len(groups))[:, None]
    day = 1 + height * np.cos(2 * np.pi * (time - peak) / DAY)
    weekend = time % WEEK >= 5 * DAY
    shape: Floats = day * np.where(weekend, WEEKEND_FACTOR, 1.0)
    return shape


def _add_bursts(rng: np.random.Generator, cpu: Floats, mean: float) -> None:
    """Raise the load for half an hour at a time."""
    length = int(1800 / SAMPLE_INTERVAL)
    for guest, count in enumerate(rng.poisson(mean, len(cpu)).tolist()):
        for start in rng.integers(0, cpu.shape[1], count).tolist():
            cpu[guest, start : start + length] += rng.uniform(0.3, 0.8)


Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
