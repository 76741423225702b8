"""CPU time of the answers of `opendrs place` and `opendrs what-if`.

    .venv/bin/python benchmarks/runners/placement.py [SNAPSHOT ...]

Without arguments, the clusters in data/clusters beside the project, or below
OPENDRS_SHARED, are measured. Seconds are those of each answer, from the snapshot in
memory to the result; each answer compiles the snapshot to arrays itself. The best of
three runs counts, since other processes may use the machine.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from opendrs.config import snapshot_from
from opendrs.model import DEFAULT_LIMITS, GIB, Resources, Snapshot
from opendrs.placement import (
    GuestSize,
    NodeAddition,
    Scenario,
    StartRequest,
    additional_guests,
    apply_scenario,
    dispensable_nodes,
    failure_tolerance,
    median_size,
    start_placement,
)

BESIDE = Path(__file__).parents[3] / "shared"
CLUSTERS = Path(os.environ.get("OPENDRS_SHARED", BESIDE)) / "data/clusters"
SMALL = Resources(4, 16 * GIB)
RUNS = 3


def answers(snapshot: Snapshot) -> dict[str, Callable[[], object]]:
    """Return the measured answers by name."""
    limits, names = DEFAULT_LIMITS, sorted(snapshot.nodes)
    tolerant = replace(limits, tolerated_failures=1)
    scenario = Scenario(
        add=(NodeAddition(3, names[0]),),
        fail=tuple(names[1:3]),
        remove=(names[3],),
        growth=0.2,
    )
    size = median_size(snapshot) or GuestSize(SMALL, SMALL)
    one, hundred = StartRequest(limit=SMALL), StartRequest(limit=SMALL, count=100)
    return {
        "place": lambda: start_placement(snapshot, one, limits),
        "place 100": lambda: start_placement(snapshot, hundred, limits),
        "place, 1 failure": lambda: start_placement(snapshot, one, tolerant),
        "place 100, 1 failure": lambda: start_placement(snapshot, hundred, tolerant),
        "scenario": lambda: apply_scenario(snapshot, scenario, limits),
        "failures": lambda: failure_tolerance(snapshot, limits),
        "additional guests": lambda: additional_guests(snapshot, size, limits),
        "dispensable nodes": lambda: dispensable_nodes(snapshot, limits),
    }


def cpu_seconds(answer: Callable[[], object]) -> float:
    """Return the CPU seconds of *answer*, the best of several runs."""
    found = []
    for _ in range(RUNS):
        start = time.process_time()
        answer()
        found.append(time.process_time() - start)
    return min(found)


def main(arguments: list[str]) -> None:
    """Print a table with one row for each cluster."""
    paths = [Path(each) for each in arguments] or sorted(CLUSTERS.glob("*.json*"))
    heads: tuple[str, ...] = ()
    for path in paths:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
        snapshot = snapshot_from(json.loads(content), path.name)
        measured = answers(snapshot)
        if not heads:
            heads = ("cluster", *measured, "tolerated", "pairs")
            sys.stdout.write(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|\n")
        seconds = [f"{cpu_seconds(answer):.2f}" for answer in measured.values()]
        tolerance = failure_tolerance(snapshot, DEFAULT_LIMITS)
        counts = (str(tolerance.tolerated), str(tolerance.evaluated_pairs))
        row = (path.name.partition(".json")[0], *seconds, *counts)
        sys.stdout.write(f"| {' | '.join(row)} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
