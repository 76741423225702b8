"""Plot of the predicted and the real durations of migrations."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, log10
from pathlib import Path

from opendrs.simulation.plots.style import (
    GRID_COLOR,
    color,
    draw_grid,
    plot_style,
    save_figure,
)

SIZE = (5.2, 4.2)  # inches
MARGIN = 1.5  # factor beyond the shortest and the longest duration


def draw_durations(
    pairs: Sequence[tuple[float, float]], path: Path, suffix: str
) -> None:
    """Write a plot of durations to *path*: the diagonal is a correct prediction.

    Args:
        pairs: Predicted and real seconds of each migration, above 0; at least one.
        path: Output file.
        suffix: .svg, .png or .pdf.

    Raises:
        OSError: The file cannot be written.
    """
    # matplotlib takes a second to import.
    from matplotlib.figure import Figure  # noqa: PLC0415
    from matplotlib.ticker import FormatStrFormatter, NullFormatter  # noqa: PLC0415

    predicted, real = zip(*pairs, strict=True)
    # From a power of ten to a power of ten, so that both axes have numbers.
    ends = (
        10 ** floor(log10(min(predicted + real) / MARGIN)),
        10 ** ceil(log10(max(predicted + real) * MARGIN)),
    )
    with plot_style():
        figure = Figure(figsize=SIZE, layout="constrained")
        axes = figure.subplots()
        axes.set_title("Duration of migrations")
        axes.set_xscale("log")
        axes.set_yscale("log")
        for axis in (axes.xaxis, axes.yaxis):  # numbers rather than powers of ten
            axis.set_major_formatter(FormatStrFormatter("%g"))
            axis.set_minor_formatter(NullFormatter())
        axes.set_xlim(*ends)
        axes.set_ylim(*ends)
        axes.set_aspect("equal")
        axes.plot(ends, ends, color=GRID_COLOR, linewidth=1.2)
        axes.scatter(
            predicted, real, s=18, color=color(0), alpha=0.7, edgecolors="none"
        )
        axes.set_xlabel("predicted (s)")
        axes.set_ylabel("real (s)")
        draw_grid(axes, "both")
        save_figure(figure, path, suffix)
