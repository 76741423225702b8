"""Names in pictures: an SVG file is text too, and some readers obey what is in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opendrs.escapes import escaped

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def escape_labels(figure: Figure) -> None:
    """Write escapes for what cannot be seen in all texts of *figure*."""
    from matplotlib.text import Text  # noqa: PLC0415 - takes a second
    from matplotlib.ticker import FixedFormatter  # noqa: PLC0415

    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            formatter = axis.get_major_formatter()
            if isinstance(formatter, FixedFormatter):  # sets texts when it is drawn
                formatter.seq = [escaped(each) for each in formatter.seq]
    for text in figure.findobj(Text):
        assert isinstance(text, Text)  # noqa: S101 - for the type checker
        text.set_text(escaped(text.get_text()))
