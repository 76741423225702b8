"""CPU time and memory of whole cycles: observe, decide, record, guard.

    .venv/bin/python benchmarks/runners/cycle_cpu.py
    .venv/bin/python benchmarks/runners/cycle_cpu.py --before ../older/src

Each row is two cycles of `run_cycle` in a process of their own. The platform is a
snapshot file, which is read in every cycle, and the store is an SQLite file. The guard
checks each of the first 100 steps of the plan on the snapshot of the cycle; `balance`
makes no larger plan. Nothing is executed, so both cycles have the same plan. The first
one records the whole snapshot, and loads code. The parts are those of the second.

`--before` names the sources of another commit. They are measured in turn with these,
since the load of other processes changes CPU seconds, and the ratio of the second
cycles is shown. Plans that differ from those before are marked.

Default snapshots are those in `data/clusters` below OPENDRS_SHARED, or beside the
project.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

BESIDE = Path(__file__).parents[3] / "shared"
CLUSTERS = Path(os.environ.get("OPENDRS_SHARED", BESIDE)) / "data" / "clusters"
NAMES = (
    "c100x2000.plain", "c100x2000.rules", "c1000x20000.plain", "c1000x20000.rules",
)  # fmt: skip
POLICIES = "balance,optimize"
MOST_CHECKED = 100  # steps of a plan
PARTS = ("observe", "decide", "record", "guard")
HEADS = (
    "snapshot", "policy", "steps", "first cycle s", "next cycle s", *PARTS, "MiB",
    "before s", "ratio",
)  # fmt: skip
SOURCES = Path(__file__).parents[2] / "src"
Json = dict[str, Any]


class CpuTimes:
    """CPU seconds of the parts of a cycle."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return *function*, whose time is added to *part*."""

        def measured(*arguments: object) -> Any:  # noqa: ANN401 - as the function
            begun = process_time()
            try:
                return function(*arguments)
            finally:
                self.seconds[part] += process_time() - begun

        return measured


class SilentObserver:
    """Cycle observer that ignores the events."""

    def recovery_started(self, records: object) -> None:
        """Do nothing."""

    def decision_recorded(self, decided: object) -> None:
        """Do nothing."""

    def running_steps(self) -> Any:  # noqa: ANN401 - never used
        """Raise an error: no step is started."""
        raise NotImplementedError


def measure(path: Path, policy_name: str) -> Json:
    """Run two cycles in this process; return the measurements."""
    # Imported here: the parent process only starts processes.
    from opendrs.cli import main as command_line  # noqa: PLC0415
    from opendrs.config.policy_loading import build_policy  # noqa: PLC0415
    from opendrs.controller import (  # noqa: PLC0415
        CancellationToken,
        CycleContext,
        ExecutionContext,
        NullObserver,
        run_cycle,
    )
    from opendrs.controller.clock import SystemClock  # noqa: PLC0415
    from opendrs.controller.compiled_code import provide_always  # noqa: PLC0415
    from opendrs.controller.consent import ConsentApproval  # noqa: PLC0415
    from opendrs.controller.cycle import PolicyDecisionSource, evaluations  # noqa: PLC0415
    from opendrs.guard import check  # noqa: PLC0415
    from opendrs.platforms.snapshot_file import SnapshotFilePlatform  # noqa: PLC0415
    from opendrs.store import SqliteStore  # noqa: PLC0415

    # As every command does; the sources compared with may be older.
    getattr(command_line, "collect_garbage_less_often", lambda: None)()
    provide_always(lambda line: print(line, file=sys.stderr))
    policy = build_policy(policy_name, {})
    platform = SnapshotFilePlatform(path)
    times = CpuTimes()
    with (
        tempfile.TemporaryDirectory() as folder,
        SqliteStore(Path(folder) / "store.sqlite") as store,
    ):

        def consent(decided: Any) -> bool:  # noqa: ANN401 - imported above
            for step in decided.decision.plan.steps[:MOST_CHECKED]:
                check([step.action], decided.snapshot, policy.limits)
            return False

        source = PolicyDecisionSource(policy, store)
        source.evaluations = times.timed(  # type: ignore[method-assign]
            "decide", lambda snapshot: [next(evaluations(snapshot, policy, store))]
        )
        store.record_cycle = times.timed("record", store.record_cycle)  # type: ignore[method-assign]
        context = CycleContext(
            command="run",
            execution=ExecutionContext(
                platform=platform,
                clock=SystemClock(),
                store=store,
                limits=policy.limits,
                observer=NullObserver(),
                cancellation=CancellationToken(),
            ),
            observe=times.timed("observe", platform.observe),
            decision_source=source,
            approval=ConsentApproval(times.timed("guard", consent)),
            observer=SilentObserver(),
        )
        cycles = []
        for _ in range(2):
            times.seconds.clear()
            begun = process_time()
            decided = run_cycle(context).decided
            cycles.append(process_time() - begun)
    assert decided is not None  # noqa: S101 - nothing requests a stop
    decision = decided.decision
    result = repr((decision.plan, decision.detail, decision.notes))
    return {
        "steps": len(decision.plan.steps),
        "cycles": cycles,
        "parts": [times.seconds[part] for part in PARTS],
        "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "digest": hashlib.sha256(result.encode()).hexdigest(),
    }


def measured_with(sources: Path, path: Path, policy: str) -> Json:
    """Return the measurements of the code in *sources*, in a process of its own."""
    environment = os.environ | {
        "PYTHONPATH": str(sources.resolve()),
        "OPENBLAS_NUM_THREADS": "1",  # as in the command line
    }
    process = subprocess.run(  # noqa: S603 - this program
        [sys.executable, __file__, "--one", str(path), policy],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    result: Json = json.loads(process.stdout)
    return result


def table_row(path: Path, policy: str, before: Path | None) -> list[str]:
    """Return the cells of one policy on one snapshot."""
    now = measured_with(SOURCES, path, policy)
    cells = [
        path.stem,
        policy,
        f"{now['steps']:,}",
        *(f"{seconds:.2f}" for seconds in (*now["cycles"], *now["parts"])),
        f"{now['mib']:.0f}",
    ]
    if before is None:
        return [*cells, "", ""]
    then = measured_with(before, path, policy)
    same = "" if then["digest"] == now["digest"] else " (another plan)"
    ratio = then["cycles"][1] / now["cycles"][1]
    return [*cells, f"{then['cycles'][1]:.2f}{same}", f"{ratio:.1f}"]


def plain_file(name: str, folder: Path) -> Path:
    """Return the snapshot *name* as a file that is not compressed."""
    path = CLUSTERS / f"{name}.json"
    packed = path.with_name(path.name + ".gz")
    if path.exists() or not packed.exists():
        return path
    unpacked = folder / path.name
    unpacked.write_bytes(gzip.decompress(packed.read_bytes()))
    return unpacked


def main() -> None:
    """Print the table as Markdown, or measure one policy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=NAMES, metavar="NAME")
    parser.add_argument("--policies", default=POLICIES)
    parser.add_argument("--before", type=Path, metavar="SOURCES")
    parser.add_argument("--one", nargs=2, metavar=("SNAPSHOT", "POLICY"))
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(Path(options.one[0]), options.one[1])))
        return
    print(f"| {' | '.join(HEADS)} |\n|---|---|{'---:|' * (len(HEADS) - 2)}")
    with tempfile.TemporaryDirectory() as folder:
        for name in options.names:
            path = plain_file(name, Path(folder))
            if not path.exists():
                raise SystemExit(f"{path}: not found; set OPENDRS_SHARED")
            for policy in options.policies.split(","):
                cells = table_row(path, policy, options.before)
                print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
