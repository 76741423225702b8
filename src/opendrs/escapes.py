r"""Escapes for control characters and invisible characters in output.

Names come from traces, snapshots, platforms and requests. Control characters in them
move the cursor or begin escape sequences. Line separators end a line, directional
marks reverse the following text, and characters without width make two names look
alike. All output of the program writes them as JSON does: `\u001b`. Text keeps its
line breaks, and JSON keeps its value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NOT_PRINTABLE_ASCII = "[^ -~]+"
_NOT_PRINTABLE_ASCII_OR_WHITESPACE = "[^ -~\n\t]+"

_INVISIBLE = re.compile(  # Default_Ignorable_Code_Point that Python calls printable
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0100-\U000e01ef]"
)

# Above it, JSON writes a surrogate pair and TOML one escape of eight digits.
_LAST_BMP_CODE_POINT = 0xFFFF
MAX_VALUE_LENGTH = 40  # characters


def escape_line(text: str) -> str:
    """Return *text* on one line, with control and invisible characters escaped."""
    return re.sub(_NOT_PRINTABLE_ASCII, lambda match: _escape_invisible(match[0]), text)


def escape_text(text: str) -> str:
    """Return *text* with control and invisible characters escaped; keep the lines.

    JSON stays valid: outside of its strings nothing changes.
    """
    if text.isascii() and text.replace("\n", "").isprintable():
        return text  # the common case; four times as fast
    return re.sub(
        _NOT_PRINTABLE_ASCII_OR_WHITESPACE,
        lambda match: _escape_invisible(match[0]),
        text,
    )


def escape_toml(text: str) -> str:
    """Return *text* as `escape_text` does, with the TOML escape above U+FFFF."""
    return re.sub(
        _NOT_PRINTABLE_ASCII_OR_WHITESPACE,
        lambda match: _escape_invisible(match[0], toml=True),
        text,
    )


def _escape_invisible(text: str, *, toml: bool = False) -> str:
    """Return *text* with an escape for each invisible character."""
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
    if character == "\x7f":  # json.dumps does not escape it
        return "\\u007f"
    return json.dumps(character)[1:-1]


def escape_labels(figure: Figure) -> None:
    """Escape invisible characters in all texts of *figure*."""
    from matplotlib.text import Text  # noqa: PLC0415 - importing takes a second
    from matplotlib.ticker import FixedFormatter  # noqa: PLC0415

    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            formatter = axis.get_major_formatter()
            if isinstance(formatter, FixedFormatter):  # sets its texts when drawing
                formatter.seq = [escape_text(label) for label in formatter.seq]
    for text in figure.findobj(Text):
        assert isinstance(text, Text)  # noqa: S101 - for the type checker
        text.set_text(escape_text(text.get_text()))


def repr_value(value: object) -> str:
    """Return *value* as JSON on one line, cut after `MAX_VALUE_LENGTH` characters."""
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, list) and len(value) > 3:
        return f"a list of {len(value)}"
    if isinstance(value, str):
        value = value[: 2 * MAX_VALUE_LENGTH]  # escaping megabytes takes seconds
    try:
        text = escape_line(json.dumps(value, default=str, ensure_ascii=False))
    except ValueError:  # more digits than Python converts
        return "a huge number"
    if len(text) > MAX_VALUE_LENGTH:
        return f"{text[:MAX_VALUE_LENGTH]}..."
    return text
