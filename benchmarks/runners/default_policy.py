"""Compare the policies with their default settings on snapshots, for the default.

    .venv/bin/python benchmarks/runners/default_policy.py [--cycles N] [SNAPSHOT]

Default snapshots are those in `data/clusters/` and `data/planner-cases/` below
OPENDRS_SHARED, or beside the project. Each policy decides as in `opendrs run`: violated
strict rules are repaired first. The table has the state after the first hour: 12
cycles, or fewer if a plan is empty. The load of each guest is constant. Settings that
delay the first plan (hold, interval, settle time) are off. CPU seconds are those of the
slowest decision, without imports.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from time import process_time
from typing import Any

from opendrs.cli.comparison import IMMEDIATE_SETTINGS, score_cluster
from opendrs.config import snapshot_from
from opendrs.config.policy_loading import build_policy
from opendrs.controller.compiled_code import provide_always
from opendrs.model import GIB, PowerOff, PowerOn, Snapshot
from opendrs.policies import BUILT_IN_POLICIES, decide

BESIDE = Path(__file__).parents[3] / "shared"
SHARED = Path(os.environ.get("OPENDRS_SHARED", BESIDE))
FOLDERS = ("clusters", "planner-cases")
CYCLES, INTERVAL = 12, timedelta(minutes=5)  # one hour with the default interval
HEADS = (
    "snapshot", "policy", "cycles", "migrations", "GiB", "violated rules",
    "highest load", "CPU CV", "memory CV", "CV of the mean", "CPU s",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class PolicyResult:
    """State of a cluster after some cycles with one policy.

    Attributes:
        snapshot: Name of the snapshot.
        policy: Name of the policy.
        cycles: Cycles with a plan.
        migrations: Number of migrations.
        gib: Memory transferred, in GiB.
        after: The cluster after these cycles.
        seconds: CPU seconds of the slowest decision.
    """

    snapshot: str
    policy: str
    cycles: int
    migrations: int
    gib: float
    after: Snapshot
    seconds: float

    @property
    def cells(self) -> list[str]:
        """Cells of the row of the table."""
        score = score_cluster(self.after)
        return [
            self.snapshot,
            self.policy,
            f"{self.cycles}",
            f"{self.migrations}",
            f"{self.gib:,.0f}",
            f"{score.violated_rules}",
            f"{score.highest_load:.1%}",
            f"{score.cpu:.3f}",
            f"{score.memory:.3f}",
            f"{score.mean:.3f}",
            f"{self.seconds:.2f}",
        ]


def run_cycles(
    name: str, snapshot: Snapshot, policy_name: str, most: int, **settings: object
) -> PolicyResult:
    """Return the result of at most *most* cycles with the policy *policy_name*."""
    immediate = IMMEDIATE_SETTINGS.get(policy_name, {})
    policy = build_policy(policy_name, {**immediate, **settings})
    memory = policy.initial_memory()
    cycles = migrations = 0
    gib = slowest = 0.0
    for _ in range(most):
        begun = process_time()
        decision = decide(policy, snapshot, memory)
        slowest = max(slowest, process_time() - begun)
        memory = decision.memory
        actions = [step.action for step in decision.plan.steps]
        if not actions:
            break
        moves = [each for each in actions if not isinstance(each, PowerOn | PowerOff)]
        cycles, migrations = cycles + 1, migrations + len(moves)
        gib += sum((snapshot.guests[m.guest].usage.memory or 0) / GIB for m in moves)
        moved = {each.guest for each in moves}
        after = snapshot.apply(*actions)
        guests = {
            key: replace(guest, migrated_at=snapshot.taken_at)
            if key in moved
            else guest
            for key, guest in after.guests.items()
        }
        snapshot = replace(after, guests=guests, taken_at=after.taken_at + INTERVAL)
    return PolicyResult(
        snapshot=name,
        policy=policy_name,
        cycles=cycles,
        migrations=migrations,
        gib=gib,
        after=snapshot,
        seconds=slowest,
    )


def read(path: Path) -> Snapshot:
    """Return the snapshot in the file *path*, which may be compressed."""
    raw = path.read_bytes()
    document: Any = json.loads(gzip.decompress(raw) if path.suffix == ".gz" else raw)
    return snapshot_from(document, path.name)


def default_snapshots() -> Iterator[Path]:
    """Yield the shared snapshots, the smallest first."""
    files = [
        path
        for folder in FOLDERS
        for path in (SHARED / "data" / folder).iterdir()
        if ".json" in path.name
    ]
    yield from sorted(files, key=lambda path: (path.stat().st_size, path.name))


def main() -> None:
    """Print the table as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("snapshots", nargs="*", type=Path, metavar="SNAPSHOT")
    parser.add_argument("--cycles", type=int, default=CYCLES)
    arguments = parser.parse_args()
    paths = arguments.snapshots or [*default_snapshots()]
    provide_always(lambda _: None)
    print(f"| {' | '.join(HEADS)} |\n|{'---|' * len(HEADS)}")
    for path in paths:
        snapshot, name = read(path), path.name.split(".json")[0]
        present = PolicyResult(
            snapshot=name,
            policy="(before)",
            cycles=0,
            migrations=0,
            gib=0.0,
            after=snapshot,
            seconds=0.0,
        )
        print(f"| {' | '.join(present.cells)} |", flush=True)
        for policy in sorted(BUILT_IN_POLICIES):
            cells = run_cycles(name, snapshot, policy, arguments.cycles).cells
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
