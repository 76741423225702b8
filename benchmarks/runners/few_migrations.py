"""Compare both spreads of `optimize` and Meta's Rebalancer with few migrations.

    export PYTHONPATH=benchmarks
    .venv/bin/python benchmarks/runners/few_migrations.py --rebalancer PYTHON3.12

Clusters of three sizes are drawn by `tools/make_cluster.py`, beside the project or
below OPENDRS_SHARED: three seeds for each size, plain and with rules. Rebalancer plans
first, with a limit of migrations. `optimize` may transfer no more GiB and migrate no
more guests. All plans are checked by `tools/judge_plan.py`.

The first table has the coefficients of variation (CV) of the memory and CPU loads after
each plan. The second has one row for each weight of memory: the number of plans with a
CV above that of Rebalancer, of all plans and of those that leave as many violations,
and mean ratios to its CVs. The weight of CPU is 1.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import compress
from pathlib import Path
from statistics import fmean

from opendrs.controller.compiled_code import provide_always
from opendrs.policies.optimize import Optimize
from runners.planner import SHARED, PlannerResult, SnapshotBenchmark

SIZES = "10x200,30x600,100x2000"
SEEDS_PER_SIZE = 3
PARTS = "0.05,0.02"
WEIGHTS = "1,1.5,2"
PLAN_HEADS = ["snapshot", "guests"] + [
    f"{column}, {planner}"
    for column in ("memory CV", "CPU CV", "violations")
    for planner in ("rebalancer", "optimize")
]
WEIGHT_HEADS = (
    "guests", "memory_weight", "memory CV above", "CPU CV above",
    "memory CV above, same violations", "CPU CV above, same violations",
    "memory CV ratio", "CPU CV ratio", "sum ratio",
)  # fmt: skip
Pair = tuple[PlannerResult, PlannerResult]  # Rebalancer, optimize


def drawn_clusters(sizes: Sequence[str], seed: int, folder: Path) -> Iterator[Path]:
    """Yield the paths of the clusters; *seed* is the first of consecutive seeds."""
    maker = SHARED / "tools" / "make_cluster.py"
    for index in range(SEEDS_PER_SIZE * len(sizes)):
        size = sizes[index // SEEDS_PER_SIZE]
        for kind, options in (("plain", []), ("rules", ["--rules"])):
            path = folder / f"c{size}.{kind}.{seed + index}.json"
            command = [maker, *size.split("x"), path, "--seed", seed + index, *options]
            subprocess.run(  # noqa: S603 - a program beside the project
                [sys.executable, *map(str, command)], check=True
            )
            yield path


def pairs(
    bench: SnapshotBenchmark, python: Path, part: float, weights: Sequence[float]
) -> Iterator[Pair]:
    """Yield the result of Rebalancer with that of `optimize` for each weight."""
    moves = int(part * len(bench.snapshot.guests))
    theirs = bench.run_rebalancer(python, "rebalancer", "--part", str(part), runs=1)
    budget = f"{moves} migrations, {theirs.gib} GiB"
    for weight in weights:
        policy = Optimize(budget=budget, memory_weight=weight)
        yield theirs, bench.run_policy("optimize", policy, runs=1)


def plan_row(part: float, pair: Pair) -> list[str]:
    """Return the cells for one cluster."""
    spreads = [
        f"{each.judged['after'][load]:.4f}"
        for load in ("memory", "cpu")
        for each in pair
    ]
    violations = [str(each.judged["rules_broken_after"]) for each in pair]
    return [pair[0].snapshot, f"{part:.0%}", *spreads, *violations]


def weight_row(part: float, weight: float, compared: Sequence[Pair]) -> list[str]:
    """Return the cells for one weight of memory."""
    ratios = {
        load: [
            ours.judged["after"][load] / theirs.judged["after"][load]
            for theirs, ours in compared
        ]
        for load in ("memory", "cpu")
    }
    totals = [ours.total / theirs.total for theirs, ours in compared]
    leaves_as_many = [
        ours.judged["rules_broken_after"] == theirs.judged["rules_broken_after"]
        for theirs, ours in compared
    ]
    above = [
        f"{sum(r > 1 for r in each)} of {len(each)}"
        for each in (
            *ratios.values(),
            *([*compress(each, leaves_as_many)] for each in ratios.values()),
        )
    ]
    means = [f"{fmean(each):.3f}" for each in (*ratios.values(), totals)]
    return [f"{part:.0%}", f"{weight:g}", *above, *means]


def print_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table of Markdown."""
    print("| " + " | ".join(heads) + " |")
    print("|---|" + "---:|" * (len(heads) - 1))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print(flush=True)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rebalancer", type=Path, metavar="PYTHON3.12", required=True)
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--seed", type=int, default=9101, help="the first seed")
    parser.add_argument("--parts", default=PARTS, help="fractions of the guests")
    parser.add_argument("--memory-weights", default=WEIGHTS)
    options = parser.parse_args()
    provide_always(print)
    parts = [float(each) for each in options.parts.split(",")]
    weights = [float(each) for each in options.memory_weights.split(",")]
    compared: dict[tuple[float, float], list[Pair]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for path in drawn_clusters(options.sizes.split(","), options.seed, folder):
            bench = SnapshotBenchmark(path, folder)
            for part in parts:
                found = pairs(bench, options.rebalancer, part, weights)
                for weight, pair in zip(weights, found, strict=True):
                    compared.setdefault((part, weight), []).append(pair)
    default = Optimize().memory_weight
    plans = [
        plan_row(part, pair)
        for (part, weight), found in compared.items()
        if weight == default
        for pair in found
    ]
    print_table(PLAN_HEADS, plans)
    by_weight = [weight_row(*key, found) for key, found in compared.items()]
    print_table(WEIGHT_HEADS, by_weight)


if __name__ == "__main__":
    main()
