"""What guests ask for over time: the load of the default model, as columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opendrs.errors import ModelError
from opendrs.sim.consolidation.hardware import Floats

LEAST = 2  # samples


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The load of guests, sample by sample.

    A sample is the mean over the interval that begins with it.

    Attributes:
        names: The guests, in the order they are numbered in.
        cpu: CPU of each, as part of its own; shape (guests, samples).
        memory: Memory of each in use, as part of its own; None where it was not
            recorded: then each is taken to use all of it.
        interval: Seconds from one sample to the next.
        notes: What was changed in reading.

    Raises:
        ModelError: There is not a row for each guest, fewer than two samples, or
            one that is not in [0, 1].
    """

    names: tuple[str, ...]
    cpu: Floats
    memory: Floats | None = None
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
        if not 0 < self.interval < np.inf:
            raise ModelError(f"the interval must be above 0 s, not {self.interval}")
