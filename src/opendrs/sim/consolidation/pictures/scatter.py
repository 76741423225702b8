"""Energy against service: one point for each policy, and the front."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opendrs.sim.consolidation.pictures.style import colour, grid, marker

if TYPE_CHECKING:  # takes a second, and is needed only when something is drawn
    from matplotlib.axes import Axes

FAR = 3.0  # times the least; if the most is more, ratios are drawn
MARKS: Sequence[tuple[float, Sequence[float]]] = (
    (10, (1, 1.5, 2, 3, 5, 7)),
    (1000, (1, 2, 5)),
    (math.inf, (1,)),
)
"""Up to which ratio of the most to the least which digits are written."""
SMALL = 0.01  # values below are counted in a power of ten


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A point of a scatter.

    Attributes:
        x: How far to the right it is.
        y: How far up.
        group: Number of its colour.
        best: Whether nothing is better in both.
    """

    x: float
    y: float
    group: int = 0
    best: bool = False


def draw_points(
    axes: Axes, points: Sequence[Point], x: str, y: str
) -> list[tuple[float, float]]:
    """Draw *points*, and a line along the best of them; return where each is.

    Args:
        axes: Where.
        points: What; at least one.
        x: What is to the right.
        y: What is up.
    """
    wide, high = _unit([each.x for each in points]), _unit([each.y for each in points])
    places = [(each.x / wide, each.y / high) for each in points]
    pairs = list(zip(places, points, strict=True))
    front = sorted(place for place, each in pairs if each.best)
    if len(front) > 1:
        across, up = zip(*front, strict=True)
        axes.step(across, up, where="post", color="#9a9a9a", zorder=1)
    for place, each in pairs:
        axes.scatter(
            *place,
            s=70 if each.best else 48,
            color=colour(each.group),
            marker=marker(each.group),
            edgecolor="#222222" if each.best else "white",
            linewidth=1.2 if each.best else 0.5,
            zorder=3 if each.best else 2,
        )
    for axis, values in zip("xy", zip(*places, strict=True), strict=True):
        if min(values) > 0 and max(values) > FAR * min(values):
            _stretch(axes, axis, max(values) / min(values))
    axes.set_xlabel(_named(x, wide))
    axes.set_ylabel(_named(y, high))
    axes.margins(0.12, 0.14)
    grid(axes, "both")
    return places


def _stretch(axes: Axes, name: str, ratio: float) -> None:
    """Let equal distances along the axis of that name be equal ratios."""
    from matplotlib.ticker import LogLocator, StrMethodFormatter  # noqa: PLC0415

    axes.set(**{f"{name}scale": "log"})
    axis = axes.xaxis if name == "x" else axes.yaxis
    marks = next(marks for most, marks in MARKS if ratio <= most)
    axis.set_major_locator(LogLocator(subs=marks))
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.minorticks_off()


def _unit(values: Sequence[float]) -> float:
    """Return the power of ten to count small values in; 1 for others."""
    most = max(abs(value) for value in values)
    if most == 0 or most >= SMALL:
        return 1.0
    return float(10 ** math.floor(math.log10(most)))


def _named(name: str, unit: float) -> str:
    return name if unit == 1 else f"{name}, in {unit:.0e}".replace("e-0", "e-")
