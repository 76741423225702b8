"""Drills of the HA manager: all recorded scenarios, and clusters of growing size.

    make bench-ha
    .venv/bin/python benchmarks/runners/ha_drills.py --sizes 10x200,100x2000

Recorded scenarios are read from `data/pve-ha/scenarios` and `generated`, beside the
project or below OPENDRS_SHARED. All of them run in one process. Times are CPU seconds
from the files to the text of the log.

A generated drill powers on a cluster in which all services are requested to run. Then a
tenth of the nodes fail, at most ten, one every 30 s. The drill ends 500 s after the
last failure. Nodes have 32, 48 or 64 cores and services 1 to 16, drawn with a fixed
seed. Services are assigned to the nodes in turn; a fifth of the nodes get twice as
many. `equal`: all nodes and all services are alike. Each drill runs in its own process,
so its peak memory is its own.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from opendrs.model import GIB, NodeId, Usage
from opendrs.pve_ha.simulator import (
    INSTANT_TIMING,
    DrillScenario,
    read_scenario,
    run_drill,
)
from opendrs.pve_ha.simulator.actions import SetPower
from opendrs.pve_ha.simulator.cmdlist import CommandStep
from opendrs.pve_ha.simulator.event_schedule import ScheduledEvent, run_schedule
from opendrs.pve_ha.simulator.scenario import SimulatedHost
from opendrs.pve_ha.states import ServiceId
from opendrs.pve_ha.status_files import CrsSettings, DatacenterSettings, ServiceConfig

SHARED_BESIDE_PROJECT = Path(__file__).parents[3] / "shared"
RECORDINGS = (
    Path(os.environ.get("OPENDRS_SHARED", SHARED_BESIDE_PROJECT)) / "data" / "pve-ha"
)
SIZES = ((10, 200), (100, 2000), (1000, 20000))
FAILURES = 10  # most nodes that fail
FIRST, BETWEEN = 300, 30  # seconds until the first failure, and between failures

MODES = {
    "basic": CrsSettings(),
    "static": CrsSettings(mode="static", rebalance_on_start=True),
    "dynamic": CrsSettings(mode="dynamic", rebalance_on_start=True),
    "bruteforce": CrsSettings(mode="dynamic", auto_rebalance=True, threshold=0.05),
    "topsis": CrsSettings(
        mode="dynamic", auto_rebalance=True, threshold=0.05, method="topsis"
    ),
}
EQUAL = "equal"


@dataclass(frozen=True, slots=True)
class ClusterSize:
    """Number of nodes and services of a cluster."""

    nodes: int
    services: int


@dataclass(frozen=True, slots=True)
class DrillMeasurement:
    """Cost and events of one drill: CPU seconds, peak memory in MiB, counts."""

    cpu: float
    peak: float
    fenced: int
    recovered: int
    lines: int


def generate_scenario(size: ClusterSize, mode: str, *, equal: bool) -> DrillScenario:
    """Return a cluster of this *size* before it is powered on."""
    rng = random.Random(f"{size}")  # noqa: S311
    nodes = [NodeId(f"node{number:05}") for number in range(size.nodes)]
    names = [ServiceId(f"vm:{100 + number}") for number in range(size.services)]
    host_of = [node for i, node in enumerate(nodes) for _ in range(1 + (i % 5 == 0))]
    limits = {name: Usage(2.0, 4 * GIB) if equal else _limit(rng) for name in names}
    return DrillScenario(
        hosts={
            node: SimulatedHost(capacity=_capacity(0 if equal else number))
            for number, node in enumerate(nodes)
        },
        services={
            name: ServiceConfig(node=host_of[number % len(host_of)])
            for number, name in enumerate(names)
        },
        batches=(),
        datacenter=DatacenterSettings(MODES[mode]),
        limits=limits,
        usages={
            name: limit if equal else _random_usage(limit, rng)
            for name, limit in limits.items()
        },
        timing=INSTANT_TIMING,
    )


def _capacity(number: int) -> Usage:
    cores = (32, 48, 64)[number % 3]
    return Usage(float(cores), cores * 8 * GIB)


def _limit(rng: random.Random) -> Usage:
    cores = rng.choices((1, 2, 4, 8, 16), (20, 35, 28, 13, 4))[0]
    return Usage(float(cores), cores * rng.choice((1, 2, 4)) * GIB)


def _random_usage(limit: Usage, rng: random.Random) -> Usage:
    fraction = rng.betavariate(1.2, 2.5)
    return Usage((limit.cpu or 0) * fraction, int((limit.memory or 0) * fraction))


def schedule_failures(scenario: DrillScenario) -> list[ScheduledEvent]:
    """Return the schedule of power events of *scenario*."""
    nodes = list(scenario.hosts)
    failing = nodes[:: max(1, len(nodes) // FAILURES)][: max(1, len(nodes) // 10)]
    return [
        *(_power(0, node, on=True) for node in nodes),
        *(
            _power(FIRST + BETWEEN * number, node, on=False)
            for number, node in enumerate(failing[:FAILURES])
        ),
    ]


def _power(at: int, node: NodeId, *, on: bool) -> ScheduledEvent:
    text = f"power {node} {'on' if on else 'off'}"
    return ScheduledEvent(at, CommandStep(text, "benchmark", SetPower(node, on=on)))


def measure(size: ClusterSize, mode: str, *, equal: bool) -> DrillMeasurement:
    """Run one generated drill in this process and measure it."""
    scenario = generate_scenario(size, mode, equal=equal)
    start = time.process_time()
    drill = run_schedule(scenario, schedule_failures(scenario))
    log = drill.log()
    cpu = time.process_time() - start
    if drill.failure is not None:
        raise SystemExit(f"{size}, {mode}: {drill.failure}")
    event_counts = Counter(entry.event.name for entry in drill.entries)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    fenced, recovered = (
        event_counts["fencing-acknowledged"],
        event_counts["service-recovered"],
    )
    return DrillMeasurement(cpu, peak, fenced, recovered, log.count("\n"))


def measure_recorded_scenarios() -> str:
    """Run all recorded scenarios in this process; return a summary."""
    directories = sorted(
        [*RECORDINGS.glob("scenarios/*/"), *RECORDINGS.glob("generated/*/")]
    )
    if not directories:
        return f"no scenarios in {RECORDINGS}; set OPENDRS_SHARED"
    start = time.process_time()
    logs = [run_drill(read_scenario(directory)).log() for directory in directories]
    cpu = time.process_time() - start
    equal_logs = sum(
        log.encode() == (directory / "log.expect").read_bytes()
        for log, directory in zip(logs, directories, strict=True)
    )
    return (
        f"{len(directories)} scenarios: {cpu:.2f} s CPU, {equal_logs} logs as expected"
    )


def in_fresh_process(
    work: Callable[..., DrillMeasurement], *args: object, **named: object
) -> DrillMeasurement:
    """Return the result of *work* in a new process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(work, *args, **named).result()


