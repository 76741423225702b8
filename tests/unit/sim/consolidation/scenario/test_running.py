"""What a run is given is what it runs, and a digest tells loads apart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from opendrs.errors import ConfigurationError, InvalidFileError
from opendrs.policies import Consolidate
from opendrs.sim.consolidation import Trace, scheme, simulate
from opendrs.sim.consolidation.engine import run
from opendrs.sim.consolidation.machines import Behaviour, Machines
from opendrs.sim.consolidation.scenario.guests import Guests, Kind
from opendrs.sim.consolidation.scenario.hosts import Pool
from opendrs.sim.consolidation.scenario.running import (
    digest_of,
    load_of,
    metrics_of,
    require_room,
)
from opendrs.sim.consolidation.scenario.scenario import (
    Contender,
    Model,
    Recorded,
    Stage,
)
from opendrs.sim.consolidation.synthetic import Synthetic
from opendrs.sim.consolidation.workload import CpuUnit, Sizes, Workload

DRAWN = Synthetic(guests=30, seed=3)
OURS = Contender(label="x", name="consolidate", policy=Consolidate(last_n=1))
STAGE = Stage(model=Model.OPENDRS, source=DRAWN, pools=(Pool(count=20),))


def test_a_run_is_that_of_the_engine() -> None:
    load = load_of(DRAWN, Model.OPENDRS)
    assert isinstance(load, Workload)

    metrics = metrics_of(STAGE, OURS, load)

    account = run(load, Consolidate(last_n=1), Machines.of(20))
    assert metrics["energy_kwh"] == account.energy_kwh
    assert metrics["migrations"] == account.migrations
    assert metrics["bound_ratio"] == account.bound_ratio


def test_guests_and_behaviour_count() -> None:
    load = load_of(DRAWN, Model.OPENDRS)
    idle = replace(STAGE, behaviour=Behaviour(asleep=50))
    small = replace(STAGE, guests=Guests(kinds=(Kind(mips=9, memory=9),)))

    energy = [
        metrics_of(stage, OURS, load)["energy_kwh"] or 0
        for stage in (small, STAGE, idle)
    ]

    assert energy[0] < energy[1] < energy[2]


def test_a_run_of_cloudsim_is_that_of_its_model(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).write_text("20\n30\n" * 144)
    source = Recorded(kind="planetlab", path=tmp_path)
    stage = Stage(model=Model.CLOUDSIM, source=source, pools=(Pool(count=4),))
    contender = Contender(label="x", name="lr-mmt", policy=scheme("lr-mmt"))
    load = load_of(source, Model.CLOUDSIM)
    assert isinstance(load, Trace)

    metrics = metrics_of(stage, contender, load)

    result = simulate(load, scheme("lr-mmt"), 4)
    assert metrics["energy_kwh"] == result.energy_kwh
    assert metrics["slav"] == result.slav
    assert "energy" not in metrics


def test_guests_without_room_are_told_before_the_run(tmp_path: Path) -> None:
    narrow = replace(STAGE, pools=(Pool(count=1, memory=2000),))

    with pytest.raises(ConfigurationError, match="finds no room on 1 hosts"):
        require_room(narrow, OURS, load_of(DRAWN, Model.OPENDRS))

    for name in map(str, range(9)):
        (tmp_path / name).write_text("20\n" * 288)
    source = Recorded(kind="planetlab", path=tmp_path)
    stage = Stage(model=Model.CLOUDSIM, source=source, pools=(Pool(count=1),))
    theirs = Contender(label="x", name="dvfs", policy=scheme("dvfs"))
    with pytest.raises(ConfigurationError, match="finds no room on 1 hosts"):
        require_room(stage, theirs, load_of(source, Model.CLOUDSIM))


def test_a_trace_that_is_not_there_is_told() -> None:
    with pytest.raises(InvalidFileError, match=r"none\.tar: No such file"):
        load_of(Recorded(kind="planetlab", path=Path("none.tar")), Model.OPENDRS)


def loads() -> list[Workload | Trace]:
    """Return loads no two of which are the same."""
    names, cpu = ("a", "b"), np.array([[0.1, 0.2], [0.3, 0.4]])
    plain = Workload(names=names, cpu=cpu)
    sizes = Sizes(cpu=np.array([1.0, 2.0]), cpu_unit=CpuUnit.MIPS)
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


def test_a_digest_tells_loads_apart() -> None:
    digests = [digest_of(load) for load in loads()]

    assert len(set(digests)) == len(digests)


def test_equal_loads_have_equal_digests_whatever_was_noted() -> None:
    load = loads()[0]
    assert isinstance(load, Workload)

    assert digest_of(load) == digest_of(replace(load, notes=("so many",)))
    assert digest_of(load) == digest_of(replace(load, cpu=load.cpu.copy("F")))
