"""Plot of one run, or of several side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from opendrs.simulation.metrics import metric_label, pareto_front
from opendrs.simulation.plots.hosts import (
    draw_active,
    draw_counts,
    draw_loads,
    draw_migrations,
    draw_power,
    frequently_on,
    label_time,
    omitted_hosts_note,
)
from opendrs.simulation.plots.scatter import ScatterPoint, draw_points
from opendrs.simulation.plots.style import color, plot_style, save_figure
from opendrs.simulation.time_series import LoadFrames, TimeSeries

if TYPE_CHECKING:  # matplotlib takes a second to import
    from collections.abc import Iterable

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

MAX_COLUMNS = 3  # heat maps side by side
WIDTH = 12.0  # inches


@dataclass(frozen=True, slots=True, kw_only=True)
class PlottedRun:
    """Run to be plotted.

    Attributes:
        label: Label of the policy.
        series: Time series of the run.
        frames: Load of each host over time.
        energy_kwh: Energy of the run.
        slav: SLA violation of the run.
    """

    label: str
    series: TimeSeries
    frames: LoadFrames
    energy_kwh: float
    slav: float


def draw_runs(title: str, runs: Sequence[PlottedRun], path: Path, suffix: str) -> None:
    """Write a plot of *runs* to *path*; of several, also energy against SLAV.

    Args:
        title: Title of the plot.
        runs: At least one run.
        path: Output file.
        suffix: .svg, .png or .pdf.

    Raises:
        OSError: The file cannot be written.
    """
    with plot_style():
        figure = (
            _single_run_figure(runs[0]) if len(runs) == 1 else _comparison_figure(runs)
        )
        figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
        save_figure(figure, path, suffix)


def _new_figure(height: float) -> Figure:
    from matplotlib.figure import Figure  # noqa: PLC0415

    return Figure(figsize=(WIDTH, height), layout="constrained")


def _single_run_figure(run: PlottedRun) -> Figure:
    figure = _new_figure(8.6)
    loads, counts, power, moves = figure.subplots(
        4, 1, sharex=True, height_ratios=[3.4, 1.5, 1.1, 0.9]
    )
    image = draw_loads(loads, run.frames, run.series)
    loads.set_title(f"load of each host under {run.label}")
    loads.set_title(
        omitted_hosts_note(run.frames), loc="right", fontsize=8, color="#777777"
    )
    _add_colorbar(figure, image, [loads])
    draw_counts(counts, run.series)
    draw_power(power, run.series)
    draw_migrations(moves, run.series)
    label_time(moves, run.series)
    return figure


def _comparison_figure(runs: Sequence[PlottedRun]) -> Figure:
    columns = 2 if len(runs) in (2, 4) else MAX_COLUMNS
    rows = -(-len(runs) // columns)
    figure = _new_figure(2.4 * rows + 4.4)
    top, bottom = figure.subfigures(
        2, 1, squeeze=False, height_ratios=[2.4 * rows, 3.8]
    ).ravel()
    maps = top.subplots(rows, columns, squeeze=False, sharey=True).ravel()
    for axes in maps[len(runs) :]:
        axes.set_visible(False)
    images = [
        _draw_small(axes, number, run)
        for number, (axes, run) in enumerate(zip(maps, runs, strict=False))
    ]
    for axes in maps[columns::columns]:
        axes.set_ylabel("hosts")
    maps[0].set_ylabel("hosts")
    maps[0].set_ylim(
        0, max(len(frequently_on(run.frames.loads())) for run in runs) or 1
    )
    _add_colorbar(top, images[0], list(maps))
    active, scatter = bottom.subplots(1, 2, width_ratios=[1.7, 1])
    draw_active(active, [(run.label, run.series) for run in runs])
    label_time(active, runs[0].series)
    active.legend(
        loc="lower left", bbox_to_anchor=(0, 1), ncols=4, fontsize=8.5, borderpad=0
    )
    draw_points(
        scatter, _points(runs), metric_label("energy_kwh"), metric_label("slav")
    )
    scatter.set_title("better is down and to the left", fontsize=9)
    return figure


def _draw_small(axes: Axes, number: int, run: PlottedRun) -> AxesImage:
    image = draw_loads(axes, run.frames, run.series)
    axes.set_title(run.label, color=color(number))
    axes.set_ylabel("")
    label_time(axes, run.series, max_ticks=6)
    return image


def _points(runs: Sequence[PlottedRun]) -> list[ScatterPoint]:
    on_front = pareto_front(
        [run.energy_kwh for run in runs], [run.slav for run in runs]
    )
    return [
        ScatterPoint(
            x=run.energy_kwh, y=run.slav, group=number, on_front=bool(on_front[number])
        )
        for number, run in enumerate(runs)
    ]


def _add_colorbar(figure: Figure, image: AxesImage, axes: Iterable[Axes]) -> None:
    bar = figure.colorbar(
        image, ax=list(axes), extend="max", pad=0.012, aspect=32, fraction=0.03
    )
    bar.set_label("load (red: overloaded)")
    bar.ax.yaxis.set_major_formatter(lambda load, _: f"{load:.0%}")
    bar.outline.set_visible(False)
