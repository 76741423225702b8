"""Runs of a policy in an environment."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict

import numpy as np

from opendrs.errors import ConfigurationError, DiagnosticCode, InvalidFileError
from opendrs.simulation.cloudsim import simulate
from opendrs.simulation.cloudsim.run import check_placement
from opendrs.simulation.cloudsim.schemes import (
    CloudSimBaseline,
    CloudSimScheme,
    MigrationScheme,
)
from opendrs.simulation.engine import run_simulation
from opendrs.simulation.metrics import IntervalObserver
from opendrs.simulation.placement import ExclusionGroups, initial_placement
from opendrs.simulation.scenario.definition import (
    PolicyRun,
    RecordedWorkload,
    SimulationEnvironment,
    SimulationModel,
    WorkloadSource,
)
from opendrs.simulation.scenario.hosts import host_specs
from opendrs.simulation.traces import READERS, Trace, read_planetlab_day
from opendrs.simulation.workload import Workload, synthetic_workload

SimulationLoad = Workload | Trace
MetricValues = Mapping[str, float | int | None]
RunProgress = Callable[[int, int], None]


def read_load(source: WorkloadSource, model: SimulationModel) -> SimulationLoad:
    """Return the load of *source*.

    Raises:
        InvalidFileError: The file is missing or invalid.
        InvalidSettingError: The window does not fit the trace.
    """
    if not isinstance(source, RecordedWorkload):
        return synthetic_workload(source)
    if not source.path.exists():
        raise InvalidFileError(f"cannot read {source.path}: No such file or directory")
    if model is SimulationModel.CLOUDSIM:
        return read_planetlab_day(source.path)
    return READERS[source.kind](source.path, source.window)


def load_digest(load: SimulationLoad) -> str:
    """Return a digest that is equal exactly for equal guests and loads.

    It does not depend on the name and the compression of the file.
    """
    digest = hashlib.sha256()
    for part in _digest_parts(load):
        digest.update(part)
    return digest.hexdigest()


def _digest_parts(load: SimulationLoad) -> list[bytes]:
    names = "\0".join(load.names).encode()
    if isinstance(load, Trace):
        return [b"trace\0", names, *_array_bytes(load.percent)]
    sizes = load.sizes
    units = [] if sizes is None else [f"{sizes.cpu_unit} {sizes.memory_unit}".encode()]
    columns = [] if sizes is None else [sizes.cpu, sizes.cores, sizes.memory]
    parts = [b"workload\0", names, repr(load.interval).encode(), *units]
    for column in (load.cpu, load.memory, *columns):
        parts += [b"none"] if column is None else _array_bytes(column)
    return parts


def _array_bytes(
    values: np.ndarray[tuple[int, ...], np.dtype[np.generic]],
) -> list[bytes]:
    contiguous = np.ascontiguousarray(values)
    return [f"{contiguous.dtype.str}{contiguous.shape}".encode(), contiguous.tobytes()]


def check_initial_placement(
    environment: SimulationEnvironment, policy_run: PolicyRun, load: SimulationLoad
) -> None:
    """Check that the initial placement is possible and that all groups exist.

    Raises:
        ConfigurationError: The guests do not fit, or a group names an unknown guest.
    """
    if isinstance(load, Trace):
        check_placement(
            load, _scheme_of(environment, policy_run), _host_count(environment)
        )
        return
    hosts = host_specs(environment.pools)
    guests = environment.guests.guest_specs(load, hosts)
    initial_placement(
        hosts, guests, ExclusionGroups(guests.anti_affinity_group, len(hosts.cpu))
    )


def simulate_policy(
    environment: SimulationEnvironment,
    policy_run: PolicyRun,
    load: SimulationLoad,
    *,
    progress: RunProgress | None = None,
    observer: IntervalObserver | None = None,
) -> MetricValues:
    """Return the metrics of serving *load* with *policy_run*, by name.

    Raises:
        ConfigurationError: The guests do not fit at the start.
    """
    policy = policy_run.policy
    if isinstance(load, Trace):
        return _cloudsim_metrics(environment, policy_run, load, progress, observer)
    assert not isinstance(policy, CloudSimBaseline | MigrationScheme)  # noqa: S101
    hosts = host_specs(environment.pools)
    metrics = run_simulation(
        load,
        policy,
        hosts,
        guests=environment.guests.guest_specs(load, hosts),
        behavior=environment.behavior,
        progress=progress,
        observer=observer,
    )
    return {**asdict(metrics), "bound_ratio": metrics.bound_ratio}


def _host_count(environment: SimulationEnvironment) -> int:
    return sum(pool.count for pool in environment.pools)


def _scheme_of(
    environment: SimulationEnvironment, policy_run: PolicyRun
) -> CloudSimScheme:
    policy = policy_run.policy
    if not isinstance(policy, CloudSimBaseline | MigrationScheme):
        raise ConfigurationError(
            f"{environment.model}: policy not supported: {policy_run.name}",
            code=DiagnosticCode.INCONSISTENT,
        )
    return policy


def _cloudsim_metrics(
    environment: SimulationEnvironment,
    policy_run: PolicyRun,
    trace: Trace,
    progress: RunProgress | None,
    observer: IntervalObserver | None,
) -> MetricValues:
    scheme = _scheme_of(environment, policy_run)
    result = simulate(
        trace, scheme, _host_count(environment), progress=progress, observer=observer
    )
    fields = asdict(result)
    del fields["energy"]
    return {
        "energy_kwh": result.energy_kwh,
        **fields,
        "slav": result.slav,
        "esv": result.esv,
    }
