"""Plot of the cost and the effect of the plan of each policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

from opendrs.cli.comparison import ClusterScore, ComparisonRow
from opendrs.errors import ConfigurationError, DiagnosticCode
from opendrs.escapes import escape_labels, escape_line
from opendrs.model import format_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PLOT_SUFFIXES = (".svg", ".png", ".pdf")
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#666666")
# Source: Okabe and Ito, Color Universal Design (2008), suitable for the color-blind.
VIOLATION_COLOR = "#c00000"
CURRENT_LABEL = "now"
SATISFIED_MARKER, VIOLATED_MARKER = "o", "X"  # all strict rules hold; some do not


def require_plot_path(path: Path) -> None:
    """Check that a plot can be written to *path*.

    Raises:
        ConfigurationError: The suffix is not supported, *path* is a directory, or its
            directory does not exist.
    """
    if path.suffix not in PLOT_SUFFIXES:
        raise ConfigurationError(
            f"{path}: expected a file name ending in {', '.join(PLOT_SUFFIXES)}, got "
            f"{path.suffix!r}"
        )
    if not path.absolute().parent.is_dir():
        raise ConfigurationError(
            f"{path}: directory not found: {path.parent}",
            code=DiagnosticCode.UNUSABLE_FILE,
        )
    if path.is_dir():
        raise ConfigurationError(
            f"{path}: expected a file, got a directory",
            code=DiagnosticCode.UNUSABLE_FILE,
        )


def draw_comparison(
    path: Path,
    title: str,
    before: ClusterScore,
    rows: Sequence[ComparisonRow],
    budgets: Sequence[ComparisonRow],
) -> None:
    """Plot the highest load over the migrated memory of each plan to *path*.

    Args:
        path: The file.
        title: The name of the cluster.
        before: The metrics of the cluster before any plan.
        rows: The policies; one marker each.
        budgets: The results of `optimize` for each budget; one line through all.

    Raises:
        ConfigurationError: The file cannot be written.
    """
    # The import takes a second and is needed only for plots.
    from matplotlib import rc_context  # noqa: PLC0415

    # A dollar sign in a name must not start a formula.
    with rc_context({"svg.hashsalt": "opendrs", "text.parse_math": False}):
        figure = _figure(title, before, rows, budgets)
        # Without a date, the same data gives the same file.
        metadata = {"Date": None} if path.suffix == ".svg" else None
        try:
            figure.savefig(path, metadata=metadata)
        except OSError as error:
            raise ConfigurationError(
                f"{path}: cannot write: {error.strerror}",
                code=DiagnosticCode.UNUSABLE_FILE,
            ) from error


@dataclass(frozen=True, slots=True)
class PlotMarker:
    """A marker of the plot; several plans may share one.

    Attributes:
        gib: Migrated memory in GiB.
        load: Load of the most loaded node in percent.
        violated_rules: Number of violated strict rules.
    """

    gib: float
    load: float
    violated_rules: int


def plot_markers(
    before: ClusterScore, rows: Sequence[ComparisonRow]
) -> dict[PlotMarker, list[str]]:
    """Return the markers, each with the names of its plans."""
    names_by_marker = {_plot_marker(before): [CURRENT_LABEL]}
    for row in rows:
        names_by_marker.setdefault(_plot_marker(row.after), []).append(row.name)
    return names_by_marker


def _plot_marker(score: ClusterScore) -> PlotMarker:
    gib, load = round(score.gib, 2), round(score.highest_load * 100, 2)
    return PlotMarker(gib, load, score.violated_rules)


def marker_label(point: PlotMarker, names: Sequence[str]) -> str:
    """Return the label of a marker."""
    names = [escape_line(name) for name in names]
    without_migrations = [name for name in names if name != CURRENT_LABEL]
    first = ", ".join(names)
    if CURRENT_LABEL in names and without_migrations:
        first = f"{CURRENT_LABEL}; no migration: {', '.join(without_migrations)}"
    first = "\n".join(wrap(first, 38))
    if not point.violated_rules:
        return first
    return f"{first}\n{format_count(point.violated_rules, 'rule')} violated"


def _figure(
    title: str,
    before: ClusterScore,
    rows: Sequence[ComparisonRow],
    budgets: Sequence[ComparisonRow],
) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    from opendrs.cli.plot_labels import (  # noqa: PLC0415
        PlotLabel,
        place_labels,
    )

    figure = Figure(figsize=(9, 5.5), dpi=100, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    markers = plot_markers(before, rows)
    by_budget = [_plot_marker(row.after) for row in budgets]
    if by_budget:
        _draw_budgets(axes, [_plot_marker(before), *by_budget])
    for number, point in enumerate(markers):
        color = (
            COLORS[number % len(COLORS)]
            if markers[point] != [CURRENT_LABEL]
            else "#000000"
        )
        axes.plot(
            point.gib,
            point.load,
            color=color,
            marker=VIOLATED_MARKER if point.violated_rules else SATISFIED_MARKER,
            markersize=11,
            markeredgecolor=VIOLATION_COLOR if point.violated_rules else "white",
            linestyle="none",
            zorder=3,
        )
    _set_limits(axes, [*markers, *by_budget])
    axes.set_title(f"Plans of all policies: {title}")
    axes.set_xlabel("memory migrated (GiB)")
    axes.set_ylabel("load of the most loaded node, cpu or memory (%)")
    axes.grid(color="#e5e5e5")
    _add_legend(figure, by_budget, [*markers, *by_budget])
    escape_labels(figure)
    canvas.draw()  # type: ignore[no-untyped-call]  # determines the positions
    labels = [
        PlotLabel(each.gib, each.load, marker_label(each, names), _label_color(each))
        for each, names in markers.items()
    ]
    renderer = canvas.get_renderer()  # type: ignore[no-untyped-call]
    line = _line_positions([_plot_marker(before), *by_budget]) if by_budget else []
    place_labels(axes, labels, line, renderer)
    return figure


def _line_positions(points: Sequence[PlotMarker]) -> list[tuple[float, float]]:
    """Return positions on the line through *points*, which labels must avoid."""
    return [
        (
            one.gib + fraction * (other.gib - one.gib),
            one.load + fraction * (other.load - one.load),
        )
        for one, other in pairwise(points)
        for fraction in (step / 20 for step in range(21))
    ]


def _label_color(point: PlotMarker) -> str:
    return VIOLATION_COLOR if point.violated_rules else "#222222"


def _draw_budgets(axes: Axes, points: Sequence[PlotMarker]) -> None:
    axes.plot(
        [each.gib for each in points],
        [each.load for each in points],
        color="#999999",
        linewidth=1,
        zorder=1,
    )
    for each in points[1:]:
        axes.plot(
            each.gib,
            each.load,
            color="#999999",
            marker=VIOLATED_MARKER if each.violated_rules else SATISFIED_MARKER,
            markersize=5,
            zorder=2,
        )


def _set_limits(axes: Axes, points: Sequence[PlotMarker]) -> None:
    """Leave space around the markers for their labels."""
    widest = max(each.gib for each in points) or 1.0
    loads = [each.load for each in points]
    height = max(max(loads) - min(loads), 4.0)
    axes.set_xlim(-0.06 * widest, 1.18 * widest)
    axes.set_ylim(min(loads) - 0.2 * height, max(loads) + 0.2 * height)


def _add_legend(
    figure: Figure, by_budget: Sequence[PlotMarker], points: Sequence[PlotMarker]
) -> None:
    from matplotlib.lines import Line2D  # noqa: PLC0415

    handles = [
        Line2D([], [], color="#555555", marker=SATISFIED_MARKER, linestyle="none"),
        Line2D([], [], color=VIOLATION_COLOR, marker=VIOLATED_MARKER, linestyle="none"),
        Line2D([], [], color="#999999", marker=SATISFIED_MARKER, markersize=5),
    ]
    texts = ["all strict rules hold", "strict rules violated", "optimize, by budget"]
    has_violations = any(each.violated_rules for each in points)
    visible = [True, has_violations, bool(by_budget)]
    figure.legend(
        [handle for handle, show in zip(handles, visible, strict=True) if show],
        [text for text, show in zip(texts, visible, strict=True) if show],
        loc="outside lower center",
        ncols=3,
        frameon=False,
    )
