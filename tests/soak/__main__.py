"""A long run of the controller against faults and kills, judged by true events.

make soak                                5,000 cycles from seed 1
make soak SEED=1234 CYCLES=1             one episode again
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections import Counter
from pathlib import Path

from soak.episode import Episode, Result
from soak.truth import Violation

FORKED = 8  # each eighth episode kills real processes
LINES = 30  # of a trace


def main() -> int:
    """Run it; return 1 if a promise was not kept."""
    parser = argparse.ArgumentParser(
        prog="make soak",
        description="Run controllers against faults and kills; judge by true events.",
    )
    add = parser.add_argument
    add("--cycles", type=int, default=5000, help="end after N cycles", metavar="N")
    add("--seed", type=int, default=1, help="seed of the first episode", metavar="N")
    add("--place", type=Path, help="directory for the records", metavar="DIR")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="opendrs-soak-", dir=chosen.place) as place:
        return _soak(chosen.seed, chosen.cycles, Path(place))


def play(seed: int, place: Path) -> Result:
    """Play the episode of *seed*."""
    return Episode(seed, place, forked=seed % FORKED == 0).play()


def _soak(seed: int, cycles: int, place: Path) -> int:
    total: Counter[str] = Counter()
    failed = 0
    while total["cycles"] < cycles:
        found = play(seed, place)
        total["cycles"] += found.cycles
        total["kills"] += found.kills
        total["of them by SIGKILL"] += found.kills if seed % FORKED == 0 else 0
        total += found.counts
        if found.failed:
            failed += 1
            print(describe(found))
        elif sys.stderr.isatty():
            print(f"\r{total['cycles']} cycles", end="", file=sys.stderr)
        seed += 1
    for name, count in sorted(total.items()):
        print(f"{name:32} {count:9,}")
    print(f"{'episodes that failed':32} {failed:9,}")
    return 1 if failed else 0


def describe(result: Result) -> str:
    """Return what was found in an episode, and what led to it."""
    lines = [f"\nseed {result.seed}: {result.about}"]
    lines += result.crashes
    for violation in result.violations[:3]:
        lines.append(f"  {violation.at:.1f} s: {violation.promise}: {violation.detail}")
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
    shown = sorted({*about[-LINES:], *around[-LINES // 3 :]}, key=past.index)
    return [f"  {at:10.1f}  {text}" for at, text in shown]


def _names(text: str) -> set[str]:
    return {word.rpartition("=")[2].strip(",") for word in text.split()}


if __name__ == "__main__":
    sys.exit(main())
