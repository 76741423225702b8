"""Plot of a backtest: load and imbalance over time, and load over cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from opendrs.simulation.backtest import BacktestRow, LoadRecord, RowKind
from opendrs.simulation.plots.style import color, plot_style, save_figure

if TYPE_CHECKING:  # matplotlib takes a second to import
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DAY = 86_400  # seconds
MAX_POINTS = 240  # points of one line; more snapshots are averaged
REFERENCE_STYLES = {
    RowKind.RECORDED: ("#000000", "-"),
    RowKind.STATIC: ("#000000", "--"),
    RowKind.BEST: ("#000000", ":"),
}
REFERENCE_NAMES = {
    RowKind.RECORDED: "as recorded",
    RowKind.STATIC: "nothing moved",
    RowKind.BEST: "best plan",
}


def draw_backtest(
    title: str,
    record: LoadRecord,
    rows: Sequence[BacktestRow],
    path: Path,
    suffix: str,
) -> None:
    """Write a plot of *rows* to *path*.

    Args:
        title: Name of the record.
        record: The recorded load.
        rows: The rows of the backtest.
        path: Output file.
        suffix: .svg, .png or .pdf.

    Raises:
        OSError: The file cannot be written.
    """
    with plot_style():
        figure = _figure(record, rows)
        figure.suptitle(
            f"Backtest: {title}", x=0.01, ha="left", fontsize=12, fontweight="bold"
        )
        save_figure(figure, path, suffix)


def _figure(record: LoadRecord, rows: Sequence[BacktestRow]) -> Figure:
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(12, 8.5), layout="constrained")
    grid = figure.add_gridspec(2, 2, width_ratios=[1.7, 1])
    highest = figure.add_subplot(grid[0, 0])
    imbalance = figure.add_subplot(grid[1, 0], sharex=highest)
    contention = figure.add_subplot(grid[0, 1])
    cost = figure.add_subplot(grid[1, 1])
    _draw_lines(highest, record, rows, "highest_load", percent=True)
    highest.set_title("load of the most loaded node, CPU or memory (%)")
    _draw_lines(imbalance, record, rows, "imbalance", percent=False)
    imbalance.set_title("imbalance of the node loads (CV)")
    imbalance.set_xlabel("days since the first snapshot")
    _draw_contention(contention, rows)
    _draw_cost(cost, rows)
    handles, labels = highest.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, fontsize=8.5)
    return figure


def _style(rows: Sequence[BacktestRow], row: BacktestRow) -> tuple[str, str, str]:
    """Return the name, color and line style of *row*."""
    if row.kind in REFERENCE_NAMES:
        return (REFERENCE_NAMES[row.kind], *REFERENCE_STYLES[row.kind])
    policies = [each for each in rows if each.kind not in REFERENCE_NAMES]
    return row.name, color(policies.index(row)), "-"


def _draw_lines(
    axes: Axes,
    record: LoadRecord,
    rows: Sequence[BacktestRow],
    column: str,
    *,
    percent: bool,
) -> None:
    """Draw *column* over time, averaged where snapshots are many; gaps are open."""
    stride = -(-len(record) // MAX_POINTS)
    days = np.array(record.offsets)[::stride] / DAY
    gaps = [(gap.start - record.times[0]).total_seconds() / DAY for gap in record.gaps]
    gap_positions = np.searchsorted(days, gaps, side="right")
    for row in rows:
        name, line_color, line_style = _style(rows, row)
        values = [getattr(point, column) for point in row.series]
        known = np.array([np.nan if each is None else each for each in values])
        means = _averaged(known, stride) * (100 if percent else 1)
        axes.plot(
            np.insert(days, gap_positions, gaps),
            np.insert(means, gap_positions, np.nan),
            color=line_color,
            linestyle=line_style,
            linewidth=1.1,
            label=name,
        )
    axes.set_ylim(bottom=0)
    axes.grid(color="#e5e5e5")


def _averaged(
    values: np.ndarray[tuple[int], np.dtype[np.float64]], stride: int
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the means of each *stride* values; NaN if one of them is unknown."""
    return np.array(
        [
            values[start : start + stride].mean()
            for start in range(0, len(values), stride)
        ]
    )


def _draw_contention(axes: Axes, rows: Sequence[BacktestRow]) -> None:
    styles = [_style(rows, row) for row in rows]
    minutes = [row.metrics.contention_minutes for row in rows]
    positions = range(len(rows))
    axes.barh(
        positions,
        [each or 0.0 for each in minutes],
        color=[line_color for _, line_color, _ in styles],
    )
    labels = [
        name if value is not None else f"{name} (unknown)"
        for (name, _, _), value in zip(styles, minutes, strict=True)
    ]
    axes.set_yticks(positions, labels)
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.set_title("contention: guest minutes on nodes over capacity")


def _draw_cost(axes: Axes, rows: Sequence[BacktestRow]) -> None:
    """Draw the mean highest load over the transferred memory."""
    names: defaultdict[tuple[float, float], list[str]] = defaultdict(list)
    for row in rows:
        load = row.metrics.highest_load_mean
        if row.kind is RowKind.BEST or row.gib is None or load is None:
            continue
        name, line_color, _ = _style(rows, row)
        marker = "X" if row.metrics.rules_broken_at_end else "o"
        axes.plot(row.gib, load * 100, marker=marker, color=line_color)
        names[round(row.gib, 1), round(load * 100, 1)].append(name)
    for position, same in names.items():
        axes.annotate(
            "\n".join(same),
            position,
            xytext=(6, 0),
            textcoords="offset points",
            verticalalignment="center",
            fontsize=8,
        )
    axes.margins(x=0.35, y=0.18)
    _, right = axes.get_xlim()
    axes.set_xlim(-0.05 * right, right)
    axes.grid(color="#e5e5e5")
    axes.set_xlabel("memory migrated (GiB); X: strict rules violated at the end")
    axes.set_title("mean load of the most loaded node (%)")
