"""Plot of a drill: guests over nodes over time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from opendrs.config import display_path
from opendrs.errors import InvalidFileError
from opendrs.escapes import escape_labels
from opendrs.model import NodeId
from opendrs.pve_ha.simulator.drill_log import CommandExecuted
from opendrs.pve_ha.simulator.history import DrillHistory
from opendrs.pve_ha.simulator.pve_names import PveNames
from opendrs.pve_ha.simulator.run import Drill
from opendrs.pve_ha.simulator.service_timeline import ServiceInterval
from opendrs.pve_ha.states import ServiceId


@dataclass(frozen=True, slots=True)
class DrillPlotData:
    """Data of a plot.

    Attributes:
        title: Title of the plot.
        drill: The drill.
        history: Its history.
        names: Names of guests and nodes.
    """

    title: str
    drill: Drill
    history: DrillHistory
    names: PveNames

    @property
    def nodes(self) -> list[NodeId]:
        """Return all nodes, in order of name."""
        return sorted(self.drill.scenario.hosts)

    def intervals(self) -> Mapping[ServiceId, list[ServiceInterval]]:
        """Return the intervals in which each service ran or was down.

        Services are sorted by their first node and name.
        """
        end = self.history.ended_at
        result = {
            service: list(timeline.intervals(end))
            for service, timeline in self.history.timelines.items()
        }
        return dict(sorted(result.items(), key=lambda item: self._sort_key(*item)))

    def _sort_key(
        self, service: ServiceId, intervals: Sequence[ServiceInterval]
    ) -> tuple[str, str]:
        """Return the sort key of a service: its first node, and its name."""
        first = next(
            (interval.node for interval in intervals if interval.node is not None), None
        )
        return (first or "~", self.names.guest_name(service))

    def commands(self) -> list[tuple[int, str]]:
        """Return the commands after the start of the nodes, with their times."""
        return [
            (entry.time, entry.event.command)
            for entry in self.drill.entries
            if isinstance(entry.event, CommandExecuted)
            and entry.source == "cmdlist"
            and (entry.time > 20 or not entry.event.command.endswith(" on"))
            and not entry.event.command.startswith("delay ")
        ]


if TYPE_CHECKING:  # matplotlib takes a second to load, so only plots import it
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

SUFFIXES = (".svg", ".png")
MAX_ROWS = 60  # guests up to which each has a row; above, each node has one
MAX_NODE_NAMES = 40  # nodes in the legend
MAX_LABELS = 14  # labels above the plot
MAX_LABEL_LENGTH = 34  # characters
DOWN_COLOR, COMMAND_COLOR = "#d62728", "#111111"
NODE_COLORS = (  # easily distinguished, and none of them red
    "#4c78a8",
    "#f2a541",
    "#54a24b",
    "#b279a2",
    "#72b7b2",
    "#9d755d",
    "#eeca3b",
    "#8f8f8f",
    "#2f4b7c",
    "#a5d16b",
)


def draw_commands(axes: Axes, data: DrillPlotData) -> None:
    """Draw and label a line at each command and each fencing."""
    fencings = [
        (time, f"{data.names.node_name(node)} fenced")
        for node, times in data.history.fencings.items()
        for time in times
    ]
    for time, _ in data.commands():
        axes.axvline(time, color=COMMAND_COLOR, linewidth=0.8, linestyle="--", zorder=3)
    for time, _ in fencings:
        axes.axvline(time, color=DOWN_COLOR, linewidth=0.8, linestyle=":", zorder=3)
    for time, label in _labels(data, fencings):
        axes.annotate(
            label,
            (time, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(2, 3),
            textcoords="offset points",
            rotation=35,
            fontsize=7,
            color=DOWN_COLOR if label.endswith("fenced") else COMMAND_COLOR,
        )


def _labels(
    data: DrillPlotData, fencings: Sequence[tuple[int, str]]
) -> list[tuple[int, str]]:
    """Return the labels above the plot; those of one time are combined."""
    at: dict[tuple[int, bool], list[str]] = {}
    for time, text in data.commands():
        at.setdefault((time, False), []).append(text)
    for time, text in sorted(fencings):
        at.setdefault((time, True), []).append(text)
    return [(time, _label(texts)) for (time, _), texts in sorted(at.items())][
        :MAX_LABELS
    ]


def _label(texts: Sequence[str]) -> str:
    first = texts[0]
    if len(first) > MAX_LABEL_LENGTH:
        first = f"{first[: MAX_LABEL_LENGTH - 3]}..."
    if len(texts) == 1:
        return first
    if all(text.endswith(" fenced") for text in texts):
        return f"{len(texts)} nodes fenced"
    return f"{first} and {len(texts) - 1} more"


def title_padding(data: DrillPlotData) -> float:
    """Return the height of the slanted labels, in points."""
    longest = max((len(label) for _, label in _labels(data, ())), default=0)
    return 12 + 2.6 * max(longest, 14 if data.history.fencings else 0)


def write_plot(data: DrillPlotData, path: Path) -> None:
    """Write a plot of *data* to *path*, as SVG or PNG by its suffix.

    Raises:
        InvalidFileError: The suffix is another one, or the file cannot be written.
    """
    from matplotlib import rc_context  # noqa: PLC0415 - slow

    check_plot_path(path)
    metadata = {"Date": None} if path.suffix == ".svg" else {}
    # A dollar sign in a name must not start a formula.
    with rc_context({"svg.hashsalt": "opendrs", "text.parse_math": False}):
        figure = _figure(data)
        escape_labels(figure)
        try:
            figure.savefig(path, dpi=110, metadata=metadata)
        except OSError as error:
            raise InvalidFileError(
                f"cannot write {display_path(path)}: {error.strerror}"
            ) from error


def check_plot_path(path: Path) -> None:
    """Check the suffix of *path*.

    Raises:
        InvalidFileError: It is neither .svg nor .png.
    """
    if path.suffix not in SUFFIXES:
        raise InvalidFileError(
            f"{display_path(path)}: expected a file name *.svg or *.png"
        )


def _figure(data: DrillPlotData) -> Figure:
    from matplotlib.figure import Figure  # noqa: PLC0415

    intervals = data.intervals()
    is_per_guest = len(intervals) <= MAX_ROWS
    rows = len(intervals) if is_per_guest else min(len(data.nodes), MAX_ROWS)
    height = 1.9 + max(2.2, rows * 0.24)
    figure = Figure(figsize=(12, height), layout="constrained")
    axes = figure.subplots()
    (_draw_guests if is_per_guest else _draw_nodes)(axes, data, intervals)
    draw_commands(axes, data)
    axes.set_xlim(0, max(1, data.history.ended_at))
    axes.set_xlabel("seconds")
    axes.set_title(data.title, loc="left", pad=title_padding(data))
    return figure


def _draw_guests(
    axes: Axes,
    data: DrillPlotData,
    intervals: Mapping[ServiceId, Sequence[ServiceInterval]],
) -> None:
    """Draw one row per guest, in the color of its node."""
    colors = _node_colors(data.nodes)
    rows = {service: row for row, service in enumerate(intervals)}
    for service, row in rows.items():
        for interval in intervals[service]:
            _draw_interval(axes, row, interval, colors)
    for move in data.history.moves:
        if move.service in rows:
            axes.plot(
                move.time,
                rows[move.service],
                ">",
                color=COMMAND_COLOR,
                markersize=4,
                zorder=4,
            )
    labels = [data.names.guest_name(service) for service in rows]
    axes.set_yticks(range(len(rows)), labels, fontsize=8)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    _draw_legend(axes, data, colors, len(rows))


def _draw_legend(
    axes: Axes, data: DrillPlotData, colors: Mapping[NodeId, str], rows: int
) -> None:
    from matplotlib.lines import Line2D  # noqa: PLC0415
    from matplotlib.patches import Patch  # noqa: PLC0415

    handles: list[Patch | Line2D] = [
        Patch(color=colors[node], label=data.names.node_name(node))
        for node in data.nodes[:MAX_NODE_NAMES]
    ]
    handles += [
        Patch(facecolor="white", edgecolor=DOWN_COLOR, hatch="////", label="down")
    ]
    handles += [
        Line2D([], [], marker=">", color=COMMAND_COLOR, linewidth=0, label="moved")
    ]
    axes.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(1.0, 1.0),
        fontsize=8,
        frameon=False,
        ncols=1 + (len(handles) - 1) // max(8, rows),
    )


def _draw_interval(
    axes: Axes, row: int, interval: ServiceInterval, colors: Mapping[NodeId, str]
) -> None:
    extent = [(interval.start, interval.duration)]
    if interval.node is None:
        axes.broken_barh(
            extent,
            (row - 0.3, 0.6),
            facecolor="white",
            edgecolor=DOWN_COLOR,
            hatch="////",
            linewidth=0.6,
        )
    else:
        axes.broken_barh(extent, (row - 0.38, 0.76), facecolor=colors[interval.node])


def _draw_nodes(
    axes: Axes,
    data: DrillPlotData,
    intervals: Mapping[ServiceId, Sequence[ServiceInterval]],
) -> None:
    """Draw one row per node, darker with more running guests."""
    nodes = data.nodes
    times = sorted({0, data.history.ended_at, *_changes(intervals)})
    counts = _counts(nodes, times, intervals)
    edges = np.arange(len(nodes) + 1) - 0.5
    mesh = axes.pcolormesh(
        times, edges, counts, cmap=_guest_count_colormap(), rasterized=True
    )
    axes.figure.colorbar(
        mesh, ax=axes, label="guests running", pad=0.01, aspect=40, fraction=0.04
    )
    for node, fencings in data.history.fencings.items():
        for time in fencings:
            axes.plot(
                time, nodes.index(node), "x", color=DOWN_COLOR, markersize=7, mew=2
            )
    step = 1 + (len(nodes) - 1) // MAX_ROWS
    shown = range(0, len(nodes), step)
    labels = [data.names.node_name(nodes[row]) for row in shown]
    axes.set_yticks(list(shown), labels, fontsize=8)
    axes.set_ylim(len(nodes) - 0.5, -0.5)


def _changes(intervals: Mapping[ServiceId, Sequence[ServiceInterval]]) -> Iterator[int]:
    for each in intervals.values():
        for interval in each:
            yield interval.start
            yield interval.end


def _counts(
    nodes: Sequence[NodeId],
    times: Sequence[int],
    intervals: Mapping[ServiceId, Sequence[ServiceInterval]],
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return the number of running guests on each node in each interval."""
    row_of = {node: row for row, node in enumerate(nodes)}
    column_of = {time: column for column, time in enumerate(times)}
    changes = np.zeros((len(nodes), len(times)))
    for each in intervals.values():
        for interval in each:
            if interval.node is not None:
                changes[row_of[interval.node], column_of[interval.start]] += 1
                changes[row_of[interval.node], column_of[interval.end]] -= 1
    return np.cumsum(changes, axis=1)[:, :-1]


def _node_colors(nodes: Sequence[NodeId]) -> dict[NodeId, str]:
    """Return a different color for each node; red stands for guests that are down."""
    from matplotlib import colormaps  # noqa: PLC0415
    from matplotlib.colors import to_hex  # noqa: PLC0415

    if len(nodes) <= len(NODE_COLORS):
        return dict(zip(nodes, NODE_COLORS, strict=False))
    spread = colormaps["viridis"]
    return {node: to_hex(spread(i / (len(nodes) - 1))) for i, node in enumerate(nodes)}


def _guest_count_colormap() -> Colormap:
    from matplotlib import colormaps  # noqa: PLC0415

    return colormaps["Blues"]
