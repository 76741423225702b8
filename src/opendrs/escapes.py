r"""Characters that a terminal obeys or hides, written so that they can be seen.

Names come from traces, snapshots, platforms and requests. Control characters in them
move the cursor or begin escape sequences, line separators end a line, directional
marks reverse what follows, and characters without width make two names look alike.
Wherever text leaves the program, they are written as JSON writes them: `\u001b`. So
text stays on its line, and JSON stays JSON with the same value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

_NOT_PRINTABLE_ASCII = (
    "[^ -~]+"  # what is not plain ASCII: looked at, and mostly left as it is
)

_NOT_PRINTABLE_ASCII_OR_WHITESPACE = "[^ -~\n\t]+"

_INVISIBLE = re.compile(  # Default_Ignorable_Code_Point that Python calls printable
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0100-\U000e01ef]"
)

_LAST_BMP_CODE_POINT = (
    0xFFFF  # beyond it, JSON writes two escapes, and TOML one of eight digits
)


def escape_line(text: str) -> str:
    """Return *text* on one line, with nothing that a terminal would obey or hide."""
    return re.sub(_NOT_PRINTABLE_ASCII, lambda match: _escape_invisible(match[0]), text)


def escape_text(text: str) -> str:
    """Return *text* in the same lines, with nothing that a terminal obeys or hides.

    JSON stays JSON: outside of its strings there is nothing that changes.
    """
    if text.isascii() and text.replace("\n", "").isprintable():
        return text  # as most is, and four times as fast
    return re.sub(
        _NOT_PRINTABLE_ASCII_OR_WHITESPACE,
        lambda match: _escape_invisible(match[0]),
        text,
    )


def escape_toml(text: str) -> str:
    """Return the same for TOML, which has another escape for what is beyond U+FFFF."""
    return re.sub(
        _NOT_PRINTABLE_ASCII_OR_WHITESPACE,
        lambda match: _escape_invisible(match[0], toml=True),
        text,
    )


def _escape_invisible(text: str, *, toml: bool = False) -> str:
    """Return *text* with an escape for each character that cannot be seen."""
    if text.isprintable() and not _INVISIBLE.search(text):
        return text
    return "".join(
        character
        if character.isprintable() and not _INVISIBLE.match(character)
        else _escape(character, toml=toml)
        for character in text
    )


def _escape(character: str, *, toml: bool) -> str:
    if toml and ord(character) > _LAST_BMP_CODE_POINT:
        return f"\\U{ord(character):08x}"
    if character == "\x7f":  # JSON may hold it as it is
        return "\\u007f"
    return json.dumps(character)[1:-1]


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
                formatter.seq = [escape_text(label) for label in formatter.seq]
    for text in figure.findobj(Text):
        assert isinstance(text, Text)  # noqa: S101 - for the type checker
        text.set_text(escape_text(text.get_text()))


MAX_VALUE_LENGTH = 40


def repr_value(value: object) -> str:
    """Return *value* on one line, as JSON, cut when it is long."""
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, list) and len(value) > 3:
        return f"a list of {len(value)}"
    if isinstance(value, str):
        value = value[: 2 * MAX_VALUE_LENGTH]  # to escape megabytes takes seconds
    try:
        text = escape_line(json.dumps(value, default=str, ensure_ascii=False))
    except ValueError:  # more digits than Python writes
        return "a huge number"
    if len(text) > MAX_VALUE_LENGTH:
        return f"{text[:MAX_VALUE_LENGTH]}..."
    return text
