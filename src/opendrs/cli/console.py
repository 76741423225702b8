"""The console, tables, and JSON output."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from threading import RLock
from typing import IO, Any, Self

import rich.table
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.text import Text

from opendrs.escapes import escape_line, escape_text

MIN_WIDTH = 72  # columns; what is less than this cannot hold a table
_WRITE_LOCK = RLock()  # one for all: standard output and error are usually one terminal


class TerminalConsole(Console):
    """A console that one thread writes to at a time, and that reports a closed pipe.

    It writes to the terminal itself: what it is given to show is escaped here.
    """

    def __enter__(self) -> Self:
        """Begin to write: other threads wait until this one has written."""
        _WRITE_LOCK.acquire()
        self._enter_buffer()
        return self

    def __exit__(self, *error: object) -> None:
        """Write what was printed meanwhile."""
        try:
            self._exit_buffer()
        finally:
            _WRITE_LOCK.release()

    @property
    def file(self) -> IO[str]:
        """Return the terminal itself, and no stream that escapes what is written."""
        found = super().file
        while (inner := getattr(found, "rich_proxied_file", None)) is not None:
            found = inner
        return found

    @file.setter
    def file(self, new: IO[str]) -> None:
        self._file = new

    def render_str(self, text: str, **options: Any) -> Text:  # noqa: ANN401 - of rich
        """Return *text* as it is shown, with escapes for what cannot be seen."""
        return super().render_str(escape_text(text), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        """Yield the parts of what is shown, with escapes also in what is no `str`."""
        for part in super().render(renderable, options):
            plain = part.text if part.control else escape_text(part.text)
            yield part if plain == part.text else Segment(plain, part.style)

    def on_broken_pipe(self) -> None:
        """Raise what rich would have turned into an exit."""
        raise BrokenPipeError


def console(min_width: int = MIN_WIDTH) -> TerminalConsole:
    """Return the console to write to: what is in names is never markup.

    A pipe or a file has no width: no line wraps there, and none has colors.

    Args:
        min_width: Columns; a narrower window is written to as if it were that wide:
            lines then wrap.
    """
    terminal = sys.stdout.isatty()
    return TerminalConsole(
        width=None if TerminalConsole().width >= min_width else min_width,
        markup=False,
        highlight=False,
        emoji=False,
        force_terminal=terminal,
        soft_wrap=not terminal,
    )


def printable(text: str) -> str:
    """Return *text* on one line with nothing that a terminal would obey or hide."""
    return escape_line(text if supports_unicode() else text.replace("→", "->"))


def supports_unicode() -> bool:
    """Return whether standard output takes arrows and blocks."""
    return (sys.stdout.encoding or "").lower().startswith("utf")


@dataclass(frozen=True, slots=True)
class TextCell:
    """A cell of a table that is drawn on a terminal.

    Attributes:
        styled: The cell on a terminal.
        plain: The same elsewhere: the figure alone.
    """

    styled: Text
    plain: str


class TextTable:
    """Rows of cells: aligned on a terminal, separated by tabs elsewhere.

    Elsewhere each row is one line, however long, with nothing drawn around it, so that
    cut, awk and grep find what they look for.

    Args:
        columns: The headings.
        right: The headings of figures, which are aligned at the right.
        no_wrap: The headings of cells that are never divided among lines.
    """

    def __init__(
        self, columns: Sequence[str], right: Collection[str], no_wrap: Collection[str]
    ) -> None:
        self._columns = columns
        self._right = right
        self._no_wrap = no_wrap
        self._rows: list[tuple[str | Text | TextCell, ...]] = []

    def add_row(self, *cells: str | Text | TextCell) -> None:
        """Add a row."""
        self._rows.append(cells)

    def __rich_console__(self, screen: Console, _: ConsoleOptions) -> RenderResult:
        if screen.is_terminal:
            yield self._rich_table()
            return
        for row in (self._columns, *self._rows):
            yield Segment("\t".join(map(_plain_cell, row)) + "\n")

    def _rich_table(self) -> rich.table.Table:
        listing = rich.table.Table(
            box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold"
        )
        for column in self._columns:
            listing.add_column(
                column,
                justify="right" if column in self._right else "left",
                overflow="fold",
                no_wrap=column in self._no_wrap,
            )
        for row in self._rows:
            listing.add_row(*map(_styled_cell, row))
        return listing


def _styled_cell(cell: str | Text | TextCell) -> str | Text:
    if isinstance(cell, TextCell):
        return cell.styled
    return printable(cell) if isinstance(cell, str) else cell


def _plain_cell(cell: str | Text | TextCell) -> str:
    if isinstance(cell, str):
        return printable(cell).strip()
    return printable(cell.plain).strip()


def create_table(
    *columns: str, right: Collection[str] = (), no_wrap: Collection[str] = ()
) -> TextTable:
    """Return an empty table with these headings.

    Args:
        columns: The headings.
        right: Those of them under which figures stand, at the right.
        no_wrap: Those of them under which no cell is divided among lines.
    """
    return TextTable(columns, right, no_wrap)


def add_row(target: TextTable, *cells: str | Text | TextCell) -> None:
    """Add a row to a table; texts are made visible."""
    target.add_row(*cells)


def print_json(value: object) -> None:
    """Print *value* as JSON on standard output."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def warn(message: str) -> None:
    """Write *message* to standard error, on one line."""
    sys.stderr.write(f"opendrs: {printable(message)}\n")
