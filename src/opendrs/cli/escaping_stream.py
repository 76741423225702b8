"""Streams that escape control characters; importing this loads no other library.

All output passes through them, also that of libraries, tracebacks and JSON. Only a
`TerminalConsole` writes past them, because it moves the cursor and sets colors; it
escapes the text that it prints.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from opendrs.escapes import escape_text


class EscapingStream:
    """A text stream that writes control and invisible characters as escapes.

    Args:
        stream: The underlying stream.
    """

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file = stream  # rich looks for the terminal by this name

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the stream has
        if name == "buffer":  # or click would write around this one
            raise AttributeError(name)
        return getattr(self.rich_proxied_file, name)

    def write(self, text: str) -> int:
        """Write *text* with escapes; return the length of *text*."""
        self.rich_proxied_file.write(escape_text(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write *lines*, which include their line endings."""
        for line in lines:
            self.write(line)


@contextmanager
def escape_output() -> Iterator[None]:
    """Escape control characters on standard output and error in a `with` block."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast("TextIO", EscapingStream(each)) for each in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
