"""Solve machine reassignment instances with the engine of the planner.

    PYTHONPATH=benchmarks .venv/bin/python benchmarks/runners/roadef.py MODEL ASSIGNMENT --time 300 --out FILE
    PYTHONPATH=benchmarks .venv/bin/python benchmarks/runners/roadef.py --all --time 300 --results build/roadef.csv

The first form writes the best assignment found. The second solves every instance in
`data/roadef2012/` beside the project or under OPENDRS_SHARED, and prints a table:
score is (cost - best known) / cost of the initial assignment. What it found is written
to the file of results at once; begun again, it goes on where it stopped. Files of
instances may be compressed. Many searches begin where there is time for many, and again
and again the better half goes on, in the end one with all threads.

Exit status: 0 solved, 1 the solution breaks a constraint, 2 bad input.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from instances.roadef import (
    Instance,
    InstanceError,
    Integers,
    encode_problem,
    read_assignment,
    read_instance,
)
from runners.reassignment import checker
from runners.reassignment.portfolio import solve
from runners.reassignment.results import HEADER, Result, Results, summary

BESIDE = Path(__file__).parents[3] / "shared"
DATA = Path(os.environ.get("OPENDRS_SHARED", BESIDE)) / "data" / "roadef2012"


@dataclass(frozen=True, slots=True)
class InstanceWithOrigin:
    """An instance with its initial assignment."""

    instance: Instance
    origin: Integers

    @classmethod
    def read(cls, model: Path, assignment: Path) -> InstanceWithOrigin:
        """Return the instance in the files *model* and *assignment*."""
        instance = read_instance(model)
        origin = read_assignment(assignment, instance)
        broken = checker.violations(instance, origin.tolist(), origin.tolist())
        if broken:
            raise InstanceError(f"{assignment}: not a valid start: {broken[0]}")
        return cls(instance, origin)

    @classmethod
    def of(cls, name: str) -> InstanceWithOrigin:
        """Return the instance of this name in the folder of instances."""
        names = (f"{kind}_{name}.txt.gz" for kind in ("model", "assignment"))
        return cls.read(*(DATA / each for each in names))

    def cost(self, machine_of: Integers) -> int:
        """Return what *machine_of* costs."""
        return checker.cost(self.instance, self.origin.tolist(), machine_of.tolist())

    def violations(self, machine_of: Integers) -> list[str]:
        """Return the constraints *machine_of* breaks."""
        return checker.violations(
            self.instance, self.origin.tolist(), machine_of.tolist()
        )


def solve_instance(
    instance: InstanceWithOrigin, options: argparse.Namespace
) -> Integers:
    """Return the best assignment found within the time."""
    problem = encode_problem(instance.instance, instance.origin)
    return solve(
        problem, seconds=options.time, seed=options.seed, threads=options.threads
    )


def run_one(options: argparse.Namespace) -> int:
    """Solve one instance, write the assignment, and return the exit status."""
    instance = InstanceWithOrigin.read(options.model, options.assignment)
    found = solve_instance(instance, options)
    options.out.write_text(" ".join(map(str, found.tolist())) + "\n")
    broken = instance.violations(found)
    print(f"initial cost {instance.cost(instance.origin)}, cost {instance.cost(found)}")
    print(*broken, sep="\n", end="\n" if broken else "")
    return 1 if broken else 0


def run_all(options: argparse.Namespace) -> int:
    """Solve all instances there are, print the table, and return the exit status."""
    kept = Results(options.results)
    instances = best_known_costs()
    found = []
    print(HEADER)
    for name, known in instances.items():
        model = DATA / f"model_{name}.txt.gz"
        if not model.exists() or (options.only and name not in options.only):
            continue
        result = kept.of(
            name, time=options.time, threads=options.threads, seed=options.seed
        )
        if result is None:
            result = result_of(name, InstanceWithOrigin.of(name), known, options)
            kept.add(result)
        found.append(result)
        print(result.row(), flush=True)
    print(f"\n{summary(found)}")
    return 1 if any(each.broken for each in found) else 0


def best_known_costs() -> dict[str, int]:
    """Return the best known cost of each instance, by name."""
    with (DATA / "best-known.csv").open(newline="") as lines:
        rows = csv.DictReader(lines)
        return {row["instance"]: int(row["best_known_cost"]) for row in rows}


def result_of(
    name: str, instance: InstanceWithOrigin, known: int, options: argparse.Namespace
) -> Result:
    """Solve an instance, and return what was found."""
    before = time.process_time()
    found = solve_instance(instance, options)
    return Result(
        instance=name,
        time=options.time,
        threads=options.threads,
        seed=options.seed,
        machines=len(instance.instance.capacity),
        units=len(found),
        initial=instance.cost(instance.origin),
        cost=instance.cost(found),
        known=known,
        broken=len(instance.violations(found)),
        cpu=round(time.process_time() - before, 1),
    )


def main() -> int:
    """Read the arguments, solve, and return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", nargs="?", type=Path)
    parser.add_argument("assignment", nargs="?", type=Path)
    parser.add_argument("--out", type=Path, help="where the assignment is written")
    parser.add_argument("--time", type=float, default=300.0, help="seconds in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--all", action="store_true", help="solve all and compare")
    parser.add_argument("--results", type=Path, help="with --all: go on from there")
    parser.add_argument("--only", nargs="*", help="with --all: these instances")
    options = parser.parse_args()
    if not options.all and None in (options.model, options.assignment, options.out):
        parser.error("MODEL, ASSIGNMENT and --out are needed, or --all")
    if not (np.isfinite(options.time) and options.time > 0):
        parser.error(f"--time must be above 0, not {options.time}")
    if options.threads < 1:
        parser.error(f"--threads must be at least 1, not {options.threads}")
    try:
        return run_all(options) if options.all else run_one(options)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