def main() -> None:
    """Measure everything and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", help="such as 10x200,100x2000")
    parser.add_argument("--modes", help=f"of {','.join(MODES)}")
    options = parser.parse_args()
    sizes = (
        SIZES if options.sizes is None else map(_parse_size, options.sizes.split(","))
    )
    modes = list(MODES) if options.modes is None else options.modes.split(",")
    print(measure_recorded_scenarios(), end="\n\n")
    print("| nodes x services | drill | CPU | peak | fenced | recovered | lines |")
    print("|---:|---|---:|---:|---:|---:|---:|")
    for nodes, services in sizes:
        _table(ClusterSize(nodes, services), modes)


def _table(size: ClusterSize, modes: Sequence[str]) -> None:
    for mode, equal in [(m, equal) for m in modes for equal in (False, True)]:
        row = in_fresh_process(measure, size, mode, equal=equal)
        print(
            f"| {size.nodes:,} x {size.services:,} "
            f"| {mode}{', ' + EQUAL if equal else ''} "
            f"| {row.cpu:.2f} s | {row.peak:.0f} MiB "
            f"| {row.fenced} | {row.recovered:,} | {row.lines:,} |",
            flush=True,
        )


def _parse_size(text: str) -> tuple[int, int]:
    nodes, services = text.split("x")
    return int(nodes), int(services)


if __name__ == "__main__":
    main()
