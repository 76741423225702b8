"""Solve machine reassignment instances with the optimizer of OpenDRS.

    export PYTHONPATH=benchmarks
    .venv/bin/python benchmarks/runners/roadef.py MODEL ASSIGNMENT --out FILE
    .venv/bin/python benchmarks/runners/roadef.py --all --results build/roadef.csv

The first form writes the best assignment found. The second solves every instance in
`data/roadef2012/`, beside the project or below OPENDRS_SHARED, and prints a table. The
score is (cost - best known) / cost of the initial assignment. Each result is appended
to the file of results at once; a later run continues after the last one. Files of
instances may be compressed. If the time suffices, a portfolio of searches starts, of
which the better half continues, repeatedly; the last one uses all threads.

Exit status: 0 solved, 1 the solution violates a constraint, 2 invalid input.
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
            raise InstanceError(f"{assignment}: invalid assignment: {broken[0]}")
        return cls(instance, origin)

    @classmethod
    def of(cls, name: str) -> InstanceWithOrigin:
        """Return the instance *name* of the folder of instances."""
        names = (f"{kind}_{name}.txt.gz" for kind in ("model", "assignment"))
        return cls.read(*(DATA / each for each in names))

    def cost(self, machine_of: Integers) -> int:
        """Return the cost of *machine_of*."""
        return checker.cost(self.instance, self.origin.tolist(), machine_of.tolist())

    def violations(self, machine_of: Integers) -> list[str]:
        """Return the constraints that *machine_of* violates."""
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
    """Solve all available instances, print the table, and return the exit status."""
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
    """Solve an instance and return the result."""
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
    parser.add_argument("--out", type=Path, help="file for the assignment")
    parser.add_argument(
        "--time", type=float, default=300.0, help="seconds per instance (default 300)"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--all", action="store_true", help="solve all and compare")
    parser.add_argument("--results", type=Path, help="with --all: file to continue")
    parser.add_argument("--only", nargs="*", help="with --all: only these instances")
    options = parser.parse_args()
    if not options.all and None in (options.model, options.assignment, options.out):
        parser.error("expected MODEL, ASSIGNMENT and --out, or --all")
    if not (np.isfinite(options.time) and options.time > 0):
        parser.error(f"--time: expected above 0 s, got {options.time}")
    if options.threads < 1:
        parser.error(f"--threads: expected at least 1, got {options.threads}")
    try:
        return run_all(options) if options.all else run_one(options)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
