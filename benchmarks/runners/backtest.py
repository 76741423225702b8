"""Backtest of a recorded month under all policies.

    .venv/bin/python benchmarks/runners/backtest.py
    .venv/bin/python benchmarks/runners/backtest.py --days 7 --interval 300
    .venv/bin/python benchmarks/runners/backtest.py -o month.jsonl --plot month.svg

The month is drawn from shared data: the cluster of `clusters/c10x200.rules.json`, with
its rules and its placement, and the series of `google2011-vms/`. A guest has the memory
of one series on each day, and the CPU of another series on each day, as fractions of
its limits. CPU is scaled so that the mean load of the nodes is `--load`. All draws are
seeded. The data are beside the project or below OPENDRS_SHARED.

The history is written first. Times are those of `opendrs backtest` on it, including
reading.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from opendrs.cli.main import run
from opendrs.config import json_line, read_snapshot
from opendrs.model import GuestId, Resources, Snapshot, Usage
from opendrs.simulation.traces import read_google2011

BESIDE = Path(__file__).parents[3] / "shared"
DATA = Path(os.environ.get("OPENDRS_SHARED", BESIDE)) / "data"
CLUSTER = DATA / "clusters" / "c10x200.rules.json"
SERIES = DATA / "google2011-vms" / "GCD_VMs.tar.gz"
START = datetime(2026, 10, 1, tzinfo=UTC)
SAMPLE, DAY = 300, 86_400  # seconds
HOST_CPU, HOST_MEMORY = 0.01, 0.02  # used by a node itself, of its capacity


def recorded_month(
    days: int, interval: int, load: float, seed: int
) -> Iterator[Snapshot]:
    """Yield the snapshots of the record, in the order of time.

    Args:
        days: Number of days.
        interval: Seconds between snapshots, a multiple of 300.
        load: Mean CPU load of the nodes.
        seed: Seed of all draws.
    """
    rng = np.random.default_rng(seed)
    base = read_snapshot(CLUSTER)
    guests = sorted(base.guests)
    series = read_google2011(SERIES)
    if series.memory is None:
        raise SystemExit(f"{SERIES}: no memory series")
    stride = interval // SAMPLE
    per_day = DAY // interval
    shape = (len(series.names), per_day, stride)
    cpu = series.cpu[:, : per_day * stride].reshape(shape).mean(axis=2)
    memory = series.memory[:, : per_day * stride].reshape(shape).mean(axis=2)
    memory_of = rng.integers(len(cpu), size=len(guests))
    drawn = rng.integers(len(cpu), size=(days, len(guests)))
    limits = [base.guests[name].limit or Resources(1, 1 << 30) for name in guests]
    cores = np.array([limit.cpu for limit in limits])
    capacity = sum(node.capacity.cpu for node in base.nodes.values() if node.capacity)
    mean = float((cpu[drawn].mean(axis=(0, 2)) * cores).sum()) / capacity
    scale = load / mean
    for day in range(days):
        for sample in range(per_day):
            used_cpu = np.minimum(cpu[drawn[day], sample] * scale, 1.0)
            used_memory = memory[memory_of, sample]
            usage = {
                name: Usage(
                    round(float(part * limit.cpu), 3),
                    int(fraction * limit.memory),
                )
                for name, limit, part, fraction in zip(
                    guests, limits, used_cpu, used_memory, strict=True
                )
            }
            taken_at = START + timedelta(seconds=day * DAY + sample * interval)
            yield _measured(base, usage, taken_at)


def _measured(
    base: Snapshot, usage: dict[GuestId, Usage], taken_at: datetime
) -> Snapshot:
    """Return *base* with the usage of its guests, and of its nodes as their sum.

    A node may demand more cores than it has: the series are demand.
    """
    cpu = dict.fromkeys(base.nodes, 0.0)
    memory = dict.fromkeys(base.nodes, 0)
    guests = {}
    for guest in base.guests.values():
        used = usage[guest.id]
        guests[guest.id] = replace(guest, usage=used)
        if guest.is_active:
            cpu[guest.node] += used.cpu or 0.0
            memory[guest.node] += used.memory or 0
    nodes = {}
    for node in base.nodes.values():
        total = node.capacity or Resources(1, 1)
        measured = Usage(
            cpu[node.id] + HOST_CPU * total.cpu,
            memory[node.id] + int(HOST_MEMORY * total.memory),
        )
        nodes[node.id] = replace(node, usage=measured)
    return replace(base, taken_at=taken_at, nodes=nodes, guests=guests)


def main() -> None:
    """Write the record, and measure the backtest of it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--interval", type=int, default=900)
    parser.add_argument("--load", type=float, default=0.6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--plot", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        path = arguments.output or Path(directory) / "month.jsonl"
        months = recorded_month(
            arguments.days, arguments.interval, arguments.load, arguments.seed
        )
        with path.open("w") as file:
            for snapshot in months:
                file.write(f"{json_line(snapshot)}\n")
        print(f"history: {path.stat().st_size / 2**20:.0f} MiB")
        plot = [] if arguments.plot is None else ["--plot", str(arguments.plot)]
        started_at, cpu = time.monotonic(), time.process_time()
        run(["backtest", str(path), *plot])
    print(
        f"backtest: {time.monotonic() - started_at:.0f} s, "
        f"{time.process_time() - cpu:.0f} CPU s, "
        f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB"
    )


if __name__ == "__main__":
    main()
