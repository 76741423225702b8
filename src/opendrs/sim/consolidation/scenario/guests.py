"""The guests of a scenario: how large they are, and who must be apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from opendrs.errors import ConfigurationError
from opendrs.model.quantities import Megabytes
from opendrs.platforms.file import shown
from opendrs.sim.consolidation.hardware import Integers
from opendrs.sim.consolidation.machines import Machines, Tenants
from opendrs.sim.consolidation.workload import Workload

LARGEST = 1e9  # MB, MIPS, or times the share of another kind
MOST_CORES = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of guests.

    Attributes:
        mips: MIPS of all its cores.
        memory: MB that one may use.
        cores: How many cores one can use at once.
        share: How many are of this kind, in proportion to the others.

    Raises:
        ConfigurationError: A value is out of range.
    """

    mips: float
    memory: Megabytes
    cores: int = 1
    share: float = 1.0

    def __post_init__(self) -> None:
        wrong = []
        for name in ("mips", "memory", "share"):
            value = getattr(self, name)
            if not 0 < value <= LARGEST:
                bound = f"at most {LARGEST:g}" if value > 0 else "above 0"
                wrong.append(f"{name} must be {bound}, not {value:g}")
        if not 1 <= self.cores <= MOST_CORES:
            wrong.append(f"cores must be in [1, {MOST_CORES}], not {self.cores}")
        if wrong:
            raise ConfigurationError(*wrong)


@dataclass(frozen=True, slots=True, kw_only=True)
class Guests:
    """What is said of guests besides their load.

    Attributes:
        apart: How many at a time, by name, must be on different hosts; or groups of
            names whose members must be.
        kinds: What they are, the first part of them by name of the first kind, and
            so on; empty for as large as the trace tells, or the usual kinds.
    """

    apart: int | tuple[tuple[str, ...], ...] = 0
    kinds: tuple[Kind, ...] = ()

    def tenants(self, work: Workload, machines: Machines) -> Tenants:
        """Return the guests of *work*, as columns.

        Raises:
            ConfigurationError: A group names a guest that is not there.
        """
        every = self.apart if isinstance(self.apart, int) else 0
        tenants = Tenants.serving(work, machines, every)
        if not isinstance(self.apart, int):
            tenants = replace(tenants, apart=_groups(self.apart, work.names))
        return _sized(tenants, self.kinds) if self.kinds else tenants


def _groups(groups: Sequence[Sequence[str]], names: Sequence[str]) -> Integers:
    place = {name: number for number, name in enumerate(names)}
    found = np.full(len(names), -1, np.int64)
    missing = []
    for number, group in enumerate(groups):
        for name in group:
            if name in place:
                found[place[name]] = number
            else:
                missing.append(f"guests.apart[{number}]: no guest {shown(name)}")
    if missing:
        raise ConfigurationError(*missing[:10])
    return found


def _sized(tenants: Tenants, kinds: Sequence[Kind]) -> Tenants:
    """Return guests of *kinds*; equal shares give the quarters of CloudSim."""
    count = len(tenants.cpu)
    shares = np.array([kind.share for kind in kinds])
    # The little that is taken off keeps rounding from adding a guest.
    sizes = np.ceil(count * shares / shares.sum() - 1e-9)
    kind = np.searchsorted(np.cumsum(sizes), np.arange(count), side="right")
    kind = np.minimum(kind, len(kinds) - 1)
    return replace(
        tenants,
        cpu=np.array([float(each.mips) for each in kinds])[kind],
        memory=np.array([float(each.memory) for each in kinds])[kind],
        cores=np.array([float(each.cores) for each in kinds])[kind],
    )
