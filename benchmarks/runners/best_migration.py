"""Selection of the best single migration: arrays against the plain form.

    make bench
    .venv/bin/python benchmarks/runners/best_migration.py --sizes 10x200,100x2000

Clusters are drawn with a fixed seed: nodes of 32, 48 or 64 cores, a fifth of them
highly loaded, a fifth lightly; every guest may run on every node. Each size runs in its
own process, so its peak memory is its own. The plain form builds the result of each
candidate migration. If that would take hours, it evaluates a sample, and the time for
all is extrapolated and marked with ~.
"""

from __future__ import annotations

import argparse
import random
import resource
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from multiprocessing import get_context
from typing import TypeVar

from opendrs.arrays import (
    MobilityFilter,
    SelectionState,
    best_by_imbalance,
    best_by_topsis,
)
from opendrs.metrics import ImbalanceMetric, LoadModel, SingleMove, imbalance_after
from opendrs.model import (
    DEFAULT_LIMITS,
    GIB,
    Guest,
    GuestId,
    GuestKind,
    GuestState,
    Mobility,
    Node,
    NodeId,
    NodeState,
    Resources,
    Snapshot,
    Usage,
)

SIZES = ((10, 200), (100, 2000), (1000, 20000))
FEW = 200_000  # candidates up to which the plain form evaluates all
SAMPLE = 4000  # candidates that it evaluates otherwise
FORM = ImbalanceMetric.NORMALIZED_CV

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class Row:
    """Measurements of one size; times in CPU seconds, memory in MiB."""

    nodes: int
    guests: int
    candidates: int
    compiling: float
    choosing: float
    topsis: float
    plain: float
    sampled: bool
    peak: float


def draw(nodes: int, guests: int, seed: int) -> Snapshot:
    """Return a generated cluster with highly and lightly loaded nodes."""
    rng = random.Random(f"{seed}:{nodes}:{guests}")  # noqa: S311
    names = [NodeId(f"n{index:05}") for index in range(nodes)]
    capacity = {
        name: Resources((32, 48, 64)[i % 3], (32, 48, 64)[i % 3] * 8 * GIB)
        for i, name in enumerate(names)
    }
    pull = [{0: 2.0, 4: 0.35}.get(i % 5, 1.0) for i in range(nodes)]
    made = [
        _guest(index, where, rng)
        for index, where in enumerate(rng.choices(names, pull, k=guests))
    ]
    used = dict.fromkeys(names, Resources(0, 0))
    for guest in made:
        used[guest.node] = used[guest.node].plus(
            guest.usage.resources or Resources(0, 0)
        )
    return Snapshot(
        taken_at=datetime(2026, 1, 1, tzinfo=UTC),
        nodes={
            name: Node(
                id=name,
                capacity=capacity[name],
                usage=Usage.of(used[name]),
                state=NodeState.ONLINE,
            )
            for name in names
        },
        guests={guest.id: guest for guest in made},
    )


def _guest(index: int, where: NodeId, rng: random.Random) -> Guest:
    cores = rng.choices((1, 2, 4, 8, 16), (20, 35, 28, 13, 4))[0]
    memory = int(cores * rng.choice((1, 2, 4)) * rng.uniform(0.8, 1.2) * GIB)
    return Guest(
        id=GuestId(f"vm{index:06}"),
        node=where,
        kind=GuestKind.VM,
        state=GuestState.RUNNING,
        limit=Resources(cores, memory),
        usage=Usage(round(cores * rng.betavariate(1.2, 2.5), 3), memory),
        mobility=Mobility.LIVE,
    )


def measure(size: tuple[int, int]) -> Row:
    """Measure one size in this process."""
    nodes, guests = size
    snapshot = draw(nodes, guests, seed=1)
    selection = MobilityFilter(load_model=LoadModel.DYNAMIC, allow_cold_migration=False)
    board, compiling = _timed(
        lambda: SelectionState(snapshot, DEFAULT_LIMITS, selection)
    )
    best, choosing = _timed(lambda: best_by_imbalance(board.arrays, FORM))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    _, topsis = _timed(lambda: best_by_topsis(board.arrays, FORM))
    total = guests * (nodes - 1)
    sampled = total > FEW
    candidates = list(islice(_candidates(board), SAMPLE if sampled else total))
    scored, plain = _timed(
        lambda: [imbalance_after(board.cluster.loads, c, FORM) for c in candidates]
    )
    if best is None or (not sampled and min(scored) != best.imbalance):
        raise SystemExit(f"{nodes} x {guests}: the plain form selects another move")
    factor = total / SAMPLE if sampled else 1.0
    return Row(
        nodes, guests, total, compiling, choosing, topsis, plain * factor, sampled, peak
    )


def _candidates(board: SelectionState) -> Iterator[SingleMove[GuestId, NodeId]]:
    for leader, unit in board.move_groups.movable.items():
        usage = unit[0].usage.resources
        for target in board.cluster.loads:
            if target != unit[0].node and usage is not None:
                yield SingleMove(leader, (usage,), unit[0].node, target)


def _timed(work: Callable[[], ResultT]) -> tuple[ResultT, float]:
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


def _size(text: str) -> tuple[int, int]:
    nodes, guests = text.split("x")
    return int(nodes), int(guests)


def main() -> None:
    """Measure each size in a fresh process and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", help="such as 10x200,100x2000")
    options = parser.parse_args().sizes
    sizes = SIZES if options is None else [_size(each) for each in options.split(",")]
    print(
        "| nodes x guests | candidates | compile | select | select, TOPSIS "
        "| plain form | plain / arrays | peak |"
    )
    print("|---:|---:|---:|---:|---:|---:|---:|---:|")
    for size in sizes:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            row = pool.submit(measure, size).result()
        about = "~" if row.sampled else ""
        print(
            f"| {row.nodes:,} x {row.guests:,} | {row.candidates:,} "
            f"| {row.compiling:.3f} s | {row.choosing:.4f} s | {row.topsis:.3f} s "
            f"| {about}{row.plain:,.2f} s | {about}{row.plain / row.choosing:,.0f} "
            f"| {row.peak:.0f} MiB |"
        )


if __name__ == "__main__":
    main()
