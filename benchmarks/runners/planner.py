"""Compare `optimize` with Meta's Rebalancer and the other policies on snapshots.

    export PYTHONPATH=benchmarks
    .venv/bin/python benchmarks/runners/planner.py --rebalancer PYTHON3.12 [SNAPSHOT]


Default snapshots are those in `data/clusters/` of up to 100 x 2,000, beside the project
or below OPENDRS_SHARED. All plans are checked by `tools/judge_plan.py` beside them.
PYTHON3.12 is an interpreter with `pip install rebalancer`; without it the rows of
Rebalancer are omitted.

For each row of Rebalancer there is one of `optimize` that may transfer no more GiB and
migrate no more guests. CPU seconds are for planning, from the snapshot in memory to the
plan, without import and reading. They are the least of five runs, or of fewer if these
take more than 5 s together. First the largest cluster is planned with little effort, so
that compiled code is loaded.

`sum bound` is a lower bound of the sum of variations of all plans that migrate no more
guests and GiB and repair as many rules (`imbalance_bound.py`). `ratio` is the sum of
the plan divided by it. The bound takes minutes; --no-bounds omits it.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from time import process_time
from typing import Any

from opendrs.cli.main import collect_garbage_less_often
from opendrs.config import snapshot_from
from opendrs.controller.compiled_code import provide_always
from opendrs.controller.serialization import plan_document
from opendrs.model import Snapshot
from opendrs.policies import AutoRebalance, Balance, Policy
from opendrs.policies.optimize import Optimize
from runners.imbalance_bound import least_sum

BESIDE = Path(__file__).parents[3] / "shared"
SHARED = Path(os.environ.get("OPENDRS_SHARED", BESIDE))
REBALANCER = Path(__file__).parent / "rebalancer" / "plan_with_rebalancer.py"
USUAL = ("c10x200", "c100x2000")
ROUNDING = 0.05  # GiB; the judge rounds them to a tenth
FEWEST = 0.02
PARTS = (FEWEST, 0.05, None)
CPU = 0.3  # cpu_weight with which memory gets more balanced
TIMES = 5  # runs of each planner, of which the least CPU time counts
SLOW = 5.0  # total CPU seconds after which no further run is made
HEADS = (
    "snapshot", "planner", "migrations", "GiB", "memory CV", "CPU CV", "sum",
    "violations", "unsafe steps", "CPU s", "sum bound", "ratio",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class PlannerResult:
    """Result of one planner for one snapshot."""

    snapshot: str
    planner: str
    judged: dict[str, Any]
    seconds: float
    least: float | None = None

    @property
    def total(self) -> float:
        """Sum of the coefficients of variation of memory and CPU load."""
        after = self.judged["after"]
        return float(after["memory"] + after["cpu"])

    @property
    def cells(self) -> list[str]:
        """Cells of the row of the table."""
        after = self.judged["after"]
        return [
            self.snapshot,
            self.planner,
            f"{self.judged['migrations']}",
            f"{self.judged['gib_moved']:,.0f}",
            f"{after['memory']:.4f}",
            f"{after['cpu']:.4f}",
            f"{self.total:.4f}",
            f"{self.judged['rules_broken_after']}",
            f"{len(self.judged['unsafe_steps'])}",
            f"{self.seconds:.2f}",
            *self._bound_cells,
        ]

    @property
    def gib(self) -> float:
        """GiB that the plan transfers at most, since the judge rounds them."""
        return float(self.judged["gib_moved"]) + ROUNDING

    @property
    def _bound_cells(self) -> tuple[str, str]:
        """Lower bound of the sum, and the ratio of the sum to it."""
        if not self.least:
            return "", ""
        return f"{self.least:.4f}", f"{self.total / self.least:.2f}"


class SnapshotBenchmark:
    """One snapshot with the results for it."""

    def __init__(self, path: Path, folder: Path) -> None:
        raw = path.read_bytes()
        raw = gzip.decompress(raw) if path.suffix == ".gz" else raw
        self.name = path.name.split(".json")[0]
        self._snapshot_file = folder / "snapshot.json"
        self._plan_file = folder / "plan.json"
        self._snapshot_file.write_bytes(raw)
        self._document: dict[str, Any] = json.loads(raw)
        self._least: dict[tuple[int, float, int], float] = {}
        self.snapshot: Snapshot = snapshot_from(self._document, path.name)

    def run_policy(
        self, title: str, policy: Policy[Any], runs: int = TIMES
    ) -> PlannerResult:
        """Return the result of *policy*, with the least CPU time of *runs* plans."""
        memory = policy.initial_memory()

        def plan() -> float:
            begun = process_time()
            decision = policy.decide(self.snapshot, memory)
            took = process_time() - begun
            self._plan_file.write_text(
                json.dumps(plan_document(title, decision, self.snapshot))
            )
            return took

        return self._line(title, least_of_some(plan, runs))

    def run_rebalancer(
        self, python: Path, title: str, *options: str, runs: int = TIMES
    ) -> PlannerResult:
        """Return the result of Rebalancer, with the least CPU time of *runs* plans."""
        command = [python, REBALANCER, self._snapshot_file, self._plan_file, *options]

        def plan() -> float:
            done = subprocess.run(  # noqa: S603 - what was asked for
                [str(each) for each in command],
                check=True,
                capture_output=True,
                text=True,
            )
            return float(json.loads(done.stdout.splitlines()[-1])["cpu"])

        return self._line(title, least_of_some(plan, runs))

    def with_bound(self, line: PlannerResult, moves: int, gib: float) -> PlannerResult:
        """Return *line* with the bound of plans that repair as many rules."""
        judged = line.judged
        repaired = judged["rules_broken_before"] - judged["rules_broken_after"]
        key = (moves, gib, repaired)
        if key not in self._least:
            self._least[key] = least_sum(self._document, *key)
        return replace(line, least=self._least[key])

    def _line(self, title: str, seconds: float) -> PlannerResult:
        judge = SHARED / "tools" / "judge_plan.py"
        done = subprocess.run(  # noqa: S603 - a program beside the project
            [
                sys.executable,
                str(judge),
                str(self._snapshot_file),
                str(self._plan_file),
            ],
            check=False,  # exit status 1 means defects, which are in the output
            capture_output=True,
            text=True,
        )
        return PlannerResult(
            snapshot=self.name,
            planner=title,
            judged=json.loads(done.stdout),
            seconds=seconds,
        )


def least_of_some(plan: Callable[[], float], runs: int = TIMES) -> float:
    """Return the least CPU seconds of *runs* calls of *plan*; of one if it is slow.

    On a shared machine the same work takes different times.
    """
    took = [plan()]
    while len(took) < runs and sum(took) < SLOW:
        took.append(plan())
    return min(took)


def lines(
    bench: SnapshotBenchmark, python: Path | None, *, chains: bool, bounds: bool
) -> Iterator[PlannerResult]:
    """Yield the result of each planner for one snapshot."""
    guests = len(bench.snapshot.guests)
    for part in PARTS:
        share_text = "any number" if part is None else f"{part:.0%} of the guests"
        moves = guests if part is None else int(part * guests)
        budget, gib = f"{moves} migrations", 0.0
        bounded = bounds and part is not None and python is not None
        if python is not None:
            options = [] if part is None else ["--part", str(part)]
            theirs = bench.run_rebalancer(python, f"rebalancer, {share_text}", *options)
            gib = theirs.gib
            yield bench.with_bound(theirs, moves, gib) if bounded else theirs
            budget += f", {gib} GiB"
        # With an unlimited number, plans differ by moves with little gain.
        migration_cost_weight = (
            0.002 if part is None else Optimize().migration_cost_weight
        )
        ours = bench.run_policy(
            f"optimize, {share_text}",
            Optimize(budget=budget, migration_cost_weight=migration_cost_weight),
        )
        yield bench.with_bound(ours, moves, gib) if bounded else ours
        if part == FEWEST:
            memory_first = Optimize(budget=budget, cpu_weight=CPU)
            ours = bench.run_policy(
                f"optimize, {share_text}, cpu_weight={CPU}", memory_first
            )
            yield bench.with_bound(ours, moves, gib) if bounded else ours
    if python is not None and chains:
        theirs = bench.run_rebalancer(python, "rebalancer, chains", "--moves", "chain")
        yield theirs
        budget = f"{theirs.gib} GiB"
        fine = Optimize(
            budget=budget, migration_cost_weight=0.001, iterations_per_group=5000
        )
        yield bench.run_policy("optimize, fine", fine)
    unlimited = bench.run_policy("optimize, unlimited", Optimize(budget="unlimited"))
    yield unlimited
    half = unlimited.judged["gib_moved"] / 2
    yield bench.run_policy("optimize, half of that", Optimize(budget=f"{half} GiB"))
    yield bench.run_policy("optimize, knee", Optimize())
    yield bench.run_policy("balance", Balance())
    yield bench.run_policy("auto-rebalance", AutoRebalance(hold=1))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("snapshots", nargs="*", type=Path)
    parser.add_argument("--rebalancer", type=Path, metavar="PYTHON3.12")
    parser.add_argument("--no-chains", action="store_true")
    parser.add_argument("--no-bounds", action="store_true")
    options = parser.parse_args()
    collect_garbage_less_often()  # as every command does
    provide_always(print)
    folder = SHARED / "data" / "clusters"
    paths = options.snapshots or [
        path for name in USUAL for path in sorted(folder.glob(f"{name}.*.json*"))
    ]
    if not paths:
        raise SystemExit(f"{folder}: no snapshots; set OPENDRS_SHARED")
    print("| " + " | ".join(HEADS) + " |")
    print("|---|---|" + "---:|" * (len(HEADS) - 2))
    with tempfile.TemporaryDirectory() as temporary:
        folder_of_runs = Path(temporary)
        warm = SnapshotBenchmark(
            max(paths, key=lambda path: path.stat().st_size), folder_of_runs
        )
        for budget in ("unlimited", "1 migrations"):
            warm.run_policy("", Optimize(iterations_per_group=1, budget=budget))
        for path in paths:
            bench = SnapshotBenchmark(path, folder_of_runs)
            chains, bounds = not options.no_chains, not options.no_bounds
            for line in lines(bench, options.rebalancer, chains=chains, bounds=bounds):
                print("| " + " | ".join(line.cells) + " |", flush=True)


if __name__ == "__main__":
    main()
