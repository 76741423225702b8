"""Workloads: the demand of guests over time, recorded or synthetic."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from opendrs.errors import ConfigurationError, DiagnosticCode, ModelError

MIN_SAMPLES = 2


class CpuUnit(StrEnum):
    """Unit of the CPU of a guest."""

    MIPS = "mips"
    CORES = "cores"  # of the slowest host
    LARGEST_HOST = "largest host"  # fraction of its CPU


class MemoryUnit(StrEnum):
    """Unit of the memory of a guest."""

    MB = "mb"
    LARGEST_HOST = "largest host"  # fraction of its memory


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestSizes:
    """Sizes of guests as recorded in a trace; each of shape (guests,).

    Attributes:
        cpu: Total CPU of each guest, above 0.
        cpu_unit: Unit of `cpu`.
        cores: Number of cores each can use at once, at least 1; None for as many as
            its CPU needs.
        memory: Total memory of each guest, above 0; None if not recorded.
        memory_unit: Unit of `memory`.

    Raises:
        ModelError: A size is not above 0, or their number is not that of the guests.
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
                raise ModelError(
                    f"sizes: {name}: expected shape {self.cpu.shape}, "
                    f"got {values.shape}"
                )
            if not ((values > 0) & (values < np.inf)).all():
                raise ModelError(f"sizes: {name}: expected numbers above 0")
        if self.cores is not None and (self.cores < 1).any():
            raise ModelError("sizes: cores: expected at least 1 core for each guest")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Load of guests over time.

    A sample is the mean over the interval that starts with it.

    Attributes:
        names: Names of the guests, in the order of the rows.
        cpu: CPU of each guest, as a fraction of its own; shape (guests, samples).
        memory: Memory usage of each guest, as a fraction of its own; None if not
            recorded: then each is assumed to use all of it.
        sizes: Sizes of the guests; None if not recorded.
        interval: Seconds between samples.
        notes: Changes made while reading.

    Raises:
        ModelError: The number of rows or sizes is not that of the guests, there are
            fewer than two samples, or one is not in [0, 1].
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
                    f"{name}: expected {len(self.names)} rows of at least "
                    f"{MIN_SAMPLES} samples, got shape {shape}"
                )
            if not ((values >= 0) & (values <= 1)).all():
                raise ModelError(f"{name}: expected numbers in [0, 1]")
        if self.memory is not None and self.memory.shape != self.cpu.shape:
            raise ModelError("memory: expected as many samples as cpu")
        if self.sizes is not None and len(self.sizes.cpu) != len(self.names):
            raise ModelError("sizes: expected one for each guest")
        if not 0 < self.interval < np.inf:
            raise ModelError(f"interval: expected more than 0 s, got {self.interval}")


DAY = 86_400.0
WEEK = 7 * DAY
SAMPLE_INTERVAL = 300.0  # s
MAX_SYNTHETIC_VALUE = 1000  # bursts per day, or multiples of the load
WEEKEND_FACTOR = 0.6  # load relative to that of other days


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticSettings:
    """Settings of a synthetic workload; deterministic for a seed.

    Attributes:
        guests: Number of guests.
        days: Duration in days.
        group: Number of consecutive guests with the same busy hours.
        load: Mean load on working days without bursts, as a fraction of the CPU of a
            guest.
        noise: Standard deviation of the noise, as a fraction of the load.
        bursts: Mean number of bursts per guest and day; half an hour each.
        seed: Seed of all random numbers.

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
                raise ConfigurationError(
                    f"{name}: expected at least 1, got {getattr(self, name)}",
                    code=DiagnosticCode.OUT_OF_RANGE,
                )
        if not 0 < self.load <= 1:
            raise ConfigurationError(
                f"load: expected a number in (0, 1], got {self.load}",
                code=DiagnosticCode.OUT_OF_RANGE,
            )
        for name in ("noise", "bursts"):
            if not 0 <= getattr(self, name) <= MAX_SYNTHETIC_VALUE:
                raise ConfigurationError(
                    f"{name}: expected a number from 0 to {MAX_SYNTHETIC_VALUE}, "
                    f"got {getattr(self, name)}",
                    code=DiagnosticCode.OUT_OF_RANGE,
                )


def synthetic_workload(settings: SyntheticSettings) -> Workload:
    """Return the workload with these *settings*.

    Each day has a busy hour, the same for a group, with a height that varies by guest.
    Two days in seven have less load. Memory is constant except for a tenth that
    follows the CPU.
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
    """Return the load of each guest relative to its mean, by hour and day."""
    count = int(groups.max()) + 1
    peak = rng.uniform(0, DAY, count)[groups][:, None]
    height = rng.uniform(0, 0.8, len(groups))[:, None]
    day = 1 + height * np.cos(2 * np.pi * (time - peak) / DAY)
    weekend = time % WEEK >= 5 * DAY
    shape: Floats = day * np.where(weekend, WEEKEND_FACTOR, 1.0)
    return shape


def _add_bursts(rng: np.random.Generator, cpu: Floats, mean: float) -> None:
    """Add bursts of half an hour in place."""
    length = int(1800 / SAMPLE_INTERVAL)
    for guest, count in enumerate(rng.poisson(mean, len(cpu)).tolist()):
        for start in rng.integers(0, cpu.shape[1], count).tolist():
            cpu[guest, start : start + length] += rng.uniform(0.3, 0.8)


Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
