"""A picture of what the plan of each policy takes, and what it leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

from opendrs.cli.comparison import Outcome, Row
from opendrs.cli.figures import counted
from opendrs.errors import ConfigurationError
from opendrs.escapes import escaped_line
from opendrs.sim.labels import escape_labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PICTURES = (".svg", ".png", ".pdf")
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#666666")
# Of Okabe and Ito, Color Universal Design (2008): every eye can distinguish them.
BROKEN_COLOR = "#c00000"
NOW = "now"
KEPT, BROKEN = "o", "X"  # markers of what keeps all strict rules, and of what does not


def require_picture(path: Path) -> None:
    """Check that *path* can become a picture.

    Raises:
        ConfigurationError: It has another ending, is a directory, or its directory is
            not there.
    """
    if path.suffix not in PICTURES:
        raise ConfigurationError(
            f"{path}: a picture ends in {', '.join(PICTURES)}, not {path.suffix!r}"
        )
    if not path.absolute().parent.is_dir():
        raise ConfigurationError(f"{path}: there is no directory {path.parent}")
    if path.is_dir():
        raise ConfigurationError(f"{path}: is a directory")


def draw(
    path: Path,
    title: str,
    before: Outcome,
    rows: Sequence[Row],
    budgets: Sequence[Row],
) -> None:
    """Draw what the plan of each policy takes and leaves to *path*.

    Args:
        path: The picture.
        title: The name of the cluster.
        before: The cluster as it is.
        rows: The policies; one marker each.
        budgets: What `optimize` reaches with each budget; one line through all.

    Raises:
        ConfigurationError: The picture cannot be written.
    """
    # Takes a second, and is needed only when something is drawn.
    from matplotlib import rc_context  # noqa: PLC0415

    # Names may hold a dollar sign, which is no formula.
    with rc_context({"svg.hashsalt": "opendrs", "text.parse_math": False}):
        figure = _figure(title, before, rows, budgets)
        # No date in it: the same picture for the same data.
        metadata = {"Date": None} if path.suffix == ".svg" else None
        try:
            figure.savefig(path, metadata=metadata)
        except OSError as error:
            raise ConfigurationError(
                f"cannot write {path}: {error.strerror}"
            ) from error


@dataclass(frozen=True, slots=True)
class Point:
    """A marker of the picture: what some plans take, and what they leave.

    Attributes:
        gib: Memory that is migrated, in GiB.
        load: Load of the fullest node, in percent.
        broken: Strict rules that are broken.
    """

    gib: float
    load: float
    broken: int


def points(before: Outcome, rows: Sequence[Row]) -> dict[Point, list[str]]:
    """Return the markers, and the names of what each of them stands for."""
    found = {_point(before): [NOW]}
    for row in rows:
        found.setdefault(_point(row.after), []).append(row.name)
    return found


def _point(outcome: Outcome) -> Point:
    gib, load = round(outcome.gib, 2), round(outcome.highest * 100, 2)
    return Point(gib, load, outcome.broken)


def label_of(point: Point, names: Sequence[str]) -> str:
    """Return what is written beside a marker."""
    names = [escaped_line(name) for name in names]
    idle = [name for name in names if name != NOW]
    first = ", ".join(names)
    if NOW in names and idle:
        first = f"{NOW}; no migration: {', '.join(idle)}"
    first = "\n".join(wrap(first, 38))
    if not point.broken:
        return first
    return f"{first}\n{counted(point.broken, 'rule')} broken"


def _figure(
    title: str, before: Outcome, rows: Sequence[Row], budgets: Sequence[Row]
) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    from opendrs.cli.plot_labels import Label, place_labels  # noqa: PLC0415

    figure = Figure(figsize=(9, 5.5), dpi=100, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    marked = points(before, rows)
    by_budget = [_point(row.after) for row in budgets]
    if by_budget:
        _draw_budgets(axes, [_point(before), *by_budget])
    for number, point in enumerate(marked):
        color = COLORS[number % len(COLORS)] if marked[point] != [NOW] else "#000000"
        axes.plot(
            point.gib,
            point.load,
            color=color,
            marker=BROKEN if point.broken else KEPT,
            markersize=11,
            markeredgecolor=BROKEN_COLOR if point.broken else "white",
            linestyle="none",
            zorder=3,
        )
    _scale(axes, [*marked, *by_budget])
    axes.set_title(f"What each policy would do: {title}")
    axes.set_xlabel("memory migrated (GiB)")
    axes.set_ylabel("load of the fullest node, cpu or memory (%)")
    axes.grid(color="#e5e5e5")
    _explain(figure, by_budget, [*marked, *by_budget])
    escape_labels(figure)
    canvas.draw()  # type: ignore[no-untyped-call]  # positions are known only now
    labels = [
        Label(each.gib, each.load, label_of(each, names), _label_color(each))
        for each, names in marked.items()
    ]
    renderer = canvas.get_renderer()  # type: ignore[no-untyped-call]
    line = _along([_point(before), *by_budget]) if by_budget else []
    place_labels(axes, labels, line, renderer)
    return figure


def _along(points: Sequence[Point]) -> list[tuple[float, float]]:
    """Return positions on the line through *points*, for labels to avoid."""
    return [
        (
            one.gib + part * (other.gib - one.gib),
            one.load + part * (other.load - one.load),
        )
        for one, other in pairwise(points)
        for part in (step / 20 for step in range(21))
    ]


def _label_color(point: Point) -> str:
    return BROKEN_COLOR if point.broken else "#222222"


def _draw_budgets(axes: Axes, points: Sequence[Point]) -> None:
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
            marker=BROKEN if each.broken else KEPT,
            markersize=5,
            zorder=2,
        )


def _scale(axes: Axes, points: Sequence[Point]) -> None:
    """Leave space around the markers for their labels."""
    widest = max(each.gib for each in points) or 1.0
    loads = [each.load for each in points]
    height = max(max(loads) - min(loads), 4.0)
    axes.set_xlim(-0.06 * widest, 1.18 * widest)
    axes.set_ylim(min(loads) - 0.2 * height, max(loads) + 0.2 * height)


def _explain(
    figure: Figure, by_budget: Sequence[Point], points: Sequence[Point]
) -> None:
    from matplotlib.lines import Line2D  # noqa: PLC0415

    handles = [
        Line2D([], [], color="#555555", marker=KEPT, linestyle="none"),
        Line2D([], [], color=BROKEN_COLOR, marker=BROKEN, linestyle="none"),
        Line2D([], [], color="#999999", marker=KEPT, markersize=5),
    ]
    texts = ["all strict rules hold", "strict rules broken", "optimize, by budget"]
    broken = any(each.broken for each in points)
    shown = [True, broken, bool(by_budget)]
    figure.legend(
        [handle for handle, show in zip(handles, shown, strict=True) if show],
        [text for text, show in zip(texts, shown, strict=True) if show],
        loc="outside lower center",
        ncols=3,
        frameon=False,
    )
