"""Runs use the given inputs, and digests identify loads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from opendrs.errors import ConfigurationError, InvalidFileError
from opendrs.policies.consolidation import Consolidate
from opendrs.simulation.cloudsim import parse_scheme, simulate
from opendrs.simulation.engine import run_simulation
from opendrs.simulation.hardware import HostSpecs, SimulationBehavior
from opendrs.simulation.scenario.definition import (
    PolicyRun,
    RecordedWorkload,
    SimulationEnvironment,
    SimulationModel,
)
from opendrs.simulation.scenario.guests import GuestOptions, GuestProfile
from opendrs.simulation.scenario.hosts import HostPool
from opendrs.simulation.scenario.run import (
    check_initial_placement,
    load_digest,
    read_load,
    simulate_policy,
)
from opendrs.simulation.traces import Trace
from opendrs.simulation.workload import CpuUnit, GuestSizes, SyntheticSettings, Workload

SYNTHETIC = SyntheticSettings(guests=30, seed=3)
CONSOLIDATE = PolicyRun(
    label="x", name="consolidate", policy=Consolidate(averaging_window=1)
)
ENVIRONMENT = SimulationEnvironment(
    model=SimulationModel.OPENDRS, source=SYNTHETIC, pools=(HostPool(count=20),)
)


def test_a_run_is_that_of_the_engine() -> None:
    load = read_load(SYNTHETIC, SimulationModel.OPENDRS)
    assert isinstance(load, Workload)

    metrics = simulate_policy(ENVIRONMENT, CONSOLIDATE, load)

    account = run_simulation(
        load, Consolidate(averaging_window=1), HostSpecs.alternating(20)
    )
    assert metrics["energy_kwh"] == account.energy_kwh
    assert metrics["migrations"] == account.migrations
    assert metrics["bound_ratio"] == account.bound_ratio


def test_guests_and_behavior_change_metrics() -> None:
    load = read_load(SYNTHETIC, SimulationModel.OPENDRS)
    idle = replace(ENVIRONMENT, behavior=SimulationBehavior(powered_off_watts=50))
    small = replace(
        ENVIRONMENT, guests=GuestOptions(kinds=(GuestProfile(mips=9, memory=9),))
    )

    energy = [
        simulate_policy(environment, CONSOLIDATE, load)["energy_kwh"] or 0
        for environment in (small, ENVIRONMENT, idle)
    ]

    assert energy[0] < energy[1] < energy[2]


def test_a_run_of_cloudsim_is_that_of_its_model(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).write_text("20\n30\n" * 144)
    source = RecordedWorkload(kind="planetlab", path=tmp_path)
    environment = SimulationEnvironment(
        model=SimulationModel.CLOUDSIM, source=source, pools=(HostPool(count=4),)
    )
    policy_run = PolicyRun(label="x", name="lr-mmt", policy=parse_scheme("lr-mmt"))
    load = read_load(source, SimulationModel.CLOUDSIM)
    assert isinstance(load, Trace)

    metrics = simulate_policy(environment, policy_run, load)

    result = simulate(load, parse_scheme("lr-mmt"), 4)
    assert metrics["energy_kwh"] == result.energy_kwh
    assert metrics["slav"] == result.slav
    assert "energy" not in metrics


def test_unplaceable_guests_are_reported_before_run(tmp_path: Path) -> None:
    narrow = replace(ENVIRONMENT, pools=(HostPool(count=1, memory=2000),))

    with pytest.raises(ConfigurationError, match="does not fit on 1 host"):
        check_initial_placement(
            narrow, CONSOLIDATE, read_load(SYNTHETIC, SimulationModel.OPENDRS)
        )

    for name in map(str, range(9)):
        (tmp_path / name).write_text("20\n" * 288)
    source = RecordedWorkload(kind="planetlab", path=tmp_path)
    environment = SimulationEnvironment(
        model=SimulationModel.CLOUDSIM, source=source, pools=(HostPool(count=1),)
    )
    theirs = PolicyRun(label="x", name="dvfs", policy=parse_scheme("dvfs"))
    with pytest.raises(ConfigurationError, match="does not fit on 1 host"):
        check_initial_placement(
            environment, theirs, read_load(source, SimulationModel.CLOUDSIM)
        )


def test_missing_trace_is_reported() -> None:
    with pytest.raises(InvalidFileError, match=r"none\.tar: No such file"):
        read_load(
            RecordedWorkload(kind="planetlab", path=Path("none.tar")),
            SimulationModel.OPENDRS,
        )


def loads() -> list[Workload | Trace]:
    """Return loads that all differ."""
    names, cpu = ("a", "b"), np.array([[0.1, 0.2], [0.3, 0.4]])
    plain = Workload(names=names, cpu=cpu)
    sizes = GuestSizes(cpu=np.array([1.0, 2.0]), cpu_unit=CpuUnit.MIPS)
    return [
        plain,
        replace(plain, names=("a", "c")),
        replace(plain, names=("ab", "")),
        replace(plain, cpu=cpu * 0.5),
        replace(plain, memory=cpu),
        replace(plain, interval=60.0),
        replace(plain, sizes=sizes),
        replace(plain, sizes=replace(sizes, cpu_unit=CpuUnit.CORES)),
        replace(plain, sizes=replace(sizes, cores=np.array([1.0, 2.0]))),
        replace(plain, sizes=replace(sizes, memory=np.array([1.0, 2.0]))),
        Trace(names, (cpu * 100).astype(np.int64)),
    ]


def test_digests_of_different_loads_differ() -> None:
    digests = [load_digest(load) for load in loads()]

    assert len(set(digests)) == len(digests)


def test_digest_is_independent_of_notes() -> None:
    load = loads()[0]
    assert isinstance(load, Workload)

    assert load_digest(load) == load_digest(replace(load, notes=("so many",)))
    assert load_digest(load) == load_digest(replace(load, cpu=load.cpu.copy("F")))
