"""Growth of the store and cost of a record, at 1,000 nodes and 20,000 guests.

    .venv/bin/python benchmarks/runners/record_growth.py
    .venv/bin/python benchmarks/runners/record_growth.py --cycles 120 --input-cycles 60

One cycle per minute is recorded in an SQLite file. In each, the CPU load of all guests
changes (log-normal, 30 %, 52 random bits), the memory of all guests changes (0.2 % in
pages of 4 KiB), the uptime grows, and 5 guests are on another node. The load of a node
is the sum of its guests. Real load changes less between two minutes, so the figures are
upper bounds for clusters of this kind. The decision is that of `balance`, without its
memory, so that each cycle has a plan. Its time is not included.

Then the file gets the entries of 30 days: 43,200 cycles with decisions, 100 moves a
day. Reading the history is measured on it, and whole commands, with the start of the
program: what an operator waits for.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import insert, select

from opendrs.cli.platform_store import OWNER_KEY
from opendrs.config import snapshot_from
from opendrs.controller.serialization import cycle_record
from opendrs.policies import Balance
from opendrs.ports import HistoryFilter
from opendrs.store import Access, History, Retention, SqliteStore
from opendrs.store.tables import CYCLE_PARTS, CYCLES, STEPS

NODES, GUESTS = 1_000, 20_000
POLICY = Balance()
START = datetime(2026, 1, 1, tzinfo=UTC)
CYCLES_OF_MONTH, MOVES_OF_MONTH = 43_200, 3_000
PAGE = 4096
PLATFORM = "lab"
CONFIGURATION = f"""
[platform.{PLATFORM}]
kind = "incus"
socket = "/run/incus.socket"

[store]
path = "store.sqlite"
"""
COMMANDS = (
    ("history", PLATFORM),
    ("history", PLATFORM, "--plans", "--since", "7 d"),
    ("history", PLATFORM, "--moves", "--guest", "vm000014"),
    ("history", PLATFORM, "--cycles", "--node", "n00002"),
    ("explain", PLATFORM),
    ("explain", PLATFORM, "vm000014"),
    ("explain", PLATFORM, "n00002"),
)  # fmt: skip
Json = dict[str, Any]


class Cluster:
    """A cluster in which the load of all guests changes."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(1)
        self.mean = self.random.lognormal(-0.7, 0.8, GUESTS)
        self.memory = self.random.integers(2**28, 2**35, GUESTS)
        self.node_of = self.random.integers(0, NODES, GUESTS)

    def snapshot(self, minute: int) -> Json:
        """Return the snapshot of a minute as plain values."""
        random = self.random
        moved = random.integers(0, GUESTS, 5)
        self.node_of[moved] = random.integers(0, NODES, 5)
        cpu = self.mean * np.exp(0.3 * random.standard_normal(GUESTS))
        share = 0.8 + 0.002 * random.standard_normal(GUESTS)
        memory = (self.memory * share).astype(np.int64) // PAGE * PAGE
        node_cpu = np.bincount(self.node_of, cpu, NODES)
        node_memory = np.bincount(self.node_of, memory, NODES)
        guests = {
            f"vm{i:06}": {
                "node": f"n{self.node_of[i]:05}",
                "kind": "vm",
                "state": "running",
                "limit": {"cpu": 4, "memory": int(self.memory[i])},
                "usage": {"cpu": float(cpu[i]), "memory": int(memory[i])},
                "uptime": 1_000 + i + 60 * minute,
                "mobility": "live",
                "ha_managed": False,
            }
            for i in range(GUESTS)
        }
        nodes = {
            f"n{i:05}": {
                "capacity": {"cpu": 64, "memory": 2**39},
                "usage": {"cpu": float(node_cpu[i]), "memory": int(node_memory[i])},
                "state": "online",
                "architecture": "x86_64",
            }
            for i in range(NODES)
        }
        rules = [
            {"kind": "anti-affinity", "guests": [f"vm{i:06}", f"vm{i + 1:06}"]}
            for i in range(0, 4_000, 2)
        ]
        taken_at = (START + timedelta(minutes=minute)).isoformat()
        head = {"format": "opendrs-snapshot/1", "taken_at": taken_at}
        return head | {"nodes": nodes, "guests": guests, "rules": rules}


def record(store: SqliteStore, cluster: Cluster, minute: int) -> float:
    """Record one cycle; return its CPU seconds."""
    decided_at = START + timedelta(minutes=minute)
    snapshot = snapshot_from(cluster.snapshot(minute), f"minute {minute}")
    decision = POLICY.decide(snapshot, None)
    cycle = cycle_record(
        f"run {minute}",
        decided_at,
        snapshot,
        policy=POLICY,
        memory=None,
        decision=decision,
    )
    before = time.process_time()
    store.record_cycle(cycle)
    return time.process_time() - before


