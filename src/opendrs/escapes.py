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

_NEITHER = "[^ -~]+"  # what is not plain ASCII: looked at, and mostly left as it is
_IN_LINES = "[^ -~\n\t]+"
_INVISIBLE = re.compile(  # Default_Ignorable_Code_Point that Python calls printable
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0100-\U000e01ef]"
)
_LONG = 0xFFFF  # beyond it, JSON writes two escapes, and TOML one of eight digits


def escaped_line(text: str) -> str:
    """Return *text* on one line, with nothing that a terminal would obey or hide."""
    return re.sub(_NEITHER, lambda found: _visible(found[0]), text)


def escaped(text: str) -> str:
    """Return *text* in the same lines, with nothing that a terminal obeys or hides.

    JSON stays JSON: outside of its strings there is nothing that changes.
    """
    if text.isascii() and text.replace("\n", "").isprintable():
        return text  # as most is, and four times as fast
    return re.sub(_IN_LINES, lambda found: _visible(found[0]), text)


def escaped_toml(text: str) -> str:
    """Return the same for TOML, which has another escape for what is beyond U+FFFF."""
    return re.sub(_IN_LINES, lambda found: _visible(found[0], toml=True), text)


def _visible(text: str, *, toml: bool = False) -> str:
    """Return *text* with an escape for each character that cannot be seen."""
    if text.isprintable() and not _INVISIBLE.search(text):
        return text
    return "".join(
        mark
        if mark.isprintable() and not _INVISIBLE.match(mark)
        else _escape(mark, toml=toml)
        for mark in text
    )


def _escape(mark: str, *, toml: bool) -> str:
    if toml and ord(mark) > _LONG:
        return f"\\U{ord(mark):08x}"
    if mark == "\x7f":  # JSON may hold it as it is
        return "\\u007f"
    return json.dumps(mark)[1:-1]
