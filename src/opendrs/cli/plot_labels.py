"""Placement of the labels of markers in a plot without overlaps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.text import Annotation, Text
from matplotlib.transforms import Bbox

MARKER, LINE = 8, 3  # pixels from the center of a marker or line to its edge
DISTANCES = (9, 18, 30, 45, 60, 75, 90, 120)  # points between a marker and its label
DIRECTIONS = (
    *((1, 0), (0, 1), (0, -1), (-1, 0), (1, 0.3), (1, -0.3), (1, 0.6), (1, -0.6)),
    *((1, 1), (1, -1), (-1, 0.5), (-1, -0.5), (-1, 1), (-1, -1)),
)
HORIZONTAL_DISTANCES: Mapping[int, Literal["left", "center", "right"]] = (
    MappingProxyType({1: "left", 0: "center", -1: "right"})
)
VERTICAL_DISTANCES: Mapping[int, Literal["bottom", "center", "top"]] = MappingProxyType(
    {1: "bottom", 0: "center", -1: "top"}
)


@dataclass(frozen=True, slots=True)
class PlotLabel:
    """The label of a marker.

    Attributes:
        x: Position of the marker in data coordinates.
        y: Position of the marker in data coordinates.
        text: The label.
        color: The color of the label.
    """

    x: float
    y: float
    text: str
    color: str


def place_labels(
    axes: Axes,
    labels: Sequence[PlotLabel],
    others: Sequence[tuple[float, float]],
    renderer: RendererBase,
) -> None:
    """Place each label near its marker, if possible without overlap.

    Args:
        axes: The axes; their limits are final.
        labels: The labels.
        others: Points on lines, and markers without a label, in data coordinates.
        renderer: Renderer that measures the text.
    """
    taken = [
        *(_around(axes, (each.x, each.y), MARKER) for each in labels),
        *(_around(axes, other, LINE) for other in others),
    ]
    for each in labels:
        text = axes.annotate(
            each.text,
            (each.x, each.y),
            textcoords="offset points",
            xytext=(0, 0),
            fontsize=9,
            color=each.color,
            arrowprops={
                "arrowstyle": "-",
                "color": "#bbbbbb",
                "shrinkA": 0,
                "shrinkB": 7,
            },
            zorder=4,
        )
        text.set_in_layout(False)
        taken.append(_place_label(text, axes.get_window_extent(), taken, renderer))


def _around(axes: Axes, at: tuple[float, float], size: int) -> Bbox:
    x, y = axes.transData.transform(at)
    return Bbox.from_extents(x - size, y - size, x + size, y + size)


def _place_label(
    text: Annotation, inside: Bbox, taken: Sequence[Bbox], renderer: RendererBase
) -> Bbox:
    """Move *text* to the nearest free position and return its bounding box."""
    covered: list[tuple[float, int]] = []
    positions = list(_positions())
    for number, position in enumerate(positions):
        box = _shifted_area(text, position, renderer)
        area = sum(_common_area(box, each) for each in taken)
        area += box.width * box.height - _common_area(box, inside)
        covered.append((round(area), number))
        if covered[-1][0] == 0:
            break
    return _shifted_area(text, positions[min(covered)[1]], renderer)


def _positions() -> Iterator[tuple[float, float, float]]:
    for distance in DISTANCES:
        for right, up in DIRECTIONS:
            yield distance, right, up


def _shifted_area(
    text: Annotation, position: tuple[float, float, float], renderer: RendererBase
) -> Bbox:
    distance, right, up = position
    text.set_position((right * distance, up * distance))
    text.set_horizontalalignment(HORIZONTAL_DISTANCES[round(right)])
    text.set_verticalalignment(VERTICAL_DISTANCES[round(up)])
    text.update_positions(renderer)
    return Text.get_window_extent(text, renderer)


def _common_area(one: Bbox, other: Bbox) -> float:
    common = Bbox.intersection(one, other)
    return 0.0 if common is None else float(common.width * common.height)
