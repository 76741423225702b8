"""What guests ask for over time: the load of the default model, as columns."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from opendrs.errors import ModelError
from opendrs.sim.consolidation.hardware import Floats

LEAST = 2  # samples


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
class Sizes:
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
        for what in ("cpu", "cores", "memory"):
            values = getattr(self, what)
            if values is None:
                continue
            if values.shape != self.cpu.shape or values.ndim != 1:
                raise ModelError(f"sizes: there is not one {what} for each guest")
            if not ((values > 0) & (values < np.inf)).all():
                raise ModelError(f"sizes: {what} must be above 0")
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
    sizes: Sizes | None = None
    interval: float = 300.0
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for what, values in (("cpu", self.cpu), ("memory", self.memory)):
            if values is None:
                continue
            shape = values.shape
            if shape != (len(self.names), *shape[1:]) or shape[1] < LEAST:
                raise ModelError(
                    f"{what}: {len(self.names)} guests have no samples of {shape}"
                )
            if not ((values >= 0) & (values <= 1)).all():
                raise ModelError(f"{what} must be in [0, 1]")
        if self.memory is not None and self.memory.shape != self.cpu.shape:
            raise ModelError("cpu and memory have not as many samples")
        if self.sizes is not None and len(self.sizes.cpu) != len(self.names):
            raise ModelError("sizes: there is not one for each guest")
        if not 0 < self.interval < np.inf:
            raise ModelError(f"the interval must be above 0 s, not {self.interval}")
