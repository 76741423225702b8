"""What `optimize` takes from 10 nodes to 10,000, and how near to the bound it comes.

    .venv/bin/python benchmarks/runners/scaling.py
    .venv/bin/python benchmarks/runners/scaling.py --sizes 1000x20000 --budgets unlimited

A budget such as 2% is so many moves. Clusters with rules are drawn by
`tools/make_cluster.py`, which stands beside the project or under OPENDRS_SHARED, with
the same seed for all, and kept in `build/growth`. Each plan is made in a process of its
own. Seconds are of planning, from the snapshot in memory to the decision; from 30 x 600
on about half a second of CPU is loading compiled code. Peak memory is of the whole
process, and of reading alone beside it.

Plans of up to so many guests (`--judged`) are judged by `tools/judge_plan.py`; of
larger ones only the end is checked, here: who went where no rule lets them, and which
nodes are overfull. The nodes are of three sizes, so that the bound is not of their
unevenness but of their distance from even (docs/explanation/optimize.md).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

BESIDE = Path(__file__).parents[3] / "shared"
TOOLS = Path(os.environ.get("OPENDRS_SHARED", BESIDE)) / "tools"
SIZES = "10x200,30x600,100x2000,300x6000,1000x20000,3000x60000,10000x200000"
HEADS = (
    "nodes x guests", "budget", "wall s", "CPU s", "MiB", "reading MiB", "moves",
    "GiB", "rules broken", "unevenness", "bound", "overfull", "unsafe",
)  # fmt: skip
BOUND = re.compile(r"^bound: .*, lower bound ([0-9.]+)$")
SEED = 1
Json = dict[str, Any]


def measure_plan(path: Path, budget: str, plan_file: Path) -> Json:
    """Plan in this process; write the plan, and return what it took."""
    # The parent process, which loads nothing else, starts one of these after another.
    from opendrs.config import snapshot_from  # noqa: PLC0415
    from opendrs.controller.compiled_code import provide_always  # noqa: PLC0415
    from opendrs.controller.serialization import plan_document  # noqa: PLC0415
    from opendrs.policies.optimize import Optimize  # noqa: PLC0415

    provide_always(print)
    snapshot = snapshot_from(json.loads(path.read_text()), path.name)
    reading = _peak()
    wall, cpu = time.perf_counter(), time.process_time()
    decision = Optimize(budget=budget).decide(snapshot, None)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    peak = _peak()
    plan_file.write_text(json.dumps(plan_document("optimize", decision, snapshot)))
    figures = (decision.before, decision.after)
    uneven = [
        ((each["cpu_imbalance"] ** 2 + each["memory_imbalance"] ** 2) / 2) ** 0.5
        for each in figures
    ]
    bounds = [
        float(found[1]) for note in decision.notes if (found := BOUND.match(note))
    ]
    return {
        "wall": wall,
        "cpu": cpu,
        "peak": peak,
        "reading": reading,
        "uneven": uneven,
        "bound": bounds[0] if bounds else None,
    }


def _peak() -> float:
    """Return the most memory this process has had, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def check_end_state(snapshot: Json, steps: list[Json]) -> Json:
    """Return what is wrong in the end, and what was in the beginning."""
    guests = snapshot["guests"]
    before = {name: each["node"] for name, each in guests.items()}
    after = before | {step["guest"]: step["target"] for step in steps}
    moved = {name for name in guests if after[name] != before[name]}
    return {
        "migrations": len(steps),
        "gib_moved": sum(guests[step["guest"]]["usage"]["memory"] for step in steps)
        / 2**30,
        "rules_broken_before": _broken(snapshot, before),
        "rules_broken_after": _broken(snapshot, after),
        "hosts_over_memory": _overfull(snapshot, after),
        "moved_against_will": sum(
            guests[g].get("mobility", guests[g].get("moves")) in ("none", "never")
            for g in moved
        ),
    }


def _broken(snapshot: Json, place: dict[str, str]) -> int:
    """Return how many guests break strict rules, as the judge counts them."""
    count = 0
    for rule in snapshot["rules"]:
        nodes = [place[guest] for guest in rule["guests"]]
        match rule["kind"]:
            case "anti-affinity":
                count += len(nodes) - len(set(nodes))
            case "affinity":
                count += len(set(nodes)) - 1
            case _:
                count += sum(node not in rule["nodes"] for node in nodes)
    return count


