"""Compare `optimize` with Meta's Rebalancer and our other policies on snapshots.

    PYTHONPATH=benchmarks .venv/bin/python benchmarks/runners/planner.py --rebalancer PYTHON3.12 [SNAPSHOT ...]

Snapshots are those in `data/clusters/` beside the project or under OPENDRS_SHARED,
up to 100 x 2,000, unless some are named. All plans are judged by `tools/judge_plan.py`,
which stands beside them. PYTHON3.12 is an interpreter with `pip install rebalancer`;
without it the lines of Rebalancer are left out.

Against each line of Rebalancer stands one of `optimize` that may transfer no more GiB
and move no more guests than that. CPU seconds are of planning alone, from the snapshot
in memory to the plan: neither import nor reading are in it. They are the least of five
times, as far as these take less than 5 s together. Before, the largest cluster is
planned for without effort, so that compiled code is loaded.

`least sum` is what no plan comes below that may move as many guests and as many GiB,
and mends as many rules, whatever it is made by (`least_variation.py`); `of that` is how
many times as much the plan comes to. It takes minutes; --no-bounds leaves it out.
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
FEWEST = 0.02
PARTS = (FEWEST, 0.05, None)
CPU = 0.3  # what its evenness may count, so that memory becomes more even
TIMES = 5  # each is asked, the least CPU seconds count
SLOW = 5.0  # CPU seconds after which nobody is asked again
HEADS = (
    "snapshot", "planner", "moves", "GiB", "memory CV", "cpu CV", "sum",
    "rules broken", "unsafe steps", "CPU s", "least sum", "of that",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class PlannerResult:
    """What one planner did about one snapshot."""

    snapshot: str
    planner: str
    judged: dict[str, Any]
    seconds: float
    least: float | None = None

    @property
    def total(self) -> float:
        """The sum of both variations."""
        after = self.judged["after"]
        return float(after["memory"] + after["cpu"])

    @property
    def cells(self) -> list[str]:
        """Return the cells of its line in the table."""
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
    def _bound_cells(self) -> tuple[str, str]:
        """The least sum that is possible, and how many times that the sum is."""
        if not self.least:
            return "", ""
        return f"{self.least:.4f}", f"{self.total / self.least:.2f}"


class SnapshotBenchmark:
    """One snapshot, and what is asked about it."""

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

    def run_policy(self, title: str, policy: Policy[Any]) -> PlannerResult:
        """Return what *policy* does."""
        memory = policy.initial_memory()

        def plan() -> float:
            begun = process_time()
            decision = policy.decide(self.snapshot, memory)
            took = process_time() - begun
            self._plan_file.write_text(
                json.dumps(plan_document(title, decision, self.snapshot))
            )
            return took

        return self._line(title, least_of_some(plan))

    def run_rebalancer(self, python: Path, title: str, *options: str) -> PlannerResult:
        """Return what Rebalancer does."""
        command = [python, REBALANCER, self._snapshot_file, self._plan_file, *options]

        def plan() -> float:
            done = subprocess.run(  # noqa: S603 - what was asked for
                [str(each) for each in command],
                check=True,
                capture_output=True,
                text=True,
            )
            return float(json.loads(done.stdout.splitlines()[-1])["cpu"])

        return self._line(title, least_of_some(plan))

    def with_bound(self, line: PlannerResult, moves: int, gib: float) -> PlannerResult:
        """Return *line* with what no plan that mends as much has a sum below."""
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
            check=False,  # it ends with 1 when something is wrong, and tells what
            capture_output=True,
            text=True,
        )
        return PlannerResult(
            snapshot=self.name,
            planner=title,
            judged=json.loads(done.stdout),
            seconds=seconds,
        )


def least_of_some(plan: Callable[[], float]) -> float:
    """Return the least CPU seconds of calls of *plan*: of one if it is slow.

    A machine that others use, too, takes now more and now less for the same.
    """
    took = [plan()]
    while len(took) < TIMES and sum(took) < SLOW:
        took.append(plan())
    return min(took)


def lines(
    bench: SnapshotBenchmark, python: Path | None, *, chains: bool, bounds: bool
) -> Iterator[PlannerResult]:
    """Yield what each planner does about one snapshot."""
    guests = len(bench.snapshot.guests)
    for part in PARTS:
        share_text = "any number" if part is None else f"{part:.0%} of the guests"
        moves = guests if part is None else int(part * guests)
        budget, gib = f"{moves} migrations", 0.0
        bounded = bounds and part is not None and python is not None
        if python is not None:
            options = [] if part is None else ["--part", str(part)]
            theirs = bench.run_rebalancer(python, f"rebalancer, {share_text}", *options)
            gib = theirs.judged["gib_moved"]
            yield bench.with_bound(theirs, moves, gib) if bounded else theirs
            budget += f", {gib} GiB"
        # Where any number may move, what is moved for little is what differs.
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
        budget = f"{theirs.judged['gib_moved']} GiB"
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
    provide_always(print)
    folder = SHARED / "data" / "clusters"
    paths = options.snapshots or [
        path for name in USUAL for path in sorted(folder.glob(f"{name}.*.json*"))
    ]
    if not paths:
        raise SystemExit(f"there are no snapshots in {folder}")
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
