"""Plot of a sweep: every candidate, and the Pareto front."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from opendrs.simulation.plots.scatter import ScatterPoint, draw_points
from opendrs.simulation.plots.style import color, plot_style, policy_marker, save_figure

if TYPE_CHECKING:  # matplotlib takes a second to import
    from matplotlib.axes import Axes

MAX_NAMED = 24  # candidates on the front that are listed in the legend
MAX_LABEL_LENGTH = 64  # characters of a label
MIN_DISTANCE = 18.0  # pixels, at the 100 per inch of matplotlib's layout


@dataclass(frozen=True, slots=True, kw_only=True)
class PlottedCandidate:
    """Candidate to be plotted.

    Attributes:
        label: Label in the legend.
        name: Name of its policy, which determines the color.
        x: First metric; less is better.
        y: Second metric; less is better.
        on_front: True for a candidate on the Pareto front.
    """

    label: str
    name: str
    x: float
    y: float
    on_front: bool


def draw_sweep(
    title: str,
    candidates: Sequence[PlottedCandidate],
    names: tuple[str, str],
    path: Path,
    suffix: str,
) -> None:
    """Write a plot of a sweep to *path*.

    Args:
        title: Title of the plot.
        candidates: At least one candidate.
        names: Labels of the horizontal and the vertical axis.
        path: Output file.
        suffix: .svg, .png or .pdf.

    Raises:
        OSError: The file cannot be written.
    """
    from matplotlib.figure import Figure  # noqa: PLC0415 - takes a second to import

    groups = {each.name: None for each in candidates}
    number = {name: position for position, name in enumerate(groups)}
    with plot_style():
        figure = Figure(figsize=(12, 6.4), layout="constrained")
        axes, side = figure.subplots(1, 2, width_ratios=[2.1, 1])
        points = [
            ScatterPoint(
                x=each.x, y=each.y, group=number[each.name], on_front=each.on_front
            )
            for each in candidates
        ]
        positions = draw_points(axes, points, *names)
        front = [each for each in candidates if each.on_front][:MAX_NAMED]
        _draw_legend(side, front, number)
        axes.set_title("each point a policy with its settings; better is down and left")
        figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
        figure.draw_without_rendering()  # fixes the layout, so pixels are known
        front_places = [
            position
            for position, each in zip(positions, candidates, strict=True)
            if each.on_front
        ]
        _number_points(axes, front_places[:MAX_NAMED])
        save_figure(figure, path, suffix)


def _number_points(axes: Axes, front: Sequence[tuple[float, float]]) -> None:
    """Write its number beside each point of the front; close ones share a label."""
    for numbers in _group_close_points(axes, front):
        axes.annotate(
            ", ".join(str(number + 1) for number in numbers),
            front[numbers[0]],
            xytext=(-5, -4),  # the area below a front has no points
            textcoords="offset points",
            ha="right",
            va="top",
            fontsize=8.5,
        )


def _group_close_points(
    axes: Axes, front: Sequence[tuple[float, float]]
) -> list[list[int]]:
    """Return the points, grouped if they are too close for separate numbers."""
    pixels = [tuple(axes.transData.transform(position)) for position in front]
    groups: list[list[int]] = []
    for number, pixel in enumerate(pixels):
        if groups and math.dist(pixels[groups[-1][-1]], pixel) < MIN_DISTANCE:
            groups[-1].append(number)
        else:
            groups.append([number])
    return groups


def _draw_legend(
    side: Axes, front: Sequence[PlottedCandidate], number: dict[str, int]
) -> None:
    """List the colors of the policies and the candidates on the front."""
    from matplotlib.lines import Line2D  # noqa: PLC0415

    side.set_axis_off()
    handles = [
        Line2D(
            [],
            [],
            linewidth=0,
            marker=policy_marker(index),
            color=color(index),
            label=name,
        )
        for name, index in number.items()
    ]
    side.legend(handles=handles, loc="upper left", bbox_to_anchor=(0, 1), borderpad=0)
    lines = [
        f"{count:>2}  {_shorten(each.label)}" for count, each in enumerate(front, 1)
    ]
    side.text(
        0.02,
        0.93 - 0.047 * len(number),
        "\n".join(["on the front:", *lines]),
        va="top",
        fontsize=8.5,
        linespacing=1.5,
        transform=side.transAxes,
    )


def _shorten(label: str) -> str:
    return (
        label if len(label) <= MAX_LABEL_LENGTH else f"{label[: MAX_LABEL_LENGTH - 1]}…"
    )
