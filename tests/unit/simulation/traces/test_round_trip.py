"""Traces are read back as written, in each format."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendrs.policies.consolidation import Consolidate
from opendrs.simulation.engine import run_simulation
from opendrs.simulation.hardware import HostSpecs
from opendrs.simulation.traces import READERS, WindowSettings
from opendrs.simulation.workload import CpuUnit, Floats, Workload
from support.traces import CORES, MHZ, WRITERS, TraceLoad, random_load

WITHOUT_MEMORY = ("planetlab", "azure")


def absolute(work: Workload) -> tuple[Floats, Floats | None]:
    """Return CPU and memory as written, relative to the largest host if recorded."""
    sizes = work.sizes
    if sizes is None or sizes.cpu_unit is not CpuUnit.LARGEST_HOST:
        return work.cpu, work.memory
    assert work.memory is not None
    assert sizes.memory is not None
    return work.cpu * sizes.cpu[:, None], work.memory * sizes.memory[:, None]


def read(kind: str, load: TraceLoad, window: WindowSettings | None = None) -> Workload:
    with tempfile.TemporaryDirectory() as folder:
        path = WRITERS[kind](Path(folder), load)
        return READERS[kind](path, window or WindowSettings())


def test_there_is_a_writer_for_each_reader() -> None:
    assert set(WRITERS) == set(READERS)


@pytest.mark.parametrize("kind", READERS)
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), guests=st.integers(1, 4))
def test_written_trace_is_read_back(kind: str, seed: int, guests: int) -> None:
    load = random_load(seed, guests)

    work = read(kind, load)
    cpu, memory = absolute(work)

    assert [name.removesuffix("-0") for name in work.names] == list(load.names)
    assert work.interval == 300
    assert np.allclose(cpu, load.cpu / 100, rtol=1e-12, atol=1e-15)
    assert (memory is None) == (kind in WITHOUT_MEMORY)
    assert memory is None or np.allclose(memory, load.memory / 100, rtol=1e-12)


@pytest.mark.parametrize("kind", READERS)
def test_longer_intervals_have_the_mean(kind: str) -> None:
    load = random_load(seed=5)

    cpu, _ = absolute(read(kind, load, WindowSettings(interval=900)))

    expected = load.cpu.reshape(3, 96, 3).mean(axis=2) / 100
    assert np.allclose(cpu, expected)


@pytest.mark.parametrize("kind", READERS)
def test_part_of_a_trace(kind: str) -> None:
    load = random_load(seed=5)
    begin = 600.0 if kind == "google2019" else 0.0

    work = read(
        kind, load, WindowSettings(start=begin + 3600, length=7200, max_guests=2)
    )

    assert np.allclose(absolute(work)[0], load.cpu[:2, 12:36] / 100)
    assert any("the first 2 by name" in note for note in work.notes)


@pytest.mark.parametrize("kind", READERS)
def test_read_trace_can_be_simulated(kind: str) -> None:
    work = read(kind, random_load(seed=7, guests=8))

    account = run_simulation(work, Consolidate(), HostSpecs.alternating(40))

    assert account.guests == 8
    assert account.energy_kwh > 0


def test_guest_specs_have_recorded_sizes() -> None:
    # All of 4 guests of 4 cores, 10,000 MHz, on hosts that have as much each.
    load = TraceLoad(np.full((4, 288), 100), np.full((4, 288), 50))
    hosts = HostSpecs(
        cpu=np.full(4, float(MHZ)),
        core_mips=np.full(4, MHZ / CORES),
        memory=np.full(4, 8192.0),
        watts=HostSpecs.alternating(1).watts,
        curve=np.zeros(4, np.int64),
    )

    account = run_simulation(read("bitbrains", load), None, hosts)

    assert account.active_hosts == 4
    assert account.shortfall == account.overload_time_fraction == 0
    assert account.energy_kwh == pytest.approx(4 * 24 * 0.117)
