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
from rich.measure import Measurement
from rich.padding import Padding
from rich.segment import Segment
from rich.text import Text

from opendrs.escapes import escape_line, escape_text

MIN_WIDTH = 72  # columns; a table needs at least this width
_WRITE_LOCK = RLock()  # shared: standard output and error are usually one terminal


class TerminalConsole(Console):
    """A thread-safe rich console that escapes control characters.

    It bypasses `EscapingStream` and raises `BrokenPipeError` if a pipe is closed.
    """

    def __enter__(self) -> Self:
        """Acquire the lock, so that other threads wait with their output."""
        _WRITE_LOCK.acquire()
        self._enter_buffer()
        return self

    def __exit__(self, *error: object) -> None:
        """Write the buffered output and release the lock."""
        try:
            self._exit_buffer()
        finally:
            _WRITE_LOCK.release()

    @property
    def file(self) -> IO[str]:
        """Return the underlying stream, without any `EscapingStream` around it."""
        found = super().file
        while (inner := getattr(found, "rich_proxied_file", None)) is not None:
            found = inner
        return found

    @file.setter
    def file(self, new: IO[str]) -> None:
        self._file = new

    def render_str(self, text: str, **options: Any) -> Text:  # noqa: ANN401 - of rich
        """Return *text* with escapes for control and invisible characters."""
        return super().render_str(escape_text(text), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        """Yield the segments of *renderable*, escaped also if it is not a `str`."""
        for part in super().render(renderable, options):
            plain = part.text if part.control else escape_text(part.text)
            yield part if plain == part.text else Segment(plain, part.style)

    def on_broken_pipe(self) -> None:
        """Raise `BrokenPipeError`, where rich would exit."""
        raise BrokenPipeError


def console(min_width: int = MIN_WIDTH) -> TerminalConsole:
    """Return a console for standard output that never interprets markup.

    In a pipe or a file, lines neither wrap nor have colors.

    Args:
        min_width: Minimum width in columns; in a narrower terminal, lines wrap.
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


def print_indented(screen: TerminalConsole, text: str, indent: int = 2) -> None:
    """Print *text* indented by *indent* columns, also its lines on a terminal."""
    if screen.is_terminal:
        screen.print(Padding(Text(text), (0, 0, 0, indent), expand=False))
    else:
        screen.print(" " * indent + text)


def printable(text: str) -> str:
    """Return *text* on one line, with escapes for control and invisible characters."""
    return escape_line(text if supports_unicode() else text.replace("→", "->"))


def supports_unicode() -> bool:
    """Return True if standard output can encode arrows and blocks."""
    return (sys.stdout.encoding or "").lower().startswith("utf")


@dataclass(frozen=True, slots=True)
class TextCell:
    """A table cell with different forms on a terminal and elsewhere.

    Attributes:
        styled: The cell on a terminal, for example a bar.
        plain: The cell in a pipe or a file: only the value.
    """

    styled: Text
    plain: str


class TextTable:
    """A table: aligned on a terminal, separated by tabs elsewhere.

    If no cell may wrap and the terminal is too narrow, the columns are in several
    tables, each with the first column. In a pipe or a file each row is one line without
    decoration, for cut, awk and grep.

    Args:
        columns: The headings; a line break in one is a space in a pipe or a file.
        right: Headings of right-aligned columns.
        no_wrap: Headings of columns with cells that never wrap.
    """

    def __init__(
        self, columns: Sequence[str], right: Collection[str], no_wrap: Collection[str]
    ) -> None:
        self._columns = columns
        self._right = right
        self._no_wrap = no_wrap
        self._rows: list[tuple[str | Text | TextCell, ...]] = []

    def add_row(self, *cells: str | Text | TextCell) -> None:
        """Append a row with one cell per column."""
        self._rows.append(cells)

    def __rich_console__(
        self, screen: Console, options: ConsoleOptions
    ) -> RenderResult:
        if screen.is_terminal:
            for number, columns in enumerate(self._parts(screen, options)):
                if number:
                    yield ""
                yield self._rich_table(columns)
            return
        headings = tuple(column.replace("\n", " ") for column in self._columns)
        for row in (headings, *self._rows):
            yield Segment("\t".join(map(_plain_cell, row)) + "\n")

    def _parts(
        self, screen: Console, options: ConsoleOptions
    ) -> Iterator[tuple[int, ...]]:
        """Yield the columns of each table; the first column is in all of them.

        There is one table, unless no cell may wrap and the terminal is too narrow.
        """
        every = tuple(range(len(self._columns)))
        may_wrap = not set(self._columns) <= set(self._no_wrap)
        if may_wrap or self._fits(screen, options, every):
            yield every
            return
        part = every[:1]
        for column in every[1:]:
            wider = (*part, column)
            if len(part) > 1 and not self._fits(screen, options, wider):
                yield part
                wider = (0, column)
            part = wider
        yield part

    def _fits(
        self, screen: Console, options: ConsoleOptions, columns: Sequence[int]
    ) -> bool:
        unlimited = options.update(max_width=sys.maxsize)
        width = Measurement.get(screen, unlimited, self._rich_table(columns)).maximum
        return width <= options.max_width

    def _rich_table(self, columns: Sequence[int]) -> rich.table.Table:
        listing = rich.table.Table(
            box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold"
        )
        headings = [self._columns[column] for column in columns]
        height = max(heading.count("\n") for heading in headings)
        for heading in headings:
            listing.add_column(
                "\n" * (height - heading.count("\n")) + heading,  # aligned below
                justify="right" if heading in self._right else "left",
                overflow="fold",
                no_wrap=heading in self._no_wrap,
            )
        for row in self._rows:
            listing.add_row(*(_styled_cell(row[column]) for column in columns))
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
    """Return an empty table.

    Args:
        columns: The headings.
        right: Headings of right-aligned columns.
        no_wrap: Headings of columns with cells that never wrap.
    """
    return TextTable(columns, right, no_wrap)


def add_row(target: TextTable, *cells: str | Text | TextCell) -> None:
    """Append a row to *target*; control characters are escaped."""
    target.add_row(*cells)


def print_json(value: object) -> None:
    """Print *value* as JSON on standard output."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def warn(message: str) -> None:
    """Write *message* to standard error, on one line."""
    sys.stderr.write(f"opendrs: {printable(message)}\n")
