"""A long run of the controller against faults and kills, judged by true events.

make soak                                10,000 cycles from seed 1
make soak SEED=1234 CYCLES=1             one episode again
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections import Counter
from pathlib import Path
from statistics import median

from opendrs.ports import Outcome
from soak.group import LEASE_TIME
from soak.invariants import Violation
from soak.run import RunResult, SoakRun
from support.postgresql_server import PostgresqlServer, running_server

KINDS = 8  # of eight episodes, one kills real processes, and one has several at once
FORKED, GROUP = 0, 4
TRACE_LINES = 30  # of a trace


def main() -> int:
    """Run it; return 1 if a promise was not kept."""
    parser = argparse.ArgumentParser(
        prog="make soak",
        description="Run controllers against faults and kills; judge by true events.",
    )
    add = parser.add_argument
    add("--cycles", type=int, default=10_000, help="end after N cycles", metavar="N")
    add("--seed", type=int, default=1, help="seed of the first episode", metavar="N")
    add("--place", type=Path, help="directory for the records", metavar="DIR")
    chosen = parser.parse_args()
    directory = tempfile.TemporaryDirectory(prefix="opendrs-soak-", dir=chosen.place)
    with directory as place, running_server() as server:
        return _soak(chosen.seed, chosen.cycles, Path(place), server)


def run_seed(seed: int, place: Path, server: PostgresqlServer) -> RunResult:
    """Play the episode of *seed*."""
    kind = seed % KINDS
    return SoakRun(
        seed,
        place,
        forked=kind == FORKED,
        server=server if kind == GROUP else None,
    ).run()


def _soak(first: int, cycles: int, place: Path, server: PostgresqlServer) -> int:
    total: Counter[str] = Counter()
    takeovers: list[float] = []
    seed = first
    while total["cycles"] < cycles:
        found = run_seed(seed, place, server)
        total += found.counts
        total["cycles"] += found.cycles
        total["kills"] += found.kills
        total["SIGKILL"] += found.kills if seed % KINDS in (FORKED, GROUP) else 0
        takeovers += found.takeovers
        total["episodes that failed"] += found.failed
        if found.failed:
            print(describe(found), flush=True)
        _show_progress(seed - first + 1, total["cycles"])
        seed += 1
    failed = total["episodes that failed"]
    print(f"seeds {first} to {seed - 1}: {failed} of {seed - first} failed")
    print(_summary(total))
    if takeovers:
        print(
            f"{len(takeovers):,} takeovers of a lease of {LEASE_TIME:g} s: median "
            f"{median(takeovers):.2f} s, at most {max(takeovers):.2f} s"
        )
    return 1 if failed else 0


def _show_progress(episodes: int, cycles: int) -> None:
    """Show how far it is: on one line of a terminal, else once in ten episodes."""
    terminal = sys.stderr.isatty()
    if terminal or episodes % 10 == 0:
        start, end = ("\r", "") if terminal else ("", "\n")
        text = f"{start}{episodes:,} episodes, {cycles:,} cycles"
        print(text, end=end, file=sys.stderr, flush=True)


def _summary(total: Counter[str]) -> str:
    """Return how often what happened; a line for each kind."""
    outcomes = ", ".join(f"{each.value} {total[each]:,}" for each in Outcome)
    return f"""\
{total["cycles"]:,} cycles, {total["kills"]:,} kills, {total["SIGKILL"]:,} by SIGKILL
{total["start"]:,} starts, {total["abort"]:,} aborts; outcomes: {outcomes}
hosts: {total["silent"]:,} times silent, {total["crash"]:,} times failed
platform: {total["down"]:,} outages, {total["unanswered"]:,} unanswered questions \
about tasks, {total["task-unknown"]:,} about tasks that it had lost
store: {total["store-away"]:,} times away
operators: {total["command"]:,} commands, {total["approve"]:,} plans approved, \
{total["reject"]:,} rejected, {total["cancel"]:,} cancelled
clock: set {total["clock"]:,} times, cut {total["cooldown cut short by the clock"]:,} \
cooldowns short"""


def describe(result: RunResult) -> str:
    """Return what was found in an episode, and what led to it."""
    lines = [f"\nseed {result.seed}: {result.summary}"]
    lines += result.crashes
    for violation in result.violations[:3]:
        lines.append(
            f"  {violation.at:.1f} s: {violation.invariant}: {violation.detail}"
        )
    lines.append("what led to it, in true seconds:")
    lines += _relevant(result.trace, result.violations[:1])
    lines.append(f"replay: make soak SEED={result.seed} CYCLES=1")
    return "\n".join(lines)


def _relevant(
    trace: tuple[tuple[float, str], ...], violations: tuple[Violation, ...]
) -> list[str]:
    """Return the last events that name what is concerned, and of the clock."""
    names = {name for violation in violations for name in violation.names if name}
    until = violations[0].at if violations else math.inf
    past = [(at, text) for at, text in trace if at <= until]
    about = [event for event in past if not names or _names(event[1]) & names]
    around = [
        event for event in past if event[1].startswith(("clock", "process", "down"))
    ]
    shown = sorted(
        {*about[-TRACE_LINES:], *around[-TRACE_LINES // 3 :]}, key=past.index
    )
    return [f"  {at:10.1f}  {text}" for at, text in shown]


def _names(text: str) -> set[str]:
    return {word.rpartition("=")[2].strip(",") for word in text.split()}


if __name__ == "__main__":
    sys.exit(main())
