"""Report of a sweep: table, JSON document and plot."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from opendrs.cli.console import add_row, console, create_table, printable
from opendrs.config import display_path
from opendrs.errors import DiagnosticCode, InvalidSettingError
from opendrs.model import format_count
from opendrs.simulation.atomic_output import AtomicFiles
from opendrs.simulation.metrics import metric_label
from opendrs.simulation.sweep.results import SweepCandidate

MAX_ROWS = 40  # of the table; the file with the results has all
EXTRA_METRICS = ("bound_ratio", "migrations")  # shown besides those of the front
FRONT_MARKER = "*"
COUNTS = frozenset({"migrations", "shutdowns", "power_ons", "guests", "guests_left"})
MIN_ROUNDED = 1000  # from here, figures have one decimal in place of four digits


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepReport:
    """Result of a sweep.

    Attributes:
        title: The title of the sweep.
        results: The file with all runs.
        runs: The number of runs.
        computed: The number of runs that were not stored before.
        front: The two metrics of the Pareto front.
        candidates: The combinations, sorted by the first metric.
    """

    title: str
    results: Path
    runs: int
    computed: int
    front: tuple[str, str]
    candidates: Sequence[SweepCandidate]


def sweep_document(report: SweepReport) -> dict[str, object]:
    """Return *report* as a JSON document."""
    return {
        "title": report.title,
        "results": str(report.results),
        "runs": report.runs,
        "computed": report.computed,
        "front": list(report.front),
        "candidates": [
            {
                "label": each.label,
                "policy": each.name,
                "runs": each.runs,
                "on_front": each.on_front,
                "means": dict(each.means),
            }
            for each in report.candidates
        ],
    }


def print_sweep(report: SweepReport) -> None:
    """Print a table of the candidates; of more than 40, those on the front first."""
    screen = console()
    metrics = [
        *report.front,
        *(each for each in EXTRA_METRICS if each not in report.front),
    ]
    headings = [_heading(each) for each in metrics]
    listing = create_table("", *headings, "policy", right=headings)
    listed = _listed_candidates(report.candidates)
    for each in listed:
        figures = [_metric_text(metric, each.means.get(metric)) for metric in metrics]
        mark = FRONT_MARKER if each.on_front else ""
        add_row(listing, mark, *figures, each.label)
    screen.print(listing)
    screen.print()
    unlisted = len(report.candidates) - len(listed)
    if unlisted:
        screen.print(f"{unlisted} more not shown; all runs are in the results file.")
    first, second = map(metric_label, report.front)
    each_of = format_count(report.candidates[0].runs, "run")
    screen.print(
        f"{FRONT_MARKER} on the Pareto front of {first} and {second}; "
        f"means of {each_of}."
    )
    runs, new = format_count(report.runs, "run"), report.computed
    screen.print(
        printable(f"{runs}, {new} of them new; results: {display_path(report.results)}")
    )


def _heading(metric: str) -> str:
    """Return the abbreviation of *metric*, if its label ends with one, or its label."""
    label = metric_label(metric)
    abbreviation = re.search(r"\(([A-Z]{3,})\)$", label)
    return abbreviation[1] if abbreviation else label


def _listed_candidates(candidates: Sequence[SweepCandidate]) -> list[SweepCandidate]:
    if len(candidates) <= MAX_ROWS:
        return list(candidates)
    best = [each for each in candidates if each.on_front]
    others = [each for each in candidates if not each.on_front]
    chosen = {id(each) for each in [*best, *others][: max(MAX_ROWS, len(best))]}
    return [each for each in candidates if id(each) in chosen]


def _metric_text(metric: str, value: float | None) -> str:
    """Return the mean *value* with one decimal for a count, else with four digits."""
    if value is None:
        return "-"
    if metric in COUNTS or abs(value) >= MIN_ROUNDED:
        return f"{value:.1f}"
    return f"{value:#.4g}"


def draw_sweep_report(report: SweepReport, path: Path) -> None:
    """Plot *report* to *path*.

    Raises:
        InvalidSettingError: No candidate has both metrics.
        InvalidFileError: The file cannot be written.
    """
    from opendrs.simulation.plots import (  # noqa: PLC0415
        PlottedCandidate,
        draw_sweep,
    )

    first, second = report.front
    points = []
    for each in report.candidates:
        x, y = each.means.get(first), each.means.get(second)
        if x is not None and y is not None:
            points.append(
                PlottedCandidate(
                    label=each.label, name=each.name, x=x, y=y, on_front=each.on_front
                )
            )
    if not points:
        raise InvalidSettingError(
            f"--plot: no policy has both {first} and {second}; choose others with "
            "--front",
            code=DiagnosticCode.INCOMPLETE,
        )
    names = (metric_label(first), metric_label(second))
    with AtomicFiles() as drafts:
        draw_sweep(report.title, points, names, drafts.new(path), path.suffix)
