"""Policies of consolidation side by side, in the default model of simulation.

    .venv/bin/python benchmarks/consolidation.py
    .venv/bin/python benchmarks/consolidation.py --days 20110303 --policies default
    .venv/bin/python benchmarks/consolidation.py --scale 10000 50000

Days of PlanetLab are taken from `data/planetlab/` beside the project or under
OPENDRS_SHARED. The policies of CloudSim and of OpenStack Neat are those settings of
`consolidate` that decide as they do; for the programs themselves see cloudsim.py.
Times are CPU seconds of one run without the reading of the trace.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from types import MappingProxyType

from opendrs.model import Limits
from opendrs.policies import Consolidate
from opendrs.policies.consolidation.strategy import Detection, Leaving, Placement
from opendrs.sim.consolidation.engine import run
from opendrs.sim.consolidation.journal import Account
from opendrs.sim.consolidation.machines import Machines
from opendrs.sim.consolidation.readers import planetlab
from opendrs.sim.consolidation.synthetic import Synthetic, synthetic
from opendrs.sim.consolidation.workload import Workload

BESIDE = Path(__file__).parents[2] / "shared"
DATA = Path(os.environ.get("OPENDRS_SHARED", BESIDE)) / "data"
HOSTS = 800
MANY = 10_000


def classic(detector: Detection, parameter: float, placement: Placement) -> Consolidate:
    """Return a policy that decides on what was last seen, as often as it likes."""
    neat = placement is Placement.BEST_FIT
    ways = (Leaving.MINIMUM_MIGRATION_TIME, Leaving.MINIMUM_MIGRATION_TIME_MAXIMUM_CPU)
    return Consolidate(
        detector=detector,
        parameter=parameter,
        selection=ways[neat],
        placement=placement,
        target=0.8,
        relief=0.8,
        underload=0.5 if neat else 1.0,
        full=1.0,
        bound=0.1 if detector is Detection.MHOD else 1.0,
        last_n=2 if neat else 1,
        history=100 if detector is Detection.MHOD else 30,
        attempts=MANY,
        emptied=MANY,
        limits=Limits(cooldown=0),
    )


POLICIES: Mapping[str, Consolidate | None] = MappingProxyType(
    {
        "none": None,
        "thr-mmt 0.8": classic(Detection.THRESHOLD, 0.8, Placement.POWER_AWARE),
        "iqr-mmt 1.5": classic(Detection.IQR, 1.5, Placement.POWER_AWARE),
        "mad-mmt 2.5": classic(Detection.MAD, 2.5, Placement.POWER_AWARE),
        "lr-mmt 1.2": classic(Detection.LR, 1.2, Placement.POWER_AWARE),
        "lrr-mmt 1.2": classic(Detection.LRR, 1.2, Placement.POWER_AWARE),
        "neat thr 0.8": classic(Detection.THRESHOLD, 0.8, Placement.BEST_FIT),
        "neat mhod 0.1": classic(Detection.MHOD, 0.8, Placement.BEST_FIT),
        "consolidate": Consolidate(),
        "consolidate, dense": Consolidate(
            parameter=0.95,
            target=0.85,
            relief=0.9,
            underload=1.0,
            bound=1.0,
            attempts=1,
        ),
    }
)


def days() -> list[str]:
    """Return the days there are."""
    return sorted(
        path.name.split(".")[0] for path in (DATA / "planetlab").glob("*.tar.gz")
    )


def measured(work: Workload, name: str, machines: Machines) -> tuple[Account, float]:
    """Return what *work* costs under the policy called *name*, and CPU seconds."""
    start = time.process_time()
    found = run(work, POLICIES[name], machines)
    return found, time.process_time() - start


def line(day: str, name: str, found: Account, cpu: float) -> str:
    """Return a row of the table."""
    return (
        f"| {day} | {name} | {found.energy_kwh:.1f} | {found.bound_ratio:.3f} "
        f"| {found.migrations} | {found.migrations_per_guest_day:.1f} "
        f"| {found.slatah:.2%} | {found.pdm:.4%} | {found.slav * 1e5:.3f} "
        f"| {found.esv * 1e3:.3f} | {found.shortfall:.2%} | {found.active_hosts:.1f} "
        f"| {found.shutdowns} | {cpu:.2f} |"
    )


def compare(chosen: list[str], policies: list[str]) -> None:
    """Print the table, and the medians of each policy."""
    print(
        "| day | policy | kWh | of bound | migrations | a guest and day | SLATAH "
        "| PDM | SLAV e-5 | ESV e-3 | shortfall | active hosts | shutdowns | CPU s |"
    )
    print("|---|---|" + "---:|" * 12)
    found: dict[str, list[Account]] = {}
    for day in chosen:
        work = planetlab(DATA / "planetlab" / f"{day}.tar.gz")
        for name in policies:
            account, cpu = measured(work, name, Machines.of(HOSTS))
            found.setdefault(name, []).append(account)
            print(line(day, name, account, cpu), flush=True)
    print()
    for name, accounts in found.items():
        print(
            f"median {name}: {median(a.energy_kwh for a in accounts):.1f} kWh, "
            f"{median(a.bound_ratio for a in accounts):.3f} of the bound, "
            f"{median(a.migrations_per_guest_day for a in accounts):.1f} migrations, "
            f"SLATAH {median(a.slatah for a in accounts):.2%}, "
            f"SLAV {median(a.slav for a in accounts) * 1e5:.3f}e-5, "
            f"shortfall {median(a.shortfall for a in accounts):.2%}"
        )


def scale(hosts: int, guests: int) -> None:
    """Print what a day of so many synthetic guests takes."""
    work = synthetic(Synthetic(guests=guests))
    start = time.process_time()
    account = run(work, Consolidate(), Machines.of(hosts))
    cpu = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(line(f"{hosts} x {guests}", "consolidate", account, cpu))
    print(f"peak {peak:.0f} MiB")


def main() -> None:
    """Print the table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", nargs="*", default=days())
    parser.add_argument("--policies", nargs="*", default=list(POLICIES))
    parser.add_argument("--scale", nargs=2, type=int, metavar=("HOSTS", "GUESTS"))
    asked = parser.parse_args()
    if asked.scale:
        scale(*asked.scale)
    else:
        compare(asked.days, asked.policies)


if __name__ == "__main__":
    main()
