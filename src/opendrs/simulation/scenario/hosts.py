"""The hosts of a scenario: pools of equal ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from opendrs.errors import ConfigurationError
from opendrs.model import Megabytes
from opendrs.policies.consolidation import SPECPOWER
from opendrs.simulation.hardware import (
    CORE_MIPS,
    CORES_PER_HOST,
    DEFAULT_HOST_MEMORY,
    HOST_COUNT,
    SERVER_MODELS,
    HostSpecs,
)

MAX_HOSTS = 10**6
DECILES = 11
MAX_HOST_VALUE = 1e9  # MB, MIPS or watts: a thousand times the largest host there is

SERVERS = MappingProxyType(
    {
        "hp-ml110-g3": (2, 3000.0),
        "hp-ml110-g4": (CORES_PER_HOST, float(CORE_MIPS[0])),
        "hp-ml110-g5": (CORES_PER_HOST, float(CORE_MIPS[1])),
        "ibm-x3250-x3470": (4, 2933.0),
        "ibm-x3250-x3480": (4, 3067.0),
        "ibm-x3550-x5670": (12, 2933.0),
        "ibm-x3550-x5675": (12, 3067.0),
    }
)
"""Cores and MIPS a core of the servers with a power curve; as in CloudSim, a core has
as many MIPS as its processor has MHz."""


@dataclass(frozen=True, slots=True)
class ServerModel:
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
class HostPool:
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
    memory: Megabytes = DEFAULT_HOST_MEMORY

    def __post_init__(self) -> None:
        messages = [*self._range_errors(), *self._server_errors()]
        if messages:
            raise ConfigurationError(*messages)

    def _range_errors(self) -> Iterator[str]:
        for name, value in (("count", self.count), ("cores", self.cores)):
            if value is not None and not 1 <= value <= MAX_HOSTS:
                yield f"{name} must be in [1, {MAX_HOSTS}], not {value}"
        for name, amount in (("mips", self.mips), ("memory", self.memory)):
            if amount is not None and not amount > 0:
                yield f"{name} must be above 0, not {amount:g}"
            elif amount is not None and amount > MAX_HOST_VALUE:
                yield f"{name} must be at most {MAX_HOST_VALUE:g}, not {amount:g}"

    def _server_errors(self) -> Iterator[str]:
        if self.power is not None and self.power not in SERVERS:
            known = ", ".join(SERVERS)
            yield f"power: no power curve {self.power!r} (there is: {known})"
        if self.watts is not None:
            yield from self._watt_errors(self.watts)
        elif self.power is None and (self.cores is not None or self.mips is not None):
            yield "cores and mips need power or watts"

    def _watt_errors(self, watts: Sequence[float]) -> Iterator[str]:
        if self.power is not None:
            yield "give power or watts, not both"
        if self.cores is None or self.mips is None:
            yield "watts need cores and mips"
        if len(watts) != DECILES:
            yield f"watts: expected {DECILES} values, found {len(watts)}"
        if not all(0 <= each <= MAX_HOST_VALUE for each in watts) or not any(watts):
            yield f"watts must be from 0 to {MAX_HOST_VALUE:g}, and not all 0"

    @property
    def is_default(self) -> bool:
        """Whether nothing but a count is said, as the model of CloudSim needs it."""
        return self == HostPool(count=self.count)

    @property
    def models(self) -> tuple[ServerModel, ...]:
        """Return which kinds its hosts are of, in turn."""
        if self.watts is not None:
            assert self.cores is not None  # noqa: S101 - or it could not be built
            assert self.mips is not None  # noqa: S101 - as above
            return (ServerModel(self.watts, self.cores, self.mips),)
        servers = SERVER_MODELS if self.power is None else (self.power,)
        return tuple(
            ServerModel(
                SPECPOWER[each].watts,
                self.cores or SERVERS[each][0],
                self.mips or SERVERS[each][1],
            )
            for each in servers
        )


DEFAULT_HOSTS = (HostPool(count=HOST_COUNT),)


def host_specs(pools: Sequence[HostPool]) -> HostSpecs:
    """Return the hosts of *pools*: the first of each, the second of each, and so on."""
    models = list(dict.fromkeys(model for pool in pools for model in pool.models))
    model_index = {model: index for index, model in enumerate(models)}
    positions = [np.arange(pool.count) for pool in pools]
    kinds = [
        np.array([model_index[each] for each in pool.models])[
            position % len(pool.models)
        ]
        for pool, position in zip(pools, positions, strict=True)
    ]
    order = np.argsort(np.concatenate(positions), kind="stable")
    curve = np.concatenate(kinds)[order].astype(np.int64)
    memory = np.repeat(
        [float(pool.memory) for pool in pools], [pool.count for pool in pools]
    )
    core = np.array([model.mips for model in models], np.float64)
    cores = np.array([model.cores for model in models], np.float64)
    watts = np.array([model.watts for model in models], np.float64)
    return HostSpecs((cores * core)[curve], core[curve], memory[order], watts, curve)
