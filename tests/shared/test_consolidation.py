"""The default model on recorded load: what `consolidate` is worth on other days.

Its settings were chosen on 20110303 and 20110306; these are days it has not seen.
`benchmarks/consolidation.py` compares all policies on all days.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from opendrs.model import Limits
from opendrs.policies import Consolidate
from opendrs.policies.consolidation.strategy import Detection, Leaving, Placement
from opendrs.sim.consolidation.engine import run
from opendrs.sim.consolidation.machines import Machines
from opendrs.sim.consolidation.readers import google, planetlab

BESIDE = Path(__file__).parents[2].parent / "shared"
DATA = Path(os.environ.get("OPENDRS_SHARED", BESIDE)) / "data"
DAYS = [
    day
    for day in ("20110309", "20110403")
    if (DATA / f"planetlab/{day}.tar.gz").exists()
]
SERIES = DATA / "google2011-vms/GCD_VMs.tar.gz"
THR_MMT = Consolidate(
    detector=Detection.THRESHOLD,
    parameter=0.8,
    selection=Leaving.MINIMUM_MIGRATION_TIME,
    placement=Placement.POWER_AWARE,
    target=0.8,
    relief=0.8,
    underload=1.0,
    bound=1.0,
    last_n=1,
    attempts=10_000,
    emptied=10_000,
    limits=Limits(cooldown=0),
)

pytestmark = pytest.mark.shared


@pytest.mark.parametrize("day", DAYS)
def test_a_day_it_was_not_tuned_on_costs_less_than_with_thr_mmt(day: str) -> None:
    work = planetlab(DATA / f"planetlab/{day}.tar.gz")

    ours = run(work, Consolidate(), Machines.of(800))
    theirs = run(work, THR_MMT, Machines.of(800))

    assert ours.energy_kwh < 0.75 * theirs.energy_kwh
    assert ours.migrations < theirs.migrations / 5
    assert ours.slav < theirs.slav / 2
    assert ours.energy_kwh < 1.45 * ours.lower_bound_kwh


@pytest.mark.skipif(not SERIES.exists(), reason="no such series")
def test_memory_that_was_recorded_binds_too() -> None:
    account = run(google(SERIES), Consolidate(), Machines.of(800))

    assert account.guests == 1600
    assert account.bound_ratio < 1.4
    assert account.overload_time_fraction < 0.01
