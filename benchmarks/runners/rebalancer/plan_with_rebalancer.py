"""Plan with Meta's Rebalancer, for comparison in the benchmark.

    PYTHON3.12 plan_with_rebalancer.py SNAPSHOT PLAN [--part 0.05] [--moves single]

Needs Python 3.12 and `pip install rebalancer`, and nothing of OpenDRS. Memory and CPU
are balanced by the sum of squares, memory is a hard capacity, and all rules of the
snapshot are constraints. With `--part`, at most that fraction of the guests is moved.
Writes the plan and prints its cost: CPU seconds of all threads and wall seconds,
without the import, from the snapshot in memory to the moves.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from pathlib import Path
from typing import Any

from rebalancer import ProblemSolver  # type: ignore[import-not-found]

GIB = 2**30
SQUARES = 2  # exponent of a balance goal
MOVES: dict[str, list[dict[str, Any]]] = {
    "single": [{"singleMoveTypeSpec": {}}],
    "chain": [{"singleMoveTypeSpec": {}}, {"singleChainMoveTypeSpec": {}}],
}


def main() -> None:
    """Plan and print the cost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("snapshot", type=Path)
    parser.add_argument("plan", type=Path)
    parser.add_argument("--part", type=float)
    parser.add_argument("--moves", choices=MOVES, default="single")
    parser.add_argument("--time", type=int, default=100)
    options = parser.parse_args()
    raw = options.snapshot.read_bytes()
    if options.snapshot.suffix == ".gz":
        raw = gzip.decompress(raw)
    snapshot = json.loads(raw)
    wall, cpu = time.perf_counter(), time.process_time()
    end = solved(snapshot, options.part, MOVES[options.moves], options.time)
    took = {
        "cpu": time.process_time() - cpu,
        "wall": time.perf_counter() - wall,
    }
    guests = snapshot["guests"]
    moved = sorted(name for name in guests if end[name] != guests[name]["node"])
    steps = [
        {
            "id": str(number),
            "kind": "live-migration",
            "guest": name,
            "source": guests[name]["node"],
            "target": end[name],
            "depends_on": [],
        }
        for number, name in enumerate(moved)
    ]
    options.plan.write_text(json.dumps({"policy": "rebalancer", "steps": steps}))
    print(json.dumps(took))


def solved(
    snapshot: dict[str, Any], part: float | None, moves: list[Any], seconds: int
) -> dict[str, str]:
    """Return the final node of each guest."""
    nodes, guests = snapshot["nodes"], snapshot["guests"]
    solver = ProblemSolver("benchmark", "opendrs")
    solver.disable_scuba_logging()
    solver.disable_solution_summary()
    where: dict[str, list[str]] = {name: [] for name in nodes}
    for name, guest in guests.items():
        where[guest["node"]].append(name)
    solver.set_object_name("guest").set_container_name("node").set_assignment(where)
    for key, unit in (("memory", GIB), ("cpu", 1)):
        used = {name: each["usage"][key] / unit for name, each in guests.items()}
        size = {name: each["capacity"][key] / unit for name, each in nodes.items()}
        solver.add_object_dimension(key, used)
        solver.add_container_dimension(key, size)
        goal = {
            "name": f"even {key}",
            "scope": "node",
            "dimension": key,
            "formula": SQUARES,
            "upperBound": 1.0,
        }
        solver.add_goal({"balanceSpec": goal}, weight=1.0)
    solver.add_constraint(
        {"capacitySpec": {"name": "memory", "scope": "node", "dimension": "memory"}}
    )
    _add_rules(solver, snapshot)
    if part is not None:
        _add_limit(solver, list(guests), int(part * len(guests)))
    search = {"solveTime": seconds, "moveTypeList": moves}
    solver.add_solver({"localSearchSolverSpec": search})
    end: dict[str, str] = solver.solve()["assignment"]
    return end


def _add_rules(solver: ProblemSolver, snapshot: dict[str, Any]) -> None:
    rules = snapshot.get("rules", [])
    kinds = {
        "anti-affinity": ("groupCountSpec", "limit"),
        "affinity": ("colocateGroupsSpec", "limits"),
    }
    for kind, (spec, limit) in kinds.items():
        groups = [rule["guests"] for rule in rules if rule["kind"] == kind]
        if groups:
            named = {f"{kind}{number}": each for number, each in enumerate(groups)}
            solver.add_partition(kind, named)
            constraint = {
                "name": kind,
                "scope": "node",
                "partitionName": kind,
                limit: {"type": 1, "globalLimit": 1},
            }
            solver.add_constraint({spec: constraint})
    closed = [
        {"object": name, "scopeItems": sorted(set(snapshot["nodes"]) - set(listed))}
        for rule in rules
        if rule["kind"] == "node-affinity"
        for listed in [rule["nodes"]]
        for name in rule["guests"]
    ]
    if closed:
        bound = {"name": "bound", "scope": "node", "assignments": closed}
        solver.add_constraint({"avoidAssignmentsSpec": bound})
    staying = [
        name
        for name, each in snapshot["guests"].items()
        if each.get("mobility", each.get("moves")) in ("none", "never")
    ]
    if staying:
        constraint = {"name": "staying", "objects": staying}
        solver.add_constraint({"avoidMovingSpec": constraint})


def _add_limit(solver: ProblemSolver, guests: list[str], most: int) -> None:
    solver.add_object_dimension("one", dict.fromkeys(guests, 1))
    constraint = {
        "name": "few",
        "scope": "node",
        "dimension": "one",
        "magicScaling": False,
        "doNotNormalize": True,
        "allowance": most,
    }
    solver.add_constraint({"minimizeMovementSpec": constraint})


if __name__ == "__main__":
    main()
