"""A picture of one run, or of several side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from opendrs.sim.consolidation.front import on_front
from opendrs.sim.consolidation.pictures.hosts import (
    draw_active,
    draw_counts,
    draw_loads,
    draw_migrations,
    draw_power,
    label_time,
    left_out,
    often_on,
)
from opendrs.sim.consolidation.pictures.scatter import Point, draw_points
from opendrs.sim.consolidation.pictures.style import colour, save, style
from opendrs.sim.consolidation.series import Film, Series

if TYPE_CHECKING:  # takes a second, and is needed only when something is drawn
    from collections.abc import Iterable

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

WIDEST = 3  # heat maps side by side
WIDTH = 12.0  # inches


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A run as it is drawn.

    Attributes:
        label: What the policy is called.
        series: The run interval by interval.
        film: The load of each host.
        energy_kwh: What it cost.
        slav: How badly guests were served.
    """

    label: str
    series: Series
    film: Film
    energy_kwh: float
    slav: float


def draw_runs(title: str, runs: Sequence[Shown], path: Path, suffix: str) -> None:
    """Write a picture of *runs* to *path*; of several, energy against SLAV too.

    Args:
        title: What stands above it.
        runs: At least one.
        path: Where to.
        suffix: .svg, .png or .pdf.

    Raises:
        OSError: It cannot be written.
    """
    with style():
        figure = _one(runs[0]) if len(runs) == 1 else _several(runs)
        figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
        save(figure, path, suffix)


def _figure(height: float) -> Figure:
    from matplotlib.figure import Figure  # noqa: PLC0415

    return Figure(figsize=(WIDTH, height), layout="constrained")


def _one(run: Shown) -> Figure:
    figure = _figure(8.6)
    loads, counts, power, moves = figure.subplots(
        4, 1, sharex=True, height_ratios=[3.4, 1.5, 1.1, 0.9]
    )
    image = draw_loads(loads, run.film, run.series)
    loads.set_title(f"load of each host under {run.label}")
    loads.set_title(left_out(run.film), loc="right", fontsize=8, color="#777777")
    _key(figure, image, [loads])
    draw_counts(counts, run.series)
    draw_power(power, run.series)
    draw_migrations(moves, run.series)
    label_time(moves, run.series)
    return figure


def _several(runs: Sequence[Shown]) -> Figure:
    wide = 2 if len(runs) in (2, 4) else WIDEST
    rows = -(-len(runs) // wide)
    figure = _figure(2.4 * rows + 4.4)
    above, below = figure.subfigures(
        2, 1, squeeze=False, height_ratios=[2.4 * rows, 3.8]
    ).ravel()
    maps = above.subplots(rows, wide, squeeze=False, sharey=True).ravel()
    for axes in maps[len(runs) :]:
        axes.set_visible(False)
    images = [
        _small(axes, number, run)
        for number, (axes, run) in enumerate(zip(maps, runs, strict=False))
    ]
    for axes in maps[wide::wide]:
        axes.set_ylabel("hosts")
    maps[0].set_ylabel("hosts")
    maps[0].set_ylim(0, max(len(often_on(run.film.loads())) for run in runs) or 1)
    _key(above, images[0], list(maps))
    active, scatter = below.subplots(1, 2, width_ratios=[1.7, 1])
    draw_active(active, [(run.label, run.series) for run in runs])
    label_time(active, runs[0].series)
    active.legend(
        loc="lower left", bbox_to_anchor=(0, 1), ncols=4, fontsize=8.5, borderpad=0
    )
    draw_points(scatter, _points(runs), "energy, kWh", "SLAV")
    scatter.set_title("better is down and to the left", fontsize=9)
    return figure


def _small(axes: Axes, number: int, run: Shown) -> AxesImage:
    image = draw_loads(axes, run.film, run.series)
    axes.set_title(run.label, color=colour(number))
    axes.set_ylabel("")
    label_time(axes, run.series, marks=6)
    return image


def _points(runs: Sequence[Shown]) -> list[Point]:
    best = on_front([run.energy_kwh for run in runs], [run.slav for run in runs])
    return [
        Point(x=run.energy_kwh, y=run.slav, group=number, best=bool(best[number]))
        for number, run in enumerate(runs)
    ]


def _key(figure: Figure, image: AxesImage, axes: Iterable[Axes]) -> None:
    bar = figure.colorbar(
        image, ax=list(axes), extend="max", pad=0.012, aspect=32, fraction=0.03
    )
    bar.set_label("load (red: overloaded)")
    bar.ax.yaxis.set_major_formatter(lambda load, _: f"{load:.0%}")
    bar.outline.set_visible(False)
