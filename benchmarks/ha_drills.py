"""Drills of the HA manager: all known scenarios, and clusters of growing size.

    make bench-ha
    .venv/bin/python benchmarks/ha_drills.py --sizes 10x200,100x2000

The scenarios are those in `data/pve-ha/scenarios` and `generated`, beside the
project or under OPENDRS_SHARED, all in one process; times are CPU seconds from
the files to the text of the log.

A grown drill switches a cluster on in which all services are to run, lets a tenth
of the hosts fail, ten at most, each 30 s after the one before, and ends 500 s
after the last. Nodes have 32, 48 or 64 cores, services 1 to 16, drawn with a seed;
services stand on the nodes one after the other, a fifth of the nodes with double
weight. `equal`: all nodes and all services are alike. Each runs in a process of
its own, so that its peak memory is its own.
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

from opendrs.ha.documents import Datacenter, Scheduling, ServiceConfig
from opendrs.ha.identifiers import ServiceId
from opendrs.model import GIB, NodeId, Usage
from opendrs.sim.drill import AT_ONCE, Scenario, hold_drill, read_scenario
from opendrs.sim.drill.actions import SetPower
from opendrs.sim.drill.hosts import Host
from opendrs.sim.drill.parsing import Step
from opendrs.sim.drill.timetable import Appointment, keep_timetable

BESIDE = Path(__file__).parents[2] / "shared"
CASES = Path(os.environ.get("OPENDRS_SHARED", BESIDE)) / "data" / "pve-ha"
SIZES = ((10, 200), (100, 2000), (1000, 20000))
FAILURES = 10  # hosts that fail, at most
FIRST, BETWEEN = 300, 30  # seconds until the first fails, and to the next

MODES = {
    "basic": Scheduling(),
    "static": Scheduling(mode="static", rebalance_on_start=True),
    "dynamic": Scheduling(mode="dynamic", rebalance_on_start=True),
    "bruteforce": Scheduling(mode="dynamic", auto_rebalance=True, threshold=0.05),
    "topsis": Scheduling(
        mode="dynamic", auto_rebalance=True, threshold=0.05, method="topsis"
    ),
}
ALIKE = "equal"


@dataclass(frozen=True, slots=True)
class Size:
    """How large a cluster is."""

    nodes: int
    services: int


@dataclass(frozen=True, slots=True)
class Row:
    """What one drill took: CPU seconds, and MiB."""

    cpu: float
    peak: float
    fenced: int
    recovered: int
    lines: int


def grown(size: Size, mode: str, *, alike: bool) -> Scenario:
    """Return a cluster of that *size* before it is switched on."""
    rng = random.Random(f"{size}")  # noqa: S311
    nodes = [NodeId(f"node{number:05}") for number in range(size.nodes)]
    names = [ServiceId(f"vm:{100 + number}") for number in range(size.services)]
    places = [node for i, node in enumerate(nodes) for _ in range(1 + (i % 5 == 0))]
    limits = {name: Usage(2.0, 4 * GIB) if alike else _limit(rng) for name in names}
    return Scenario(
        hosts={
            node: Host(capacity=_capacity(0 if alike else number))
            for number, node in enumerate(nodes)
        },
        services={
            name: ServiceConfig(node=places[number % len(places)])
            for number, name in enumerate(names)
        },
        batches=(),
        datacenter=Datacenter(MODES[mode]),
        limits=limits,
        usages={
            name: limit if alike else _part(limit, rng)
            for name, limit in limits.items()
        },
        timing=AT_ONCE,
    )


def _capacity(number: int) -> Usage:
    cores = (32, 48, 64)[number % 3]
    return Usage(float(cores), cores * 8 * GIB)


def _limit(rng: random.Random) -> Usage:
    cores = rng.choices((1, 2, 4, 8, 16), (20, 35, 28, 13, 4))[0]
    return Usage(float(cores), cores * rng.choice((1, 2, 4)) * GIB)


def _part(limit: Usage, rng: random.Random) -> Usage:
    share = rng.betavariate(1.2, 2.5)
    return Usage((limit.cpu or 0) * share, int((limit.memory or 0) * share))


def failures(scenario: Scenario) -> list[Appointment]:
    """Return when which host of *scenario* is switched on, and off again."""
    nodes = list(scenario.hosts)
    failing = nodes[:: max(1, len(nodes) // FAILURES)][: max(1, len(nodes) // 10)]
    return [
        *(_power(0, node, on=True) for node in nodes),
        *(
            _power(FIRST + BETWEEN * number, node, on=False)
            for number, node in enumerate(failing[:FAILURES])
        ),
    ]


def _power(at: int, node: NodeId, *, on: bool) -> Appointment:
    text = f"power {node} {'on' if on else 'off'}"
    return Appointment(at, Step(text, "benchmark", SetPower(node, on=on)))


def measure(size: Size, mode: str, *, alike: bool) -> Row:
    """Return what one grown drill takes, in this process."""
    scenario = grown(size, mode, alike=alike)
    start = time.process_time()
    drill = keep_timetable(scenario, failures(scenario))
    log = drill.log()
    cpu = time.process_time() - start
    if drill.failure is not None:
        raise SystemExit(f"{size}, {mode}: {drill.failure}")
    told = Counter(entry.event.name for entry in drill.entries)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    fenced, recovered = told["fencing-acknowledged"], told["recovered"]
    return Row(cpu, peak, fenced, recovered, log.count("\n"))


def known_scenarios() -> str:
    """Return what all scenarios there are take in this process, in a sentence."""
    found = sorted([*CASES.glob("scenarios/*/"), *CASES.glob("generated/*/")])
    if not found:
        return f"no scenarios in {CASES}; set OPENDRS_SHARED"
    start = time.process_time()
    logs = [hold_drill(read_scenario(directory)).log() for directory in found]
    cpu = time.process_time() - start
    same = sum(
        log.encode() == (directory / "log.expect").read_bytes()
        for log, directory in zip(logs, found, strict=True)
    )
    return f"{len(found)} scenarios: {cpu:.2f} s CPU, {same} logs as expected"


def apart(work: Callable[..., Row], *args: object, **named: object) -> Row:
    """Return what *work* gives in a fresh process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(work, *args, **named).result()


def main() -> None:
    """Measure everything and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", help="such as 10x200,100x2000")
    parser.add_argument("--modes", help=f"of {','.join(MODES)}")
    asked = parser.parse_args()
    sizes = SIZES if asked.sizes is None else map(_size, asked.sizes.split(","))
    modes = list(MODES) if asked.modes is None else asked.modes.split(",")
    print(known_scenarios(), end="\n\n")
    print("| nodes x services | drill | CPU | peak | fenced | recovered | lines |")
    print("|---:|---|---:|---:|---:|---:|---:|")
    for nodes, services in sizes:
        _table(Size(nodes, services), modes)


def _table(size: Size, modes: Sequence[str]) -> None:
    for mode, alike in [(m, alike) for m in modes for alike in (False, True)]:
        row = apart(measure, size, mode, alike=alike)
        print(
            f"| {size.nodes:,} x {size.services:,} "
            f"| {mode}{', ' + ALIKE if alike else ''} "
            f"| {row.cpu:.2f} s | {row.peak:.0f} MiB "
            f"| {row.fenced} | {row.recovered:,} | {row.lines:,} |",
            flush=True,
        )


def _size(text: str) -> tuple[int, int]:
    nodes, services = text.split("x")
    return int(nodes), int(services)


if __name__ == "__main__":
    main()
