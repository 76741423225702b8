"""A picture of how uneven a cluster is, over what is moved."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from opendrs.cli.comparison import Outcome, Row
from opendrs.errors import ConfigurationError
from opendrs.sim.labels import escape_labels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PICTURES = (".svg", ".png", ".pdf")
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#666666")
# Of Okabe and Ito, Color Universal Design (2008): told apart by all eyes.


def require_picture(path: Path) -> None:
    """Check that *path* can become a picture.

    Raises:
        ConfigurationError: It has another ending, is a directory, or its directory is
            not there.
    """
    if path.suffix not in PICTURES:
        raise ConfigurationError(
            f"{path}: a picture ends in {', '.join(PICTURES)}, not {path.suffix!r}"
        )
    if not path.absolute().parent.is_dir():
        raise ConfigurationError(f"{path}: there is no directory {path.parent}")
    if path.is_dir():
        raise ConfigurationError(f"{path}: is a directory")


def draw(path: Path, title: str, rows: Sequence[Row], budgets: Sequence[Row]) -> None:
    """Draw the curve of each policy to *path*.

    Args:
        path: The picture.
        title: What is above it.
        rows: The policies; a line along their plan for each that moves something.
        budgets: What `optimize` reaches with each budget; one line through all.

    Raises:
        ConfigurationError: The picture cannot be written.
    """
    # Takes a second, and is needed only when something is drawn.
    from matplotlib import rc_context  # noqa: PLC0415

    # Names may hold a dollar sign, which is no formula.
    with rc_context({"svg.hashsalt": "opendrs", "text.parse_math": False}):
        figure = _figure(title, rows, budgets)
        escape_labels(figure)
        # No date in it: the same picture for the same data.
        metadata = {"Date": None} if path.suffix == ".svg" else None
        try:
            figure.savefig(path, metadata=metadata)
        except OSError as error:
            raise ConfigurationError(
                f"cannot write {path}: {error.strerror}"
            ) from error


def _figure(title: str, rows: Sequence[Row], budgets: Sequence[Row]) -> Figure:
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    lines = [(row.name, list(row.curve)) for row in rows if row.after.moves]
    if budgets:
        best = [budgets[0].curve[0], *(row.after for row in budgets)]
        lines.append(("optimize, by budget", best))
    for number, (name, points) in enumerate(lines):
        axes.plot(
            [each.gib for each in points],
            [_unevenness(each) for each in points],
            color=COLOURS[number % len(COLOURS)],
            marker="o" if name.endswith("budget") else None,
            markersize=4,
            label=name,
        )
    axes.set_title(title)
    axes.set_xlabel("memory moved (GiB)")
    axes.set_ylabel("variation of cpu and of memory load, added")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.grid(color="#e5e5e5")
    if lines:
        axes.legend(frameon=False)
    return figure


def _unevenness(point: Outcome) -> float:
    return point.cpu + point.memory
