"""From a stage and a policy to what came of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict

import numpy as np

from opendrs.errors import ConfigurationError, InvalidFileError
from opendrs.policies import Consolidate
from opendrs.sim.consolidation.beginning import first_placement
from opendrs.sim.consolidation.cloudsim import place, simulate
from opendrs.sim.consolidation.engine import run
from opendrs.sim.consolidation.neighbours import Apart
from opendrs.sim.consolidation.readers import READERS
from opendrs.sim.consolidation.scenario.hosts import machines_of
from opendrs.sim.consolidation.scenario.scenario import (
    Contender,
    Model,
    Recorded,
    Source,
    Stage,
)
from opendrs.sim.consolidation.schemes import Scheme
from opendrs.sim.consolidation.synthetic import synthetic
from opendrs.sim.consolidation.traces import Trace, read_planetlab
from opendrs.sim.consolidation.watching import Watcher
from opendrs.sim.consolidation.workload import Workload

Load = Workload | Trace
Metrics = Mapping[str, float | int | None]
Progress = Callable[[int, int], None]


def load_of(source: Source, model: Model) -> Load:
    """Return the load that *source* describes.

    Raises:
        InvalidFileError: There is none, or it is not what it should be.
        InvalidSettingError: Its window does not suit it.
    """
    if not isinstance(source, Recorded):
        return synthetic(source)
    if not source.path.exists():
        raise InvalidFileError(f"{source.path}: No such file or directory")
    if model is Model.CLOUDSIM:
        return read_planetlab(source.path)
    return READERS[source.kind](source.path, source.window)


def digest_of(load: Load) -> str:
    """Return what tells *load* from any other: the same for the same guests and loads.

    However they were packed, and whatever their file is called.
    """
    found = hashlib.sha256()
    for part in _parts(load):
        found.update(part)
    return found.hexdigest()


def _parts(load: Load) -> list[bytes]:
    names = "\0".join(load.names).encode()
    if isinstance(load, Trace):
        return [b"trace\0", names, *_array(load.percent)]
    sizes = load.sizes
    told = [] if sizes is None else [f"{sizes.cpu_unit} {sizes.memory_unit}".encode()]
    columns = [] if sizes is None else [sizes.cpu, sizes.cores, sizes.memory]
    parts = [b"workload\0", names, repr(load.interval).encode(), *told]
    for column in (load.cpu, load.memory, *columns):
        parts += [b"none"] if column is None else _array(column)
    return parts


def _array(values: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> list[bytes]:
    whole = np.ascontiguousarray(values)
    return [f"{whole.dtype.str}{whole.shape}".encode(), whole.tobytes()]


def require_room(stage: Stage, contender: Contender, load: Load) -> None:
    """Check that all guests find room at the beginning, and that groups name guests.

    Raises:
        ConfigurationError: They do not.
    """
    if isinstance(load, Trace):
        place(load, _scheme_of(stage, contender), _hosts(stage))
        return
    machines = machines_of(stage.pools)
    tenants = stage.guests.tenants(load, machines)
    first_placement(machines, tenants, Apart(tenants.apart, len(machines.cpu)))


def metrics_of(
    stage: Stage,
    contender: Contender,
    load: Load,
    *,
    progress: Progress | None = None,
    watcher: Watcher | None = None,
) -> Metrics:
    """Return what it costs to serve *load* on *stage* with *contender*, by name.

    Raises:
        ConfigurationError: The guests do not all find room.
    """
    policy = contender.policy
    if isinstance(load, Trace):
        return _cloudsim_metrics(stage, contender, load, progress, watcher)
    assert policy is None or isinstance(policy, Consolidate)  # noqa: S101 - by its model
    machines = machines_of(stage.pools)
    account = run(
        load,
        policy,
        machines,
        tenants=stage.guests.tenants(load, machines),
        behaviour=stage.behaviour,
        progress=progress,
        watcher=watcher,
    )
    return {**asdict(account), "bound_ratio": account.bound_ratio}


def _hosts(stage: Stage) -> int:
    return sum(pool.count for pool in stage.pools)


def _scheme_of(stage: Stage, contender: Contender) -> Scheme:
    policy = contender.policy
    if policy is None or isinstance(policy, Consolidate):
        raise ConfigurationError(f"{stage.model} does not run {contender.name}")
    return policy


def _cloudsim_metrics(
    stage: Stage,
    contender: Contender,
    trace: Trace,
    progress: Progress | None,
    watcher: Watcher | None,
) -> Metrics:
    scheme = _scheme_of(stage, contender)
    result = simulate(trace, scheme, _hosts(stage), progress=progress, watcher=watcher)
    fields = asdict(result)
    del fields["energy"]
    return {
        "energy_kwh": result.energy_kwh,
        **fields,
        "slav": result.slav,
        "esv": result.esv,
    }
