"""Consolidation policies side by side in the default simulation model.

    .venv/bin/python benchmarks/runners/consolidation.py
    .venv/bin/python benchmarks/runners/consolidation.py --loads google2011-vms
    .venv/bin/python benchmarks/runners/consolidation.py --loads 20110309 --policies all
    .venv/bin/python benchmarks/runners/consolidation.py --scale 10000 50000

PlanetLab days are read from `data/planetlab/`. The series of the Google trace of 2011,
with CPU and memory, are read from `data/google2011-vms/`. Both are beside the project
or below OPENDRS_SHARED. The policies of CloudSim and OpenStack Neat are settings of
`consolidate` that decide in the same way; cloudsim.py compares with CloudSim itself.
Times are CPU seconds of one run without reading the trace.
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
from opendrs.policies.consolidation import Consolidate
from opendrs.policies.consolidation.settings import (
    DetectorKind,
    EvictionRule,
    PlacementStrategy,
)
from opendrs.simulation.baselines import baseline_policy
from opendrs.simulation.engine import run_simulation
from opendrs.simulation.hardware import HostSpecs
from opendrs.simulation.metrics import SimulationMetrics
from opendrs.simulation.traces import read_google2011, read_planetlab
from opendrs.simulation.workload import SyntheticSettings, Workload, synthetic_workload

BESIDE = Path(__file__).parents[3] / "shared"
DATA = Path(os.environ.get("OPENDRS_SHARED", BESIDE)) / "data"
GOOGLE, SERIES = "google2011-vms", DATA / "google2011-vms" / "GCD_VMs.tar.gz"
HOSTS = 800
NONE, OURS = "none", "consolidate"
DETECTORS = ("thr", "iqr", "mad", "lr", "lrr")
DEFAULT_POLICIES = (
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
        f"{detector}-{selector}"
        for detector in DETECTORS
        for selector in ["mmt", "rs", "mu", "mc"]
    ),
    *(f"neat-{detector}" for detector in (*DETECTORS, "otf", "mhod")),
    OURS,
)


def policy(name: str) -> Consolidate | None:
    """Return the policy *name* with the parameters of the literature."""
    if name in (NONE, OURS):
        return Consolidate() if name == OURS else None
    baseline = baseline_policy(name)
    settings_of_baseline: Mapping[str, Any] = baseline.settings
    settings = {
        **settings_of_baseline,
        "detector": DetectorKind(settings_of_baseline["detector"]),
        "guest_selection": EvictionRule(settings_of_baseline["guest_selection"]),
        "placement": PlacementStrategy(settings_of_baseline["placement"]),
    }
    return Consolidate(**settings, limits=Limits(cooldown=0))


def days() -> list[str]:
    """Return the available PlanetLab days."""
    return sorted(
        path.name.split(".")[0] for path in (DATA / "planetlab").glob("*.tar.gz")
    )


def load(name: str) -> Workload:
    """Return the workload *name*: a day, or the Google series."""
    if name == GOOGLE:
        return read_google2011(SERIES)
    return read_planetlab(DATA / "planetlab" / f"{name}.tar.gz")


def measure(
    work: Workload, name: str, machines: HostSpecs
) -> tuple[SimulationMetrics, float]:
    """Return the metrics of *work* under the policy *name*, and CPU seconds."""
    start = time.process_time()
    metrics = run_simulation(work, policy(name), machines)
    return metrics, time.process_time() - start


def line(day: str, name: str, metrics: SimulationMetrics, cpu: float) -> str:
    """Return a row of the table."""
    return (
        f"| {day} | {name} | {metrics.energy_kwh:.1f} | {metrics.bound_ratio:.3f} "
        f"| {metrics.migrations} | {metrics.migrations_per_guest_day:.1f} "
        f"| {metrics.slatah:.2%} | {metrics.pdm:.4%} | {metrics.slav * 1e5:.3f} "
        f"| {metrics.esv * 1e3:.3f} | {metrics.shortfall:.2%} "
        f"| {metrics.active_hosts:.1f} | {metrics.shutdowns} | {cpu:.2f} |"
    )


def compare(chosen: Sequence[str], policies: Sequence[str]) -> None:
    """Print the table and the medians of each policy."""
    print(
        "| load | policy | kWh | bound ratio | migrations | per guest and day | SLATAH "
        "| PDM | SLAV e-5 | ESV e-3 | shortfall | active hosts | shutdowns | CPU s |"
    )
    print("|---|---|" + "---:|" * 12)
    metrics_of: dict[str, list[SimulationMetrics]] = {}
    for day in chosen:
        work = load(day)
        for name in policies:
            metrics, cpu = measure(work, name, HostSpecs.alternating(HOSTS))
            metrics_of.setdefault(name, []).append(metrics)
            print(line(day, name, metrics, cpu), flush=True)
    print()
    for name, results in metrics_of.items():
        print(
            f"median {name}: {median(a.energy_kwh for a in results):.1f} kWh, "
            f"{median(a.bound_ratio for a in results):.3f} of the bound, "
            f"{median(a.migrations_per_guest_day for a in results):.1f} migrations, "
            f"SLATAH {median(a.slatah for a in results):.2%}, "
            f"PDM {median(a.pdm for a in results):.4%}, "
            f"SLAV {median(a.slav for a in results) * 1e5:.3f}e-5, "
            f"shortfall {median(a.shortfall for a in results):.2%}"
        )


def scale(hosts: int, guests: int) -> None:
    """Print the cost of one day of synthetic guests."""
    work = synthetic_workload(SyntheticSettings(guests=guests))
    start = time.process_time()
    metrics = run_simulation(work, Consolidate(), HostSpecs.alternating(hosts))
    cpu = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(line(f"{hosts} x {guests}", OURS, metrics, cpu))
    print(f"peak {peak:.0f} MiB")


def main() -> None:
    """Print the table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loads", nargs="*", default=days())
    parser.add_argument("--policies", nargs="*", default=DEFAULT_POLICIES)
    parser.add_argument("--scale", nargs=2, type=int, metavar=("HOSTS", "GUESTS"))
    arguments = parser.parse_args()
    if arguments.scale:
        scale(*arguments.scale)
    else:
        compare(
            arguments.loads,
            ALL if arguments.policies == ["all"] else arguments.policies,
        )


if __name__ == "__main__":
    main()
