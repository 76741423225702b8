"""CPU time of the documents that the HTTP API makes from recorded cycles.

    .venv/bin/python benchmarks/runners/recorded_views.py
    .venv/bin/python benchmarks/runners/recorded_views.py --nodes 100 --guests 2000

Some cycles of a cluster are recorded in an SQLite file, with 2,000 anti-affinity rules
at most. Printed is the CPU time of each document, first without and then with what the
server keeps.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from opendrs.api.recorded_clusters import RecordedClusters
from opendrs.controller.serialization import cycle_record
from opendrs.controller.views.cluster_columns import cluster_columns
from opendrs.controller.views.history_entries import recorded_cluster
from opendrs.controller.views.load_points import cluster_series
from opendrs.controller.views.subjects import guest_page, node_page
from opendrs.model import (
    GIB,
    AntiAffinity,
    Guest,
    GuestId,
    GuestKind,
    GuestState,
    Node,
    NodeId,
    NodeState,
    Resources,
    Snapshot,
    Usage,
)
from opendrs.policies import Balance, Decision, DecisionReason
from opendrs.ports import HistoryFilter
from opendrs.store import Access, History, SqliteStore

START = datetime(2026, 1, 1, tzinfo=UTC)
MAX_RULES = 2_000


def snapshot(nodes: int, guests: int, draw: random.Random) -> Snapshot:
    """Return a cluster with random loads."""
    capacity, limit = Resources(64, 512 * GIB), Resources(4, 16 * GIB)
    rules = (
        AntiAffinity(guests=frozenset((GuestId(f"g{i}"), GuestId(f"g{i + 1}"))))
        for i in range(0, min(guests - 1, 2 * MAX_RULES), 2)
    )
    return Snapshot(
        taken_at=START,
        nodes={
            NodeId(f"n{i}"): Node(
                id=NodeId(f"n{i}"),
                capacity=capacity,
                usage=Usage(64 * draw.random(), int(512 * GIB * draw.random())),
                state=NodeState.ONLINE,
            )
            for i in range(nodes)
        },
        guests={
            GuestId(f"g{i}"): Guest(
                id=GuestId(f"g{i}"),
                node=NodeId(f"n{i % nodes}"),
                kind=GuestKind.VM,
                state=GuestState.RUNNING,
                limit=limit,
                usage=Usage(4 * draw.random(), int(16 * GIB * draw.random())),
            )
            for i in range(guests)
        },
        rules=tuple(rules),
    )


def record(store: SqliteStore, origin: Snapshot, count: int) -> None:
    """Record *count* cycles, in each of which the CPU load of all guests changes."""
    draw = random.Random(2)  # noqa: S311 - loads
    for number in range(count):
        at = START + timedelta(minutes=number)
        guests = {
            name: replace(guest, usage=Usage(4 * draw.random(), guest.usage.memory))
            for name, guest in origin.guests.items()
        }
        cycle = cycle_record(
            f"run {number}",
            at,
            replace(origin, taken_at=at, guests=guests),
            policy=Balance(),
            memory=None,
            decision=Decision(DecisionReason.BALANCED, None),
        )
        store.record_cycle(cycle)


def measure(name: str, make: Callable[[], object]) -> None:
    """Print the CPU time of *make*, twice."""
    seconds = []
    for _ in range(2):
        before = time.process_time()
        make()
        seconds.append(time.process_time() - before)
    print(f"{name:28} {seconds[0]:7.3f} s, again {seconds[1]:7.3f} s")


def measure_all(history: History) -> None:
    """Print the CPU time of each document."""
    clusters, newest = RecordedClusters(lambda: 0.0), history.newest()
    assert newest is not None  # noqa: S101 - just recorded
    cycles = list(history.cycles(HistoryFilter()))
    measure("read a record", lambda: history.record(newest))
    found = clusters.cluster(history, newest)
    assert found is not None  # noqa: S101 - just recorded
    cycle = found.cycle
    measure("columns of /state", lambda: cluster_columns(cycle.document))
    measure("/history/cycles/RUN", lambda: recorded_cluster(history, newest, cycle))
    measure("/rules", lambda: found.rules)
    measure("/reasons", lambda: found.reasons)
    measure("page of a node", lambda: node_page(cycle, "n1", found.rules))
    measure("page of a guest", lambda: guest_page(cycle, "g1", found.rules))
    measure(
        f"/history/series, {len(cycles)} points",
        lambda: cluster_series(clusters.loads(history, cycles).points),
    )


def main() -> None:
    """Record cycles, and measure the documents."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--guests", type=int, default=20_000)
    parser.add_argument("--cycles", type=int, default=6)
    options = parser.parse_args()
    draw = random.Random(1)  # noqa: S311 - loads
    origin = snapshot(options.nodes, options.guests, draw)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lab.sqlite"
        with SqliteStore(path, Access.CONTROL) as store:
            record(store, origin, options.cycles)
        with SqliteStore(path, Access.READ) as store:
            measure_all(History(store))


if __name__ == "__main__":
    main()