def add_month(store: SqliteStore) -> None:
    """Add the cycles and moves of the days before, with decisions as recorded."""
    with store.transaction() as connection:
        query = select(CYCLE_PARTS.c.content).where(CYCLE_PARTS.c.part == "decision")
        content = connection.scalar(query.limit(1))
        cycles, parts, steps = [], [], []
        for i in range(1, CYCLES_OF_MONTH):
            decided_at = START - timedelta(minutes=i)
            columns = {"policy": "balance", "reason": "improves-balance"}
            columns |= {"detail": "the plan improves the balance", "run": f"old {i}"}
            cycles.append(
                {"id": -i, "decided_at": decided_at, "steps": 100, "inputs": "dropped"}
                | columns
            )
            parts.append({"cycle": -i, "part": "decision", "content": content})
            if i % (CYCLES_OF_MONTH // MOVES_OF_MONTH) == 0:
                action = '{"kind": "live-migration", "guest": "vm1", '
                action += '"source": "n1", "target": "n2"}'
                steps.append(
                    {
                        "run": f"old {i}",
                        "step": "s1",
                        "action": action,
                        "intended_at": decided_at,
                        "ended_at": decided_at + timedelta(seconds=30),
                        "outcome": "done",
                        "task": "task",
                        "detail": "",
                        "guest": f"vm{i % GUESTS:06}",
                        "source": "n1",
                        "target": "n2",
                    }
                )
        connection.execute(insert(CYCLES), cycles)
        connection.execute(insert(CYCLE_PARTS), parts)
        connection.execute(insert(STEPS), steps)


def measure(name: str, read: Callable[[], object]) -> None:
    """Print the seconds that *read* takes."""
    wall, cpu = time.perf_counter(), time.process_time()
    read()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(f"{name}: {wall:.2f} s wall, {cpu:.2f} s CPU")


def measure_commands(folder: Path) -> None:
    """Print the seconds of each command that reads the record in *folder*."""
    (folder / "opendrs.toml").write_text(CONFIGURATION)
    for command in COMMANDS:
        before, wall = os.times(), time.perf_counter()
        subprocess.run(  # noqa: S603 - commands of this file
            [sys.executable, "-m", "opendrs", *command],
            cwd=folder,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        after, wall = os.times(), time.perf_counter() - wall
        cpu = sum(after[2:4]) - sum(before[2:4])
        print(f"opendrs {' '.join(command)}: {wall:.2f} s wall, {cpu:.2f} s CPU")


def size(path: Path) -> int:
    """Return the bytes of the file with its log of changes."""
    return sum(each.stat().st_size for each in path.parent.glob(path.name + "*"))


def main() -> None:
    """Record cycles, and print the measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=90)
    parser.add_argument("--input-cycles", type=int, default=30)
    arguments = parser.parse_args()
    cluster, seconds = Cluster(), []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.sqlite"
        retention = Retention(input_cycles=arguments.input_cycles)
        with SqliteStore(path, retention=retention) as store:
            sizes = []
            for minute in range(arguments.cycles):
                seconds.append(record(store, cluster, minute))
                sizes.append(_content(store))
            full, window = sizes[0], arguments.input_cycles
            exact = (sizes[window - 1] - full) / (window - 1)
            reduced = (sizes[-1] - sizes[window]) / (arguments.cycles - window - 1)
            print(f"base: {full / 1e6:.2f} MB; cycle with inputs: {exact / 1e3:.0f} kB")
            print(f"each cycle beyond the window: {reduced / 1e3:.1f} kB net")
            day = 1440 * reduced + 24 * exact + full
            first = 360 * exact + 1080 * reduced + 18 * exact + full
            print(f"a day, 360 cycles with inputs: {day / 1e6:.0f} MB")
            print(f"the first day: {first / 1e6:.0f} MB")
            middle = sorted(seconds)[len(seconds) // 2]
            print(f"record_cycle: {middle:.2f} s CPU, at most {max(seconds):.2f} s")
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(f"peak memory: {peak:.0f} MiB (with the generator)")
            add_month(store)
            store.save(OWNER_KEY, {"name": PLATFORM})
            print(f"file with {CYCLES_OF_MONTH} more cycles: {size(path) / 1e6:.0f} MB")
        with SqliteStore(path, Access.READ) as store:
            history = History(store)
            anything = HistoryFilter()
            measure("30 cycles", lambda: _first(history.cycles(anything), 30))
            measure("20 steps", lambda: history.steps(anything, 20))
            guest = HistoryFilter(guest="vm000014")
            measure("steps of a guest", lambda: history.steps(guest, 20))
            measure(
                "steps of a node", lambda: history.steps(HistoryFilter(node="n2"), 20)
            )
            rare = HistoryFilter(guest="none")
            measure("plans of a guest, all", lambda: list(history.cycles(rare)))
            newest = history.newest(START + timedelta(minutes=arguments.cycles))
            if newest is not None:
                measure("record of one cycle", lambda: history.record(newest))
        measure_commands(path.parent)


def _first(entries: Any, count: int) -> list[Any]:  # noqa: ANN401
    return [each for each, _ in zip(entries, range(count), strict=False)]


def _content(store: SqliteStore) -> int:
    """Return the bytes of all parts."""
    query = "SELECT sum(length(content)) FROM cycle_parts"
    with store.reading() as connection:
        return int(connection.exec_driver_sql(query).scalar_one())


if __name__ == "__main__":
    main()
