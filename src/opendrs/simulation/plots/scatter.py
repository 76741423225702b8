"""Scatter plot of energy against service, with the Pareto front."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opendrs.simulation.plots.style import color, draw_grid, policy_marker

if TYPE_CHECKING:  # matplotlib takes a second to import
    from matplotlib.axes import Axes

MIN_LOG_RATIO = 3.0  # ratio of largest to least value above which the axis is log
TICKS: Sequence[tuple[float, Sequence[float]]] = (
    (10, (1, 1.5, 2, 3, 5, 7)),
    (1000, (1, 2, 5)),
    (math.inf, (1,)),
)
"""Digits of the ticks, by the ratio of the largest to the least value."""
SCALED_BELOW = 0.01  # smaller values are shown in units of a power of ten


@dataclass(frozen=True, slots=True, kw_only=True)
class ScatterPoint:
    """Point of a scatter plot.

    Attributes:
        x: Horizontal value.
        y: Vertical value.
        group: Number of its color and marker.
        on_front: True for a point on the Pareto front.
    """

    x: float
    y: float
    group: int = 0
    on_front: bool = False


def draw_points(
    axes: Axes, points: Sequence[ScatterPoint], x: str, y: str
) -> list[tuple[float, float]]:
    """Draw *points* and a line along the front; return their positions.

    Args:
        axes: Axes to draw in.
        points: At least one point.
        x: Label of the horizontal axis.
        y: Label of the vertical axis.
    """
    x_unit, y_unit = (
        _unit([each.x for each in points]),
        _unit([each.y for each in points]),
    )
    positions = [(each.x / x_unit, each.y / y_unit) for each in points]
    pairs = list(zip(positions, points, strict=True))
    front = sorted(position for position, each in pairs if each.on_front)
    if len(front) > 1:
        across, up = zip(*front, strict=True)
        axes.step(across, up, where="post", color="#9a9a9a", zorder=1)
    for position, each in pairs:
        axes.scatter(
            *position,
            s=70 if each.on_front else 48,
            color=color(each.group),
            marker=policy_marker(each.group),
            edgecolor="#222222" if each.on_front else "white",
            linewidth=1.2 if each.on_front else 0.5,
            zorder=3 if each.on_front else 2,
        )
    for axis, values in zip("xy", zip(*positions, strict=True), strict=True):
        if min(values) > 0 and max(values) > MIN_LOG_RATIO * min(values):
            _use_log_scale(axes, axis, max(values) / min(values))
    axes.set_xlabel(_axis_label(x, x_unit))
    axes.set_ylabel(_axis_label(y, y_unit))
    axes.margins(0.12, 0.14)
    draw_grid(axes, "both")
    return positions


def _use_log_scale(axes: Axes, name: str, ratio: float) -> None:
    """Use a logarithmic scale for the axis with that name."""
    from matplotlib.ticker import LogLocator, StrMethodFormatter  # noqa: PLC0415

    axes.set(**{f"{name}scale": "log"})
    axis = axes.xaxis if name == "x" else axes.yaxis
    ticks = next(ticks for max_ratio, ticks in TICKS if ratio <= max_ratio)
    axis.set_major_locator(LogLocator(subs=ticks))
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.minorticks_off()


def _unit(values: Sequence[float]) -> float:
    """Return the power of ten used as unit of small values; 1 for others."""
    largest = max(abs(value) for value in values)
    if largest == 0 or largest >= SCALED_BELOW:
        return 1.0
    return float(10 ** math.floor(math.log10(largest)))


def _axis_label(name: str, unit: float) -> str:
    return name if unit == 1 else f"{name}, in {unit:.0e}".replace("e-0", "e-")
