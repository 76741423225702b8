"""The hosts of a scenario: pools of equal ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from opendrs.errors import ConfigurationError
from opendrs.model.quantities import Megabytes
from opendrs.policies.consolidation import SPECPOWER
from opendrs.sim.consolidation.hardware import CORE, CORES, HOSTS, POWER
from opendrs.sim.consolidation.machines import MEMORY, Machines

MOST_HOSTS = 10**6
DECILES = 11
LARGEST = 1e9  # MB, MIPS or watts: a thousand times the largest host there is

SERVERS = MappingProxyType(
    {
        "hp-ml110-g3": (2, 3000.0),
        "hp-ml110-g4": (CORES, float(CORE[0])),
        "hp-ml110-g5": (CORES, float(CORE[1])),
        "ibm-x3250-x3470": (4, 2933.0),
        "ibm-x3250-x3480": (4, 3067.0),
        "ibm-x3550-x5670": (12, 2933.0),
        "ibm-x3550-x5675": (12, 3067.0),
    }
)
"""Cores and MIPS a core of the servers with a power curve; as in CloudSim, a core has
as many MIPS as its processor has MHz."""


@dataclass(frozen=True, slots=True)
class Model:
    """What hosts of one kind are.

    Attributes:
        watts: What one draws at 0, 10, ... 100 % load.
        cores: How many cores one has.
        mips: MIPS of a core.
    """

    watts: tuple[float, ...]
    cores: int
    mips: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Hosts of one kind; without `power` and `watts`, HP ML110 G4 and G5 in turn.

    Attributes:
        count: How many.
        power: Which server they are, of those in the reference.
        watts: What one draws at 0, 10, ... 100 % load, where it is another server.
        cores: How many cores one has; that of the server unless given.
        mips: MIPS of a core; that of the server unless given.
        memory: MB of one.

    Raises:
        ConfigurationError: A value is out of range, or does not go with the others.
    """

    count: int
    power: str | None = None
    watts: tuple[float, ...] | None = None
    cores: int | None = None
    mips: float | None = None
    memory: Megabytes = MEMORY

    def __post_init__(self) -> None:
        wrong = [*self._wrong_amounts(), *self._wrong_kind()]
        if wrong:
            raise ConfigurationError(*wrong)

    def _wrong_amounts(self) -> Iterator[str]:
        for name, value in (("count", self.count), ("cores", self.cores)):
            if value is not None and not 1 <= value <= MOST_HOSTS:
                yield f"{name} must be in [1, {MOST_HOSTS}], not {value}"
        for name, amount in (("mips", self.mips), ("memory", self.memory)):
            if amount is not None and not amount > 0:
                yield f"{name} must be above 0, not {amount:g}"
            elif amount is not None and amount > LARGEST:
                yield f"{name} must be at most {LARGEST:g}, not {amount:g}"

    def _wrong_kind(self) -> Iterator[str]:
        if self.power is not None and self.power not in SERVERS:
            known = ", ".join(SERVERS)
            yield f"power: no power curve {self.power!r} (there is: {known})"
        if self.watts is not None:
            yield from self._wrong_watts(self.watts)
        elif self.power is None and (self.cores is not None or self.mips is not None):
            yield "cores and mips need power or watts"

    def _wrong_watts(self, watts: Sequence[float]) -> Iterator[str]:
        if self.power is not None:
            yield "give power or watts, not both"
        if self.cores is None or self.mips is None:
            yield "watts need cores and mips"
        if len(watts) != DECILES:
            yield f"watts: expected {DECILES} values, found {len(watts)}"
        if not all(0 <= each <= LARGEST for each in watts) or not any(watts):
            yield f"watts must be from 0 to {LARGEST:g}, and not all 0"

    @property
    def plain(self) -> bool:
        """Whether nothing but a count is said, as the model of CloudSim needs it."""
        return self == Pool(count=self.count)

    @property
    def models(self) -> tuple[Model, ...]:
        """Return which kinds its hosts are of, in turn."""
        if self.watts is not None:
            assert self.cores is not None  # noqa: S101 - or it could not be built
            assert self.mips is not None  # noqa: S101 - as above
            return (Model(self.watts, self.cores, self.mips),)
        servers = POWER if self.power is None else (self.power,)
        return tuple(
            Model(
                SPECPOWER[each].watts,
                self.cores or SERVERS[each][0],
                self.mips or SERVERS[each][1],
            )
            for each in servers
        )


USUAL = (Pool(count=HOSTS),)


def machines_of(pools: Sequence[Pool]) -> Machines:
    """Return the hosts of *pools*: the first of each, the second of each, and so on."""
    models = list(dict.fromkeys(model for pool in pools for model in pool.models))
    place = {model: index for index, model in enumerate(models)}
    turns = [np.arange(pool.count) for pool in pools]
    kinds = [
        np.array([place[each] for each in pool.models])[turn % len(pool.models)]
        for pool, turn in zip(pools, turns, strict=True)
    ]
    order = np.argsort(np.concatenate(turns), kind="stable")
    curve = np.concatenate(kinds)[order].astype(np.int64)
    memory = np.repeat(
        [float(pool.memory) for pool in pools], [pool.count for pool in pools]
    )
    core = np.array([model.mips for model in models], np.float64)
    cores = np.array([model.cores for model in models], np.float64)
    watts = np.array([model.watts for model in models], np.float64)
    return Machines((cores * core)[curve], core[curve], memory[order], watts, curve)
