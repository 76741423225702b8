"""Common style of the plots of runs and sweeps."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from opendrs.escapes import escape_labels

if TYPE_CHECKING:  # matplotlib takes a second to import
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

DPI = 130
SUFFIXES = {".svg": "svg", ".png": "png", ".pdf": "pdf"}
OFF_COLOR, OVERLOADED = "#f3f3f1", "#d7301f"
TEXT_COLOR, GRID_COLOR = "#333333", "#d9d9d9"
COLORS = (  # distinguishable, also with red-green color blindness
    "#2f6db3",
    "#e08214",
    "#35978f",
    "#8e5ea2",
    "#c7577a",
    "#7f7f7f",
    "#a6761d",
    "#5ab4e5",
    "#4d9221",
    "#1b2a49",
)
MARKERS = "oDs^vPXd*h"
STYLE = {
    "svg.hashsalt": "opendrs",  # equal runs give identical files
    "svg.fonttype": "none",
    "text.parse_math": False,  # a dollar sign in a name does not start a formula
    "font.size": 9.5,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.edgecolor": "#8c8c8c",
    "axes.labelcolor": TEXT_COLOR,
    "text.color": TEXT_COLOR,
    "xtick.color": TEXT_COLOR,
    "ytick.color": TEXT_COLOR,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}


def plot_style() -> AbstractContextManager[None]:
    """Return the style of the plots as a context manager."""
    from matplotlib import rc_context  # noqa: PLC0415 - takes a second to import

    return rc_context(STYLE)  # type: ignore[arg-type]


def save_figure(figure: Figure, path: Path, suffix: str) -> None:
    """Write *figure* to *path* in the format of *suffix*.

    Raises:
        OSError: The file cannot be written.
    """
    escape_labels(figure)
    dates = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    figure.savefig(
        path, format=SUFFIXES[suffix], dpi=DPI, metadata=dates.get(suffix, {})
    )


def color(number: int) -> str:
    """Return the color of the policy with that number."""
    return COLORS[number % len(COLORS)]


def policy_marker(number: int) -> str:
    """Return the marker of the policy with that number."""
    return MARKERS[number // len(COLORS) % len(MARKERS)]


def load_colormap() -> Colormap:
    """Return the color map: pale to dark up to load 1, others for more and for off."""
    from matplotlib.colors import LinearSegmentedColormap  # noqa: PLC0415

    stops = ["#e3eef9", "#9fc6e4", "#3f8cc4", "#125a9e", "#06294f"]
    colormap = LinearSegmentedColormap.from_list("load", stops)
    return colormap.with_extremes(bad=OFF_COLOR, over=OVERLOADED)


def draw_grid(axes: Axes, axis: str = "y") -> None:
    """Draw faint grid lines in the background."""
    axes.set_axisbelow(True)
    axes.grid(axis=axis, color=GRID_COLOR, linewidth=0.6)  # type: ignore[arg-type]
