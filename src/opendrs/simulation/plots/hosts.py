"""Plots of the hosts over time: load, counts, power, migrations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from opendrs.simulation.plots.style import (
    OFF_COLOR,
    OVERLOADED,
    TEXT_COLOR,
    color,
    draw_grid,
    load_colormap,
)
from opendrs.simulation.time_series import Float32Array, LoadFrames, TimeSeries
from opendrs.simulation.workload import Floats, Integers

if TYPE_CHECKING:  # matplotlib takes a second to import
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

HOUR, DAY = 3600.0, 86_400.0
MAX_SECONDS_IN_HOURS = 3 * DAY  # longer runs are labeled in days
MIN_TIME_ON = 0.05  # hosts that are on for a smaller part of the time are omitted
Y_MARGIN = 1.15  # upper limit of the axis, relative to the largest value
MAX_PEAK_RATIO = 1.6  # peaks above this multiple of typical values are cut off


def draw_loads(axes: Axes, frames: LoadFrames, series: TimeSeries) -> AxesImage:
    """Draw one row per host, the longest on at the bottom; darker is fuller.

    Hosts that are rarely on are omitted; see `frequently_on`.
    """
    loads = frames.loads()
    rows = frequently_on(loads)
    unit, _ = _time_unit(series)
    end = _edges(series)[-1] / unit
    image = axes.imshow(
        loads[:, rows].T if len(rows) else np.full((1, len(loads)), np.nan),
        aspect="auto",
        origin="lower",
        interpolation="nearest",
        extent=(0, end, 0, max(1, len(rows))),
        cmap=load_colormap(),
        vmin=0,
        vmax=1,
    )
    axes.set_facecolor(OFF_COLOR)
    axes.set_ylabel("hosts")
    return image


def frequently_on(loads: Float32Array) -> Integers:
    """Return the hosts that are often on, longest first.

    Args:
        loads: Load frames; shape (frames, hosts).
    """
    on = (~np.isnan(loads)).mean(axis=0)
    first = np.argmax(~np.isnan(loads), axis=0)
    order = np.lexsort((first, -on))
    frequent: Integers = order[on[order] >= MIN_TIME_ON]
    return frequent


def omitted_hosts_note(frames: LoadFrames) -> str:
    """Return a note on the number of omitted hosts; empty for none."""
    loads = frames.loads()
    omitted = loads.shape[1] - len(frequently_on(loads))
    if not omitted:
        return ""
    return (
        f"{omitted} of {loads.shape[1]} hosts are off for over {1 - MIN_TIME_ON:.0%} "
        "of the time, and omitted"
    )


def draw_counts(axes: Axes, series: TimeSeries) -> None:
    """Draw the number of hosts that are on, active, and overloaded."""
    unit, _ = _time_unit(series)
    edges = _edges(series) / unit
    style = {"edges": edges, "baseline": None, "linewidth": 1.4}
    axes.stairs(series.active_hosts, edges, fill=True, color=color(0), alpha=0.18)
    axes.stairs(series.hosts_on, **style, color="#8c8c8c", label="on")  # type: ignore[arg-type]
    axes.stairs(series.active_hosts, **style, color=color(0), label="with guests")  # type: ignore[arg-type]
    axes.stairs(series.overloaded_hosts, **style, color=OVERLOADED, label="overloaded")  # type: ignore[arg-type]
    axes.set_ylabel("hosts")
    _limit_y_axis(axes, [series.hosts_on])
    axes.legend(loc="upper right", ncols=3)
    draw_grid(axes)


def draw_active(axes: Axes, runs: Sequence[tuple[str, TimeSeries]]) -> None:
    """Draw the number of active hosts, one line per policy."""
    for number, (label, series) in enumerate(runs):
        unit, _ = _time_unit(series)
        axes.stairs(
            series.active_hosts,
            _edges(series) / unit,
            baseline=None,
            linewidth=1.4,
            color=color(number),
            label=label,
        )
    _limit_y_axis(axes, [series.active_hosts for _, series in runs])
    axes.set_ylabel("hosts with guests")
    draw_grid(axes)


def draw_power(axes: Axes, series: TimeSeries) -> None:
    """Draw the power of all hosts."""
    unit, _ = _time_unit(series)
    edges = _edges(series) / unit
    kilowatts = series.power_w / 1000
    axes.stairs(kilowatts, edges, fill=True, color=color(1), alpha=0.25)
    axes.stairs(kilowatts, edges, baseline=None, linewidth=1.4, color=color(1))
    axes.set_ylabel("power, kW")
    _limit_y_axis(axes, [kilowatts])
    draw_grid(axes)


def draw_migrations(axes: Axes, series: TimeSeries) -> None:
    """Draw the number of migrations that are started."""
    unit, _ = _time_unit(series)
    axes.stairs(series.migrations, _edges(series) / unit, fill=True, color=color(3))
    axes.set_ylabel("migrations")
    _limit_y_axis(axes, [series.migrations.astype(np.float64)])
    draw_grid(axes)


def label_time(axes: Axes, series: TimeSeries, max_ticks: int = 12) -> None:
    """Label the time axis with its unit and at most *max_ticks* ticks."""
    unit, name = _time_unit(series)
    axes.set_xlim(0, _edges(series)[-1] / unit)
    axes.set_xlabel(name)
    if name == "hours":
        axes.locator_params(axis="x", nbins=max_ticks, steps=[1, 2, 3, 4, 6, 10])


def _edges(series: TimeSeries) -> Floats:
    """Return the starts of all intervals, and the end of the last."""
    end = series.time_s[-1] + series.seconds[-1]
    return np.append(series.time_s, end)


def _time_unit(series: TimeSeries) -> tuple[float, str]:
    return (
        (DAY, "days") if _edges(series)[-1] > MAX_SECONDS_IN_HOURS else (HOUR, "hours")
    )


def _limit_y_axis(axes: Axes, columns: Sequence[Floats]) -> None:
    """Limit the axis; a short peak is cut off and annotated with its height."""
    highest = max(float(column.max()) for column in columns)
    typical = max(float(np.quantile(column, 0.98)) for column in columns)
    if typical <= 0 or highest <= MAX_PEAK_RATIO * typical:
        axes.set_ylim(0, max(highest, 1e-9) * Y_MARGIN)
        return
    axes.set_ylim(0, typical * 1.2 * Y_MARGIN)
    highest_column = max(columns, key=lambda column: float(column.max()))
    position = int(np.argmax(highest_column)) / len(highest_column)
    axes.annotate(
        f"up to {highest:.4g}",
        (position, 1.0),
        xytext=(12, -4),
        xycoords="axes fraction",
        textcoords="offset points",
        va="top",
        fontsize=8,
        color=TEXT_COLOR,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.5},
    )
