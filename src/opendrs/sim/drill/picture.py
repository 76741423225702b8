"""A picture of a drill: guests over nodes over time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from opendrs.errors import InvalidFileError
from opendrs.ha.identifiers import ServiceId
from opendrs.model import NodeId
from opendrs.platforms.file import shown_path
from opendrs.sim.drill.deeds import DONE, DOWN, draw_deeds, space_above
from opendrs.sim.drill.lives import Span
from opendrs.sim.drill.play import Play as Play
from opendrs.sim.labels import escape_labels

if TYPE_CHECKING:  # takes a second, and is needed only when something is drawn
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

SUFFIXES = (".svg", ".png")
MOST_ROWS = 60  # guests that have a row each; of more, each node has one
MOST_NAMES = 40  # nodes that are named, at the side or below
FEW_COLOURS = (  # told apart easily, and none of them red
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


def draw(play: Play, path: Path) -> None:
    """Write a picture of *play* to *path*: SVG or PNG, by its name.

    Raises:
        InvalidFileError: It is called otherwise, or cannot be written.
    """
    from matplotlib import rc_context  # noqa: PLC0415 - see above

    require_picture(path)
    metadata = {"Date": None} if path.suffix == ".svg" else {}
    # Names may hold a dollar sign, which is no formula.
    with rc_context({"svg.hashsalt": "opendrs", "text.parse_math": False}):
        figure = _figure(play)
        escape_labels(figure)
        try:
            figure.savefig(path, dpi=110, metadata=metadata)
        except OSError as error:
            raise InvalidFileError(
                f"cannot write {shown_path(path)}: {error.strerror}"
            ) from error


def require_picture(path: Path) -> None:
    """Check that *path* is called like a picture.

    Raises:
        InvalidFileError: It is not.
    """
    if path.suffix not in SUFFIXES:
        raise InvalidFileError(
            f"{shown_path(path)}: a picture is called *.svg or *.png"
        )


def _figure(play: Play) -> Figure:
    from matplotlib.figure import Figure  # noqa: PLC0415

    spans = play.spans()
    each = len(spans) <= MOST_ROWS
    rows = len(spans) if each else min(len(play.nodes), MOST_ROWS)
    height = 1.9 + max(2.2, rows * 0.24)
    figure = Figure(figsize=(12, height), layout="constrained")
    axes = figure.subplots()
    (_draw_guests if each else _draw_nodes)(axes, play, spans)
    draw_deeds(axes, play)
    axes.set_xlim(0, max(1, play.history.end))
    axes.set_xlabel("seconds")
    axes.set_title(play.title, loc="left", pad=space_above(play))
    return figure


def _draw_guests(
    axes: Axes, play: Play, spans: Mapping[ServiceId, Sequence[Span]]
) -> None:
    """Draw one row for each guest, in the colour of the node it runs on."""
    from matplotlib.lines import Line2D  # noqa: PLC0415
    from matplotlib.patches import Patch  # noqa: PLC0415

    colours = _colours(play.nodes)
    rows = {service: row for row, service in enumerate(spans)}
    for service, row in rows.items():
        for span in spans[service]:
            _draw_span(axes, row, span, colours)
    for move in play.history.moves:
        if move.service in rows:
            axes.plot(
                move.time, rows[move.service], ">", color=DONE, markersize=4, zorder=4
            )
    labels = [play.names.guest(service) for service in rows]
    axes.set_yticks(range(len(rows)), labels, fontsize=8)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    handles: list[Patch | Line2D] = [
        Patch(color=colours[node], label=play.names.node(node))
        for node in play.nodes[:MOST_NAMES]
    ]
    handles += [Patch(facecolor="white", edgecolor=DOWN, hatch="////", label="down")]
    handles += [Line2D([], [], marker=">", color=DONE, linewidth=0, label="moved")]
    axes.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(1.0, 1.0),
        fontsize=8,
        frameon=False,
        ncols=1 + (len(handles) - 1) // max(8, len(rows)),
    )


def _draw_span(axes: Axes, row: int, span: Span, colours: Mapping[NodeId, str]) -> None:
    where = [(span.begin, span.length)]
    if span.node is None:
        axes.broken_barh(
            where,
            (row - 0.3, 0.6),
            facecolor="white",
            edgecolor=DOWN,
            hatch="////",
            linewidth=0.6,
        )
    else:
        axes.broken_barh(where, (row - 0.38, 0.76), facecolor=colours[span.node])


def _draw_nodes(
    axes: Axes, play: Play, spans: Mapping[ServiceId, Sequence[Span]]
) -> None:
    """Draw one row for each node, the darker the more guests run on it."""
    nodes = play.nodes
    times = sorted({0, play.history.end, *_changes(spans)})
    counts = _counts(nodes, times, spans)
    edges = np.arange(len(nodes) + 1) - 0.5
    mesh = axes.pcolormesh(times, edges, counts, cmap=_pale_to_dark(), rasterized=True)
    axes.figure.colorbar(
        mesh, ax=axes, label="guests running", pad=0.01, aspect=40, fraction=0.04
    )
    for node, fencings in play.history.fencings.items():
        for time in fencings:
            axes.plot(time, nodes.index(node), "x", color=DOWN, markersize=7, mew=2)
    step = 1 + (len(nodes) - 1) // MOST_ROWS
    shown = range(0, len(nodes), step)
    labels = [play.names.node(nodes[row]) for row in shown]
    axes.set_yticks(list(shown), labels, fontsize=8)
    axes.set_ylim(len(nodes) - 0.5, -0.5)


def _changes(spans: Mapping[ServiceId, Sequence[Span]]) -> Iterator[int]:
    for each in spans.values():
        for span in each:
            yield span.begin
            yield span.end


def _counts(
    nodes: Sequence[NodeId],
    times: Sequence[int],
    spans: Mapping[ServiceId, Sequence[Span]],
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return how many guests run on each node between one time and the next."""
    row_of = {node: row for row, node in enumerate(nodes)}
    column_of = {time: column for column, time in enumerate(times)}
    changes = np.zeros((len(nodes), len(times)))
    for each in spans.values():
        for span in each:
            if span.node is not None:
                changes[row_of[span.node], column_of[span.begin]] += 1
                changes[row_of[span.node], column_of[span.end]] -= 1
    return np.cumsum(changes, axis=1)[:, :-1]


def _colours(nodes: Sequence[NodeId]) -> dict[NodeId, str]:
    """Return a colour for each node, no two alike; red is for what is down."""
    from matplotlib import colormaps  # noqa: PLC0415
    from matplotlib.colors import to_hex  # noqa: PLC0415

    if len(nodes) <= len(FEW_COLOURS):
        return dict(zip(nodes, FEW_COLOURS, strict=False))
    spread = colormaps["viridis"]
    return {node: to_hex(spread(i / (len(nodes) - 1))) for i, node in enumerate(nodes)}


def _pale_to_dark() -> Colormap:
    from matplotlib import colormaps  # noqa: PLC0415

    return colormaps["Blues"]
