"""Guest sizes from a trace, and host specifications."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from opendrs.errors import ModelError
from opendrs.policies.consolidation import Consolidate
from opendrs.simulation.engine import run_simulation
from opendrs.simulation.hardware import GuestSpecs, HostSpecs
from opendrs.simulation.workload import (
    CpuUnit,
    Floats,
    GuestSizes,
    MemoryUnit,
    Workload,
)

HOUR = 12  # samples


def flat_workload(load: float, sizes: GuestSizes | None) -> Workload:
    guests = 4 if sizes is None else len(sizes.cpu)
    names = tuple(f"g{number}" for number in range(guests))
    return Workload(names=names, cpu=np.full((guests, HOUR), load), sizes=sizes)


def test_guests_without_size_have_default_sizes() -> None:
    guests = GuestSpecs.for_workload(flat_workload(0.1, None), HostSpecs.alternating(4))

    assert guests.cpu.tolist() == [2500, 2000, 1000, 500]
    assert guests.cores.tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("unit", "size", "cpu", "cores"),
    [
        # The slowest host has cores of 1860 MIPS, the largest 2 of 2660.
        (CpuUnit.MIPS, 4000.0, 4000, 3),
        (CpuUnit.CORES, 2.0, 3720, 2),
        (CpuUnit.LARGEST_HOST, 0.25, 1330, 1),
    ],
)
def test_cpu_size_is_taken_from_trace(
    unit: CpuUnit, size: float, cpu: float, cores: float
) -> None:
    sizes = GuestSizes(cpu=np.array([size]), cpu_unit=unit)

    guests = GuestSpecs.for_workload(
        flat_workload(0.1, sizes), HostSpecs.alternating(4)
    )

    assert guests.cpu.tolist() == [cpu]
    assert guests.cores.tolist() == [cores]


@pytest.mark.parametrize(
    ("unit", "size", "memory"),
    [(MemoryUnit.MB, 3000.0, 3000), (MemoryUnit.LARGEST_HOST, 0.25, 2048)],
)
def test_memory_size_is_taken_from_trace(
    unit: MemoryUnit, size: float, memory: float
) -> None:
    sizes = GuestSizes(
        cpu=np.ones(1),
        cpu_unit=CpuUnit.CORES,
        memory=np.array([size]),
        memory_unit=unit,
    )

    guests = GuestSpecs.for_workload(
        flat_workload(0.1, sizes), HostSpecs.alternating(4, memory=8192)
    )

    assert guests.memory.tolist() == [memory]


def test_core_count_is_taken_from_trace() -> None:
    sizes = GuestSizes(
        cpu=np.full(1, 4000.0), cpu_unit=CpuUnit.MIPS, cores=np.full(1, 8.0)
    )

    assert GuestSpecs.for_workload(
        flat_workload(0.1, sizes), HostSpecs.alternating(1)
    ).cores.tolist() == [8]


def test_a_guest_of_two_cores_uses_both() -> None:
    # Worked by hand: G4 has 2 cores of 1860 MIPS, 135 W loaded (hp-ml110-g4: 117).
    sizes = GuestSizes(
        cpu=np.full(1, 3720.0), cpu_unit=CpuUnit.MIPS, cores=np.full(1, 2.0)
    )

    account = run_simulation(flat_workload(1.0, sizes), None, HostSpecs.alternating(1))

    assert account.shortfall == 0
    assert account.energy_kwh == pytest.approx(117 / 1000)


def test_a_guest_of_one_core_does_not_use_two() -> None:
    sizes = GuestSizes(cpu=np.full(1, 3720.0), cpu_unit=CpuUnit.MIPS, cores=np.ones(1))

    account = run_simulation(flat_workload(1.0, sizes), None, HostSpecs.alternating(1))

    assert account.shortfall == pytest.approx(0.5)
    assert account.overload_time_fraction == 0


def test_guest_keeps_its_cores_after_migration() -> None:
    # 2100 MIPS asked on 3 cores, of hosts with 16 cores of 1000 MIPS.
    hosts = replace(
        HostSpecs.alternating(40), cpu=np.full(40, 16e3), core_mips=np.full(40, 1e3)
    )
    sizes = GuestSizes(
        cpu=np.full(20, 7000.0), cpu_unit=CpuUnit.MIPS, cores=np.full(20, 3.0)
    )

    account = run_simulation(
        flat_workload(0.3, sizes), Consolidate(fill_target=0.9), hosts
    )

    # Nothing is limited by a core, as on hosts with fast ones.
    fast = replace(hosts, core_mips=np.full(40, 1e4))
    assert account.migrations > 0
    assert account == run_simulation(
        flat_workload(0.3, sizes), Consolidate(fill_target=0.9), fast
    )


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
def test_invalid_size_is_rejected(
    cpu: Floats, cores: Floats | None, memory: Floats | None
) -> None:
    with pytest.raises(ModelError, match="sizes"):
        GuestSizes(cpu=cpu, cpu_unit=CpuUnit.CORES, cores=cores, memory=memory)


def test_sizes_of_other_count_are_rejected() -> None:
    sizes = GuestSizes(cpu=np.ones(2), cpu_unit=CpuUnit.CORES)

    with pytest.raises(ModelError, match="sizes"):
        Workload(names=("a",), cpu=np.zeros((1, 2)), sizes=sizes)
