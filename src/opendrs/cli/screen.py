"""What all output has in common: one console, one kind of table, one JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from threading import RLock
from typing import Self

from rich.console import Console
from rich.table import Table
from rich.text import Text

NARROWEST = 72  # columns; what is less than this cannot hold a table
_WRITING = RLock()  # one for all: standard output and error are usually one terminal


class Screen(Console):
    """A console that one thread writes to at a time, and that reports a closed pipe."""

    def __enter__(self) -> Self:
        """Begin to write: other threads wait until this one has written."""
        _WRITING.acquire()
        self._enter_buffer()
        return self

    def __exit__(self, *error: object) -> None:
        """Write what was printed meanwhile."""
        try:
            self._exit_buffer()
        finally:
            _WRITING.release()

    def on_broken_pipe(self) -> None:
        """Raise what rich would have turned into an exit."""
        raise BrokenPipeError


def console(narrowest: int = NARROWEST) -> Screen:
    """Return the console to write to: what is in names is never markup.

    Args:
        narrowest: Columns; a narrower window is written to as if it were that wide:
            lines then wrap.
    """
    width = None if Screen().width >= narrowest else narrowest
    return Screen(width=width, markup=False, highlight=False, emoji=False)


def visible(text: str) -> str:
    """Return *text* on one line with nothing that a terminal would obey."""
    if not speaks_unicode():
        text = text.replace("→", "->")
    if text.isprintable():
        return text
    return "".join(mark if mark.isprintable() else _escaped(mark) for mark in text)


def speaks_unicode() -> bool:
    """Return whether standard output takes arrows and blocks."""
    return (sys.stdout.encoding or "").lower().startswith("utf")


def _escaped(mark: str) -> str:
    return mark.encode("unicode_escape").decode("ascii")


def table(*columns: str, right: Sequence[str] = ()) -> Table:
    """Return an empty table with these headings.

    Args:
        columns: The headings.
        right: Those of them under which figures stand, at the right.
    """
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        made.add_column(
            column,
            justify="right" if column in right else "left",
            overflow="fold",
        )
    return made


def add_row(to: Table, *cells: str | Text) -> None:
    """Add a row to a table; texts are made visible first."""
    to.add_row(*(visible(cell) if isinstance(cell, str) else cell for cell in cells))


def print_json(value: object) -> None:
    """Print *value* as JSON on standard output."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
