"""Hosts of a scenario: pools of equal hosts."""

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
MAX_HOST_VALUE = 1e9  # MB, MIPS or watts: a thousand times the largest real host

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
"""Cores, and MIPS per core, of the servers with a power curve. As in CloudSim, a core
has as many MIPS as its processor has MHz."""


@dataclass(frozen=True, slots=True)
class ServerModel:
    """Power, cores and speed of one server model.

    Attributes:
        watts: Watts at 0, 10, ..., 100 % load.
        cores: Number of cores.
        mips: MIPS of a core.
    """

    watts: tuple[float, ...]
    cores: int
    mips: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPool:
    """Pool of equal hosts; by default HP ML110 G4 and G5, alternating.

    Attributes:
        count: Number of hosts.
        power: Name of the server model, as in the reference.
        watts: Watts at 0, 10, ..., 100 % load, for another server.
        cores: Number of cores; None for that of the server.
        mips: MIPS of a core; None for that of the server.
        memory: MB of each host.

    Raises:
        ConfigurationError: A value is out of range or conflicts with another.
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
                yield f"{name}: expected a number in [1, {MAX_HOSTS}], got {value}"
        for name, amount in (("mips", self.mips), ("memory", self.memory)):
            if amount is not None and not amount > 0:
                yield f"{name}: expected more than 0, got {amount:g}"
            elif amount is not None and amount > MAX_HOST_VALUE:
                yield f"{name}: expected at most {MAX_HOST_VALUE:g}, got {amount:g}"

    def _server_errors(self) -> Iterator[str]:
        if self.power is not None and self.power not in SERVERS:
            known = ", ".join(SERVERS)
            yield f"power: unknown: {self.power!r}; expected one of {known}"
        if self.watts is not None:
            yield from self._watt_errors(self.watts)
        elif self.power is None and (self.cores is not None or self.mips is not None):
            yield "cores, mips: given without power or watts; add one of them"

    def _watt_errors(self, watts: Sequence[float]) -> Iterator[str]:
        if self.power is not None:
            yield "power, watts: both given; remove one"
        if self.cores is None or self.mips is None:
            yield "watts: given without cores and mips; add them"
        if len(watts) != DECILES:
            yield f"watts: expected {DECILES} values, got {len(watts)}"
        if not all(0 <= each <= MAX_HOST_VALUE for each in watts) or not any(watts):
            yield (
                f"watts: expected numbers from 0 to {MAX_HOST_VALUE:g}, not all 0, "
                f"got {watts}"
            )

    @property
    def is_default(self) -> bool:
        """True if only a count is given, as the CloudSim model requires."""
        return self == HostPool(count=self.count)

    @property
    def models(self) -> tuple[ServerModel, ...]:
        """Return the server models of the hosts, in alternating order."""
        if self.watts is not None:
            assert self.cores is not None  # noqa: S101 - checked by `_watt_errors`
            assert self.mips is not None  # noqa: S101 - checked by `_watt_errors`
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
    """Return the hosts of *pools*, interleaved: the first of each, then the second."""
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