def _overfull(snapshot: Json, place: dict[str, str]) -> int:
    """Return how many nodes hold more memory than they have."""
    held: Counter[str] = Counter()
    for name, guest in snapshot["guests"].items():
        held[place[name]] += guest["usage"]["memory"]
    nodes = snapshot["nodes"]
    return sum(held[name] > nodes[name]["capacity"]["memory"] for name in nodes)


def random_cluster(size: str, folder: Path) -> Path:
    """Return the cluster of that size, drawn if it has not been yet."""
    path = folder / f"c{size}.json"
    if not path.exists():
        maker = TOOLS / "make_cluster.py"
        if not maker.exists():
            raise SystemExit(f"there is no {maker}, which draws the clusters")
        part = path.with_suffix(".part")
        command = [sys.executable, maker, *size.split("x"), part]
        options = ["--seed", str(SEED), "--rules"]
        _run([*map(str, command), *options])
        part.rename(path)
    return path


def table_row(size: str, budget: str, folder: Path, judged: int) -> list[str]:
    """Return the cells of one plan."""
    path, plan_file = random_cluster(size, folder), folder / f"plan-{size}.json"
    guests = int(size.split("x")[1])
    part = budget.removesuffix("%")
    budget_text = (
        budget if part == budget else f"{int(float(part) / 100 * guests)} migrations"
    )
    took = json.loads(
        _run([sys.executable, __file__, "--one", path, budget_text, plan_file])
    )
    judge = TOOLS / "judge_plan.py"
    if guests <= judged:
        result = json.loads(
            _run([sys.executable, judge, path, plan_file], status=(0, 1))
        )
        overfull, unsafe = (
            result["after"]["hosts_over_memory"],
            result["unsafe_steps"],
        )
        unsafe_steps = str(len(unsafe))
    else:
        steps = json.loads(plan_file.read_text())["steps"]
        result = check_end_state(json.loads(path.read_text()), steps)
        overfull, unsafe_steps = result["hosts_over_memory"], "not judged"
        if result["moved_against_will"]:
            raise SystemExit(f"{size}: guests are moved that may not move")
    bound = took["bound"]
    return [
        size.replace("x", " x "),
        budget_text,
        f"{took['wall']:.2f}",
        f"{took['cpu']:.2f}",
        f"{took['peak']:,.0f}",
        f"{took['reading']:,.0f}",
        f"{result['migrations']:,}",
        f"{result['gib_moved']:,.0f}",
        f"{result['rules_broken_before']} → {result['rules_broken_after']}",
        " → ".join(f"{each:.4f}" for each in took["uneven"]),
        "" if bound is None else f"{bound:.4f}",
        str(overfull),
        unsafe_steps,
    ]


def _run(command: list[Any], status: tuple[int, ...] = (0,)) -> str:
    """Return what *command* printed; its complaints go where ours go."""
    # As the command line has it: a second thread of linear algebra only waits.
    environment = {"OPENBLAS_NUM_THREADS": "1"} | os.environ
    process = subprocess.run(  # noqa: S603 - programs named above
        [str(each) for each in command],
        check=False,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    if process.returncode not in status:
        raise SystemExit(f"{command[1]} ended with {process.returncode}")
    return process.stdout


def main() -> None:
    """Print the table, or plan once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--budgets", default="unlimited,knee,2%")
    parser.add_argument("--folder", type=Path, default=Path("build") / "growth")
    parser.add_argument("--judged", type=int, default=60_000, metavar="GUESTS")
    parser.add_argument("--one", nargs=3, metavar=("SNAPSHOT", "BUDGET", "PLAN"))
    options = parser.parse_args()
    if options.one:
        path, budget, answer = options.one
        print(json.dumps(measure_plan(Path(path), budget, Path(answer))))
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    print("| " + " | ".join(HEADS) + " |")
    print("|---|---|" + "---:|" * (len(HEADS) - 2))
    for size in options.sizes.split(","):
        for budget in options.budgets.split(","):
            cells = table_row(size, budget, options.folder, options.judged)
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
