"""The lines of a picture at which something was done, and what stands above them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from opendrs.sim.drill.play import Play

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_LABELS = 14  # things done from outside that are named above the picture
LONGEST_LABEL = 34  # characters
DOWN, DONE = "#d62728", "#111111"


def draw_deeds(axes: Axes, play: Play) -> None:
    """Draw a line where something was done or a node was fenced, and name it."""
    fencings = [
        (time, f"{play.names.node(node)} fenced")
        for node, times in play.history.fencings.items()
        for time in times
    ]
    for time, _ in play.deeds():
        axes.axvline(time, color=DONE, linewidth=0.8, linestyle="--", zorder=3)
    for time, _ in fencings:
        axes.axvline(time, color=DOWN, linewidth=0.8, linestyle=":", zorder=3)
    for time, label in _labels(play, fencings):
        axes.annotate(
            label,
            (time, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(2, 3),
            textcoords="offset points",
            rotation=35,
            fontsize=7,
            color=DOWN if label.endswith("fenced") else DONE,
        )


def _labels(play: Play, fencings: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    """Return what is written above the picture, where several share a time."""
    at: dict[tuple[int, bool], list[str]] = {}
    for time, text in play.deeds():
        at.setdefault((time, False), []).append(text)
    for time, text in sorted(fencings):
        at.setdefault((time, True), []).append(text)
    return [(time, _label(texts)) for (time, _), texts in sorted(at.items())][
        :MOST_LABELS
    ]


def _label(texts: Sequence[str]) -> str:
    first = texts[0]
    if len(first) > LONGEST_LABEL:
        first = f"{first[: LONGEST_LABEL - 3]}..."
    if len(texts) == 1:
        return first
    if all(text.endswith(" fenced") for text in texts):
        return f"{len(texts)} nodes fenced"
    return f"{first} and {len(texts) - 1} more"


def space_above(play: Play) -> float:
    """Return the points that the slanted labels need."""
    longest = max((len(label) for _, label in _labels(play, ())), default=0)
    return 12 + 2.6 * max(longest, 14 if play.history.fencings else 0)
