"""Guests as large as their trace tells."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from opendrs.errors import ModelError
from opendrs.policies import Consolidate
from opendrs.sim.consolidation.engine import run
from opendrs.sim.consolidation.hardware import Floats
from opendrs.sim.consolidation.machines import Machines, Tenants
from opendrs.sim.consolidation.workload import CpuUnit, MemoryUnit, Sizes, Workload

HOUR = 12  # samples


def flat(load: float, sizes: Sizes | None) -> Workload:
    guests = 4 if sizes is None else len(sizes.cpu)
    names = tuple(f"g{number}" for number in range(guests))
    return Workload(names=names, cpu=np.full((guests, HOUR), load), sizes=sizes)


def test_guests_without_a_size_are_of_the_usual_kinds() -> None:
    tenants = Tenants.serving(flat(0.1, None), Machines.of(4))

    assert tenants.cpu.tolist() == [2500, 2000, 1000, 500]
    assert tenants.cores.tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("unit", "told", "cpu", "cores"),
    [
        # The slowest host has cores of 1860 MIPS, the largest 2 of 2660.
        (CpuUnit.MIPS, 4000.0, 4000, 3),
        (CpuUnit.CORES, 2.0, 3720, 2),
        (CpuUnit.LARGEST_HOST, 0.25, 1330, 1),
    ],
)
def test_cpu_is_as_large_as_told(
    unit: CpuUnit, told: float, cpu: float, cores: float
) -> None:
    sizes = Sizes(cpu=np.array([told]), cpu_unit=unit)

    tenants = Tenants.serving(flat(0.1, sizes), Machines.of(4))

    assert tenants.cpu.tolist() == [cpu]
    assert tenants.cores.tolist() == [cores]


@pytest.mark.parametrize(
    ("unit", "told", "memory"),
    [(MemoryUnit.MB, 3000.0, 3000), (MemoryUnit.LARGEST_HOST, 0.25, 2048)],
)
def test_memory_is_as_large_as_told(
    unit: MemoryUnit, told: float, memory: float
) -> None:
    sizes = Sizes(
        cpu=np.ones(1),
        cpu_unit=CpuUnit.CORES,
        memory=np.array([told]),
        memory_unit=unit,
    )

    tenants = Tenants.serving(flat(0.1, sizes), Machines.of(4, memory=8192))

    assert tenants.memory.tolist() == [memory]


def test_the_cores_of_a_guest_are_those_told() -> None:
    sizes = Sizes(cpu=np.full(1, 4000.0), cpu_unit=CpuUnit.MIPS, cores=np.full(1, 8.0))

    assert Tenants.serving(flat(0.1, sizes), Machines.of(1)).cores.tolist() == [8]


def test_a_guest_of_two_cores_uses_both() -> None:
    # Worked by hand: G4 has 2 cores of 1860 MIPS, 135 W loaded (hp-ml110-g4: 117).
    sizes = Sizes(cpu=np.full(1, 3720.0), cpu_unit=CpuUnit.MIPS, cores=np.full(1, 2.0))

    account = run(flat(1.0, sizes), None, Machines.of(1))

    assert account.shortfall == 0
    assert account.energy_kwh == pytest.approx(117 / 1000)


def test_a_guest_of_one_core_does_not_use_two() -> None:
    sizes = Sizes(cpu=np.full(1, 3720.0), cpu_unit=CpuUnit.MIPS, cores=np.ones(1))

    account = run(flat(1.0, sizes), None, Machines.of(1))

    assert account.shortfall == pytest.approx(0.5)
    assert account.overload_time_fraction == 0


def test_guests_of_several_cores_keep_them_when_they_move() -> None:
    # 2100 MIPS asked on 3 cores, of hosts with 16 cores of 1000 MIPS.
    hosts = replace(Machines.of(40), cpu=np.full(40, 16e3), core=np.full(40, 1e3))
    sizes = Sizes(
        cpu=np.full(20, 7000.0), cpu_unit=CpuUnit.MIPS, cores=np.full(20, 3.0)
    )

    account = run(flat(0.3, sizes), Consolidate(target=0.9), hosts)

    # Nothing is limited by a core, as on hosts with fast ones.
    fast = replace(hosts, core=np.full(40, 1e4))
    assert account.migrations > 0
    assert account == run(flat(0.3, sizes), Consolidate(target=0.9), fast)


@pytest.mark.parametrize(
    ("cpu", "cores", "memory"),
    [
        (np.zeros(1), None, None),
        (np.full(1, np.nan), None, None),
        (np.ones((1, 1)), None, None),
        (np.ones(1), np.full(1, 0.5), None),
        (np.ones(1), np.ones(2), None),
        (np.ones(1), None, np.full(1, -1.0)),
    ],
)
def test_refuses_a_size_that_cannot_be(
    cpu: Floats, cores: Floats | None, memory: Floats | None
) -> None:
    with pytest.raises(ModelError, match="sizes"):
        Sizes(cpu=cpu, cpu_unit=CpuUnit.CORES, cores=cores, memory=memory)


def test_refuses_sizes_of_other_guests() -> None:
    sizes = Sizes(cpu=np.ones(2), cpu_unit=CpuUnit.CORES)

    with pytest.raises(ModelError, match="sizes"):
        Workload(names=("a",), cpu=np.zeros((1, 2)), sizes=sizes)
