"""Measure plans of `optimize` with several weights of memory; the weight of CPU is 1.

    export PYTHONPATH=benchmarks
    .venv/bin/python benchmarks/runners/memory_weight.py

The snapshots are those in `data/clusters/` of up to 100 x 2,000, beside the project or
below OPENDRS_SHARED, and clusters that `tools/make_cluster.py` draws there: three seeds
for each size, plain and with rules. All plans are checked by `tools/judge_plan.py`.

The first table has one row for each snapshot of `data/clusters/`, budget and weight:
the load of the node with the highest memory load, the coefficients of variation (CV) of
the loads after the plan, and what it transfers. Plans with the budget "as knee" may
transfer as many GiB as the plan of the first weight with the budget knee. The second
table compares each weight with the first one in all snapshots: the mean ratio of the
values, and the number of plans with a higher value. The third has the state of each
snapshot of `data/clusters/` after an hour of a controller with the default budget, as
in default_policy.py.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import fmean

from opendrs.controller.compiled_code import provide_always
from opendrs.policies.optimize import Optimize
from opendrs.policies.optimize.budget import KNEE
from runners.default_policy import CYCLES, run_cycles
from runners.default_policy import HEADS as HOUR_HEADS
from runners.few_migrations import WEIGHTS, drawn_clusters, print_table
from runners.planner import SHARED, USUAL, PlannerResult, SnapshotBenchmark

SIZES = "10x200,30x600"
AS_KNEE = "as knee"
BUDGETS = ("unlimited", KNEE, AS_KNEE)
HEADS = (
    "snapshot", "budget", "memory_weight", "highest memory load", "memory CV", "CPU CV",
    "sum", "migrations", "GiB", "violations",
)  # fmt: skip
COMPARED = ("highest memory load", "memory CV", "CPU CV", "sum", "migrations", "GiB")
RATIO_HEADS = ("budget", "memory_weight", *COMPARED)
Key = tuple[str, float]  # budget, weight


def values(result: PlannerResult) -> tuple[float, ...]:
    """Return the values of `COMPARED` after a plan."""
    after = result.judged["after"]
    return (
        after["worst_memory"],
        after["memory"],
        after["cpu"],
        result.total,
        result.judged["migrations"],
        result.judged["gib_moved"],
    )


def results(
    bench: SnapshotBenchmark, weights: Sequence[float]
) -> dict[Key, PlannerResult]:
    """Return the result for each budget and weight."""
    found: dict[Key, PlannerResult] = {}
    for budget, weight in product(BUDGETS, weights):
        amounts = budget
        if budget == AS_KNEE:
            amounts = f"{found[KNEE, weights[0]].gib} GiB"
        policy = Optimize(budget=amounts, memory_weight=weight)
        found[budget, weight] = bench.run_policy("optimize", policy, runs=1)
    return found


def plan_row(key: Key, result: PlannerResult) -> list[str]:
    """Return the cells for one plan."""
    highest, memory, cpu, total, migrations, gib = values(result)
    return [
        result.snapshot,
        key[0],
        f"{key[1]:g}",
        f"{highest:.1%}",
        *(f"{each:.4f}" for each in (memory, cpu, total)),
        f"{migrations:.0f}",
        f"{gib:,.0f}",
        str(result.judged["rules_broken_after"]),
    ]


def ratio_row(
    key: Key, found: Sequence[PlannerResult], first: Sequence[PlannerResult]
) -> list[str]:
    """Return the cells for one budget and weight, relative to the *first* weight."""
    pairs = list(zip(map(values, found), map(values, first), strict=True))
    cells = []
    for column in range(len(COMPARED)):
        ratios = [ours[column] / theirs[column] for ours, theirs in pairs]
        above = sum(each > 1 for each in ratios)
        cells.append(f"{fmean(ratios):.3f} ({above} of {len(ratios)})")
    return [key[0], f"{key[1]:g}", *cells]


def hour_row(bench: SnapshotBenchmark, weight: float) -> list[str]:
    """Return the cells for an hour of cycles with the default budget."""
    after = run_cycles(
        bench.name, bench.snapshot, "optimize", CYCLES, memory_weight=weight
    )
    return replace(after, policy=f"memory_weight = {weight:g}").cells


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default=SIZES, help="of the drawn clusters")
    parser.add_argument("--seed", type=int, default=9501, help="the first seed")
    parser.add_argument("--memory-weights", default=WEIGHTS)
    options = parser.parse_args()
    provide_always(print)
    weights = [float(each) for each in options.memory_weights.split(",")]
    folder = SHARED / "data" / "clusters"
    given = [path for name in USUAL for path in sorted(folder.glob(f"{name}.*.json*"))]
    found: dict[Key, list[PlannerResult]] = {}
    rows: list[list[str]] = []
    hours: list[list[str]] = []
    with tempfile.TemporaryDirectory() as temporary:
        drawn = drawn_clusters(options.sizes.split(","), options.seed, Path(temporary))
        for path in (*given, *drawn):
            bench = SnapshotBenchmark(path, Path(temporary))
            for key, result in results(bench, weights).items():
                found.setdefault(key, []).append(result)
                if path in given:
                    rows.append(plan_row(key, result))
            if path in given:
                hours.extend(hour_row(bench, weight) for weight in weights)
    print_table(HEADS, rows)
    ratios = [
        ratio_row(key, each, found[key[0], weights[0]])
        for key, each in found.items()
        if key[1] != weights[0]
    ]
    print_table(RATIO_HEADS, ratios)
    print_table(HOUR_HEADS, hours)


if __name__ == "__main__":
    main()
