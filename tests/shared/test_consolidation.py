"""The default model on recorded load: what `consolidate` is worth on other days.

Its settings were chosen on 20110303 and 20110306; these are days it has not seen.
`benchmarks/consolidation.py` compares all policies on all days.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from statistics import median

import pytest

from opendrs.model import Limits
from opendrs.policies import Consolidate
from opendrs.policies.consolidation.strategy import Detection, Leaving, Placement
from opendrs.sim.consolidation.engine import run
from opendrs.sim.consolidation.journal import Account
from opendrs.sim.consolidation.machines import Machines
from opendrs.sim.consolidation.readers import google, planetlab
from opendrs.sim.consolidation.workload import Workload

BESIDE = Path(__file__).parents[2].parent / "shared"
DATA = Path(os.environ.get("OPENDRS_SHARED", BESIDE)) / "data"
TUNED = ("20110303", "20110306")
DAYS = [
    path.name.split(".")[0]
    for path in sorted((DATA / "planetlab").glob("*.tar.gz"))
    if path.name.split(".")[0] not in TUNED
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

pytestmark = [pytest.mark.shared, pytest.mark.slow]


@cache
def load(day: str) -> Workload:
    return planetlab(DATA / f"planetlab/{day}.tar.gz")


@cache
def ours(day: str) -> Account:
    return run(load(day), Consolidate(), Machines.of(800))


@pytest.mark.parametrize("day", DAYS)
def test_a_day_it_was_not_tuned_on_costs_less_than_with_thr_mmt(day: str) -> None:
    theirs = run(load(day), THR_MMT, Machines.of(800))

    assert ours(day).energy_kwh < 0.9 * theirs.energy_kwh
    assert ours(day).migrations < theirs.migrations / 5
    assert ours(day).slav < theirs.slav / 2


@pytest.mark.skipif(not DAYS, reason="no days that it was not tuned on")
def test_energy_is_near_a_quarter_above_the_least_possible_on_the_median_day() -> None:
    """1.249 times on the six days that were at hand; others may be a little harder."""
    assert median(ours(day).bound_ratio for day in DAYS) < 1.27
    assert max(ours(day).bound_ratio for day in DAYS) < 1.35


@pytest.mark.skipif(not SERIES.exists(), reason="no such series")
def test_memory_that_was_recorded_binds_too() -> None:
    work, policy = google(SERIES), Consolidate()

    account = run(work, policy, Machines.of(800))
    theirs = run(work, THR_MMT, Machines.of(800))

    assert account.guests == 1600
    assert account.bound_ratio < 1.25
    assert account.energy_kwh < theirs.energy_kwh
    assert account.overload_time_fraction < policy.strategy().bound
