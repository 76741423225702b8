"""What came of a sweep: told, and drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from opendrs.cli.figures import counted
from opendrs.cli.screen import add_row, console, table, visible
from opendrs.errors import InvalidSettingError
from opendrs.platforms.file import shown_path
from opendrs.sim.consolidation.outputs import Drafts
from opendrs.sim.consolidation.sweep.summary import Candidate

MOST_ROWS = 40  # of the table; more are in the results
FURTHER = ("bound_ratio", "migrations")  # metrics told besides the front
BEST = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a sweep.

    Attributes:
        title: What it is called.
        results: Where all runs are.
        runs: How many there are.
        computed: How many of them were not there before.
        front: The two metrics that were weighed.
        candidates: What was tried, by the first of them.
    """

    title: str
    results: Path
    runs: int
    computed: int
    front: tuple[str, str]
    candidates: Sequence[Candidate]


def document(outcome: Outcome) -> dict[str, object]:
    """Return *outcome* as plain values."""
    return {
        "title": outcome.title,
        "results": str(outcome.results),
        "runs": outcome.runs,
        "computed": outcome.computed,
        "front": list(outcome.front),
        "candidates": [
            {
                "label": each.label,
                "policy": each.name,
                "runs": each.runs,
                "on_front": each.best,
                "means": dict(each.means),
            }
            for each in outcome.candidates
        ],
    }


def print_outcome(outcome: Outcome) -> None:
    """Print a table of the candidates; of many, the front first of all."""
    screen = console()
    metrics = [*outcome.front, *(each for each in FURTHER if each not in outcome.front)]
    heads = [each.replace("_", " ") for each in metrics]
    made = table("", *heads, "policy", right=heads)
    shown = _shown(outcome.candidates)
    for each in shown:
        figures = [_figure(each.means.get(metric)) for metric in metrics]
        mark = BEST if each.best else ""
        add_row(made, mark, *figures, each.label)
    screen.print(made)
    screen.print()
    left = len(outcome.candidates) - len(shown)
    if left:
        screen.print(f"{left} more are not shown.")
    first, second = heads[:2]
    each_of = counted(outcome.candidates[0].runs, "run")
    screen.print(f"{BEST} on the front of {first} and {second}; means of {each_of}.")
    runs, new = counted(outcome.runs, "run"), outcome.computed
    screen.print(visible(f"{runs}, {new} of them new: {shown_path(outcome.results)}"))


def _shown(found: Sequence[Candidate]) -> list[Candidate]:
    if len(found) <= MOST_ROWS:
        return list(found)
    best = [each for each in found if each.best]
    others = [each for each in found if not each.best]
    chosen = {id(each) for each in [*best, *others][: max(MOST_ROWS, len(best))]}
    return [each for each in found if id(each) in chosen]


def _figure(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:.1f}"


def draw(outcome: Outcome, path: Path) -> None:
    """Draw *outcome* to *path*.

    Raises:
        InvalidSettingError: There is nothing to draw.
        InvalidFileError: It cannot be written.
    """
    from opendrs.sim.consolidation.pictures import (  # noqa: PLC0415 - seldom needed
        Drawn,
        draw_sweep,
    )

    first, second = outcome.front
    found = []
    for each in outcome.candidates:
        x, y = each.means.get(first), each.means.get(second)
        if x is not None and y is not None:
            found.append(
                Drawn(label=each.label, name=each.name, x=x, y=y, best=each.best)
            )
    if not found:
        raise InvalidSettingError(
            f"--plot: no policy has both {first} and {second}; see --front"
        )
    names = (_name(first), _name(second))
    with Drafts() as drafts:
        draw_sweep(outcome.title, found, names, drafts.new(path), path.suffix)


def _name(metric: str) -> str:
    spoken = {"energy_kwh": "energy, kWh", "slav": "SLAV", "esv": "ESV"}
    return spoken.get(metric, metric.replace("_", " "))
