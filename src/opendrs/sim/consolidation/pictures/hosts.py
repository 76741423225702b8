"""The load of hosts over time, and how many are on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from opendrs.sim.consolidation.hardware import Floats, Integers
from opendrs.sim.consolidation.pictures.style import (
    ASLEEP,
    INK,
    OVERLOADED,
    colour,
    grid,
    loads,
)
from opendrs.sim.consolidation.series import Film, Series, Singles

if TYPE_CHECKING:  # takes a second, and is needed only when something is drawn
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

HOUR, DAY = 3600.0, 86_400.0
LONG = 3 * DAY  # from which on days are counted, not hours
SELDOM = 0.05  # part of the time; hosts that are on for less are left out
ROOM = 1.15  # above what is drawn
PEAK = 1.6  # times what is usual; more is cut off and told


def draw_loads(axes: Axes, film: Film, series: Series) -> AxesImage:
    """Draw a row for each host, the longest on at the bottom; the darker the fuller.

    Hosts that are hardly ever on are left out; see `often_on`.
    """
    found = film.loads()
    rows = often_on(found)
    unit, _ = _time_unit(series)
    end = _edges(series)[-1] / unit
    image = axes.imshow(
        found[:, rows].T if len(rows) else np.full((1, len(found)), np.nan),
        aspect="auto",
        origin="lower",
        interpolation="nearest",
        extent=(0, end, 0, max(1, len(rows))),
        cmap=loads(),
        vmin=0,
        vmax=1,
    )
    axes.set_facecolor(ASLEEP)
    axes.set_ylabel("hosts")
    return image


def often_on(found: Singles) -> Integers:
    """Return the hosts that are often on, the longest first.

    Args:
        found: The frames of a film.
    """
    on = (~np.isnan(found)).mean(axis=0)
    first = np.argmax(~np.isnan(found), axis=0)
    order = np.lexsort((first, -on))
    often: Integers = order[on[order] >= SELDOM]
    return often


def left_out(film: Film) -> str:
    """Return how many hosts of *film* are not drawn, and why; empty for none."""
    found = film.loads()
    left = found.shape[1] - len(often_on(found))
    if not left:
        return ""
    return (
        f"{left} of {found.shape[1]} hosts are off for over {1 - SELDOM:.0%} of the "
        "time, and left out"
    )


def draw_counts(axes: Axes, series: Series) -> None:
    """Draw how many hosts are on, how many have guests, and how many too much."""
    unit, _ = _time_unit(series)
    edges = _edges(series) / unit
    style = {"edges": edges, "baseline": None, "linewidth": 1.4}
    axes.stairs(series.active_hosts, edges, fill=True, color=colour(0), alpha=0.18)
    axes.stairs(series.hosts_on, **style, color="#8c8c8c", label="on")  # type: ignore[arg-type]
    axes.stairs(series.active_hosts, **style, color=colour(0), label="with guests")  # type: ignore[arg-type]
    axes.stairs(series.overloaded_hosts, **style, color=OVERLOADED, label="overloaded")  # type: ignore[arg-type]
    axes.set_ylabel("hosts")
    _cut(axes, [series.hosts_on])
    axes.legend(loc="upper right", ncols=3)
    grid(axes)


def draw_active(axes: Axes, many: Sequence[tuple[str, Series]]) -> None:
    """Draw how many hosts have guests, a line for each policy."""
    for number, (label, series) in enumerate(many):
        unit, _ = _time_unit(series)
        axes.stairs(
            series.active_hosts,
            _edges(series) / unit,
            baseline=None,
            linewidth=1.4,
            color=colour(number),
            label=label,
        )
    _cut(axes, [series.active_hosts for _, series in many])
    axes.set_ylabel("hosts with guests")
    grid(axes)


def draw_power(axes: Axes, series: Series) -> None:
    """Draw the power of all hosts."""
    unit, _ = _time_unit(series)
    edges = _edges(series) / unit
    kilowatts = series.power_w / 1000
    axes.stairs(kilowatts, edges, fill=True, color=colour(1), alpha=0.25)
    axes.stairs(kilowatts, edges, baseline=None, linewidth=1.4, color=colour(1))
    axes.set_ylabel("power, kW")
    _cut(axes, [kilowatts])
    grid(axes)


def draw_migrations(axes: Axes, series: Series) -> None:
    """Draw how many guests are set on their way."""
    unit, _ = _time_unit(series)
    axes.stairs(series.migrations, _edges(series) / unit, fill=True, color=colour(3))
    axes.set_ylabel("migrations")
    _cut(axes, [series.migrations.astype(np.float64)])
    grid(axes)


def label_time(axes: Axes, series: Series, marks: int = 12) -> None:
    """Say what the time below *axes* is counted in, at no more than so many marks."""
    unit, name = _time_unit(series)
    axes.set_xlim(0, _edges(series)[-1] / unit)
    axes.set_xlabel(name)
    if name == "hours":
        axes.locator_params(axis="x", nbins=marks, steps=[1, 2, 3, 4, 6, 10])


def _edges(series: Series) -> Floats:
    """Return where intervals begin, and where the last ends."""
    end = series.time_s[-1] + series.seconds[-1]
    return np.append(series.time_s, end)


def _time_unit(series: Series) -> tuple[float, str]:
    return (DAY, "days") if _edges(series)[-1] > LONG else (HOUR, "hours")


def _cut(axes: Axes, columns: Sequence[Floats]) -> None:
    """Let a short peak run out of the picture, with its height beside it."""
    highest = max(float(column.max()) for column in columns)
    usual = max(float(np.quantile(column, 0.98)) for column in columns)
    if usual <= 0 or highest <= PEAK * usual:
        axes.set_ylim(0, max(highest, 1e-9) * ROOM)
        return
    axes.set_ylim(0, usual * 1.2 * ROOM)
    longest = max(columns, key=lambda column: float(column.max()))
    where = int(np.argmax(longest)) / len(longest)
    axes.annotate(
        f"up to {highest:.4g}",
        (where, 1.0),
        xytext=(12, -4),
        xycoords="axes fraction",
        textcoords="offset points",
        va="top",
        fontsize=8,
        color=INK,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.5},
    )
