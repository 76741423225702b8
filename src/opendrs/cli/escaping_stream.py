"""Streams that escape control characters; importing this loads no other library."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from opendrs.escapes import escape_text


class EscapingStream:
    """A stream of text that writes escapes for what cannot be seen.

    Args:
        stream: Where to write.
    """

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file = stream  # by this name rich finds the terminal itself

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the stream has
        if name == "buffer":  # or click would write around this one
            raise AttributeError(name)
        return getattr(self.rich_proxied_file, name)

    def write(self, text: str) -> int:
        """Write *text*; return its length."""
        self.rich_proxied_file.write(escape_text(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write *lines*, which have their ends."""
        for line in lines:
            self.write(line)


@contextmanager
def escape_output() -> Iterator[None]:
    """Let standard output and error write escapes inside the `with` statement."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast("TextIO", EscapingStream(each)) for each in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
