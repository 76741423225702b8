"""Policies of consolidation side by side, in the default model of simulation.

    .venv/bin/python benchmarks/consolidation.py
    .venv/bin/python benchmarks/consolidation.py --loads google2011-vms
    .venv/bin/python benchmarks/consolidation.py --loads 20110309 --policies all
    .venv/bin/python benchmarks/consolidation.py --scale 10000 50000

Days of PlanetLab are taken from `data/planetlab/`, and the series of Google's trace
of 2011, with CPU and memory, from `data/google2011-vms/`, beside the project or under
OPENDRS_SHARED. The policies of CloudSim and of OpenStack Neat are those settings of
`consolidate` that decide as they do; for the programs themselves see cloudsim.py.
Times are CPU seconds of one run without the reading of the trace.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from opendrs.model import Limits
from opendrs.policies import Consolidate
from opendrs.policies.consolidation.strategy import Detection, Leaving, Placement
from opendrs.sim.consolidation.classics import classic
from opendrs.sim.consolidation.engine import run
from opendrs.sim.consolidation.journal import Account
from opendrs.sim.consolidation.machines import Machines
from opendrs.sim.consolidation.readers import google, planetlab
from opendrs.sim.consolidation.synthetic import Synthetic, synthetic
from opendrs.sim.consolidation.workload import Workload

BESIDE = Path(__file__).parents[2] / "shared"
DATA = Path(os.environ.get("OPENDRS_SHARED", BESIDE)) / "data"
GOOGLE, SERIES = "google2011-vms", DATA / "google2011-vms" / "GCD_VMs.tar.gz"
HOSTS = 800
NONE, OURS = "none", "consolidate"
DETECTORS = ("thr", "iqr", "mad", "lr", "lrr")
USUAL = (
    NONE,
    *(f"{detector}-mmt" for detector in DETECTORS),
    "neat-thr",
    "neat-otf",
    "neat-mhod",
    OURS,
)
ALL = (
    NONE,
    *(
        f"{detector}-{way}"
        for detector in DETECTORS
        for way in ["mmt", "rs", "mu", "mc"]
    ),
    *(f"neat-{detector}" for detector in (*DETECTORS, "otf", "mhod")),
    OURS,
)


def policy(name: str) -> Consolidate | None:
    """Return the policy called *name*, with the parameters of the literature."""
    if name in (NONE, OURS):
        return Consolidate() if name == OURS else None
    found = classic(name)
    chosen: Mapping[str, Any] = found.settings
    settings = {
        **chosen,
        "detector": Detection(chosen["detector"]),
        "selection": Leaving(chosen["selection"]),
        "placement": Placement(chosen["placement"]),
    }
    return Consolidate(**settings, limits=Limits(cooldown=0))


def days() -> list[str]:
    """Return the days there are."""
    return sorted(
        path.name.split(".")[0] for path in (DATA / "planetlab").glob("*.tar.gz")
    )


def load(name: str) -> Workload:
    """Return the load called *name*: a day, or Google's series."""
    if name == GOOGLE:
        return google(SERIES)
    return planetlab(DATA / "planetlab" / f"{name}.tar.gz")


def measured(work: Workload, name: str, machines: Machines) -> tuple[Account, float]:
    """Return what *work* costs under the policy called *name*, and CPU seconds."""
    start = time.process_time()
    found = run(work, policy(name), machines)
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


def compare(chosen: Sequence[str], policies: Sequence[str]) -> None:
    """Print the table, and the medians of each policy."""
    print(
        "| load | policy | kWh | of bound | migrations | a guest and day | SLATAH "
        "| PDM | SLAV e-5 | ESV e-3 | shortfall | active hosts | shutdowns | CPU s |"
    )
    print("|---|---|" + "---:|" * 12)
    found: dict[str, list[Account]] = {}
    for day in chosen:
        work = load(day)
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
            f"PDM {median(a.pdm for a in accounts):.4%}, "
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
    print(line(f"{hosts} x {guests}", OURS, account, cpu))
    print(f"peak {peak:.0f} MiB")


def main() -> None:
    """Print the table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loads", nargs="*", default=days())
    parser.add_argument("--policies", nargs="*", default=USUAL)
    parser.add_argument("--scale", nargs=2, type=int, metavar=("HOSTS", "GUESTS"))
    asked = parser.parse_args()
    if asked.scale:
        scale(*asked.scale)
    else:
        compare(asked.loads, ALL if asked.policies == ["all"] else asked.policies)


if __name__ == "__main__":
    main()
