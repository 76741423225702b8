"""A command in a terminal of its own, and what can be read there afterwards.

The terminal is emulated as far as progress bars need it. A control sequence that is not
known is an error, so that nothing is overlooked.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import monotonic

CONTROL_SEQUENCE = re.compile(r"\x1b\[(\??[0-9;]*)([A-Za-z])")
WITHOUT_EFFECT = "mhl"  # colors, and whether the cursor is visible
LONGEST_SEQUENCE = 30
CTRL_C = "\x03"
TIME_BETWEEN_SIZES = 0.25  # seconds


@dataclass
class Row:
    """A row of a terminal; `wraps` when its text continues in the next row."""

    text: str = ""
    wraps: bool = False


class Terminal:
    """A terminal with unlimited scrollback that wraps lines again when it is resized.

    Args:
        columns: Its width.
        rows: Its height.
    """

    def __init__(self, columns: int, rows: int) -> None:
        self._columns = columns
        self._height = rows
        self._rows = [Row()]
        self._row = self._column = 0
        self._incomplete = ""

    @property
    def lines(self) -> list[str]:
        """Return all lines, from the first of the scrollback to the last with text."""
        text = "".join(row.text + "\n" * (not row.wraps) for row in self._rows)
        return [line.rstrip() for line in text.rstrip().splitlines()]

    def write(self, text: str) -> None:
        """Show *text*, and do what the control sequences in it ask for."""
        text, self._incomplete = self._incomplete + text, ""
        at = 0
        while at < len(text):
            if text[at] != "\x1b":
                self._put(text[at])
                at += 1
            elif found := CONTROL_SEQUENCE.match(text, at):
                self._control(found[1], found[2])
                at = found.end()
            else:
                self._incomplete = text[at:]
                assert len(self._incomplete) < LONGEST_SEQUENCE, self._incomplete
                return

    def resize(self, columns: int, rows: int) -> None:
        """Take on another size."""
        made: list[Row] = []
        line, cursor = "", None
        for number, row in enumerate(self._rows):
            if number == self._row:
                cursor = len(line) + self._column
            line += row.text
            if row.wraps:
                continue
            starts = range(0, max(1, len(line)), columns)
            if cursor is not None:
                below = min(cursor // columns, len(starts) - 1)
                self._row, self._column = len(made) + below, cursor - below * columns
            made += [Row(line[at : at + columns], wraps=True) for at in starts]
            made[-1].wraps = False
            line, cursor = "", None
        self._rows, self._columns, self._height = made, columns, rows

    def _put(self, character: str) -> None:
        if character == "\r":
            self._column = 0
        elif character == "\n":
            self._go_down()
        else:
            assert character.isprintable(), f"unknown character: {character!r}"
            if self._column == self._columns:
                self._rows[self._row].wraps = True
                self._go_down()
                self._column = 0
            row = self._rows[self._row]
            left = row.text[: self._column].ljust(self._column)
            row.text = left + character + row.text[self._column + 1 :]
            self._column += 1

    def _go_down(self) -> None:
        self._row += 1
        if self._row == len(self._rows):
            self._rows.append(Row())

    def _control(self, argument: str, letter: str) -> None:
        if letter == "A":
            first_visible = max(0, len(self._rows) - self._height)
            self._row = max(first_visible, self._row - int(argument or 1))
        elif letter == "H":
            assert not argument, f"unknown position: {argument}"
            self._row, self._column = max(0, len(self._rows) - self._height), 0
        elif letter == "K":
            assert argument == "2", f"unknown way to erase: {argument}"
            self._rows[self._row] = Row()
        else:
            assert letter in WITHOUT_EFFECT, f"unknown sequence: {argument}{letter}"


@dataclass(frozen=True)
class Finished:
    """A command that ran in a terminal: its exit status, and the lines there."""

    status: int
    lines: list[str]


def run_in_terminal(  # noqa: PLR0913 - most have a default
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    size: tuple[int, int] = (80, 24),
    later_sizes: Sequence[tuple[int, int]] = (),
    interrupt_at: str | None = None,
    reply: tuple[str, str] | None = None,
    seconds: float = 120.0,
) -> Finished:
    """Run *command* in a terminal of its own until it ends.

    Args:
        command: The program and its arguments.
        environment: The environment variables, besides those of the terminal.
        size: The columns and rows of the terminal.
        later_sizes: What it is resized to, one after the other.
        interrupt_at: A text; when it can be read, Ctrl-C is pressed once.
        reply: A text, and what is typed once when it can be read.
        seconds: The time after which it is an error that the command has not ended.
    """
    controller, end = pty.openpty()
    _set_size(controller, size)
    with subprocess.Popen(  # noqa: S603 - our own command
        command,
        stdin=end,
        stdout=end,
        stderr=end,
        env={**environment, "TERM": "xterm-256color", "PYTHONUTF8": "1"},
        start_new_session=True,
        preexec_fn=_take_terminal,  # noqa: PLW1509 - one system call
    ) as process:
        os.close(end)
        try:
            terminal = Terminal(*size)
            _follow(
                controller,
                terminal,
                deque(later_sizes),
                reply if interrupt_at is None else (interrupt_at, CTRL_C),
                monotonic() + seconds,
            )
        except BaseException:
            process.kill()
            raise
        finally:
            os.close(controller)
    return Finished(process.returncode, terminal.lines)


def _follow(
    controller: int,
    terminal: Terminal,
    sizes: deque[tuple[int, int]],
    reply: tuple[str, str] | None,
    deadline: float,
) -> None:
    """Show in *terminal* what is written, until nothing writes any more."""
    next_size = monotonic() + TIME_BETWEEN_SIZES
    undecoded = b""
    while monotonic() < deadline:
        if sizes and monotonic() >= next_size:
            size = sizes.popleft()
            _set_size(controller, size)
            terminal.resize(*size)
            next_size = monotonic() + TIME_BETWEEN_SIZES
        if not select.select([controller], [], [], 0.05)[0]:
            continue
        try:
            undecoded += os.read(controller, 4096)
        except OSError:  # the command has ended, and all it wrote was read
            return
        whole = undecoded.decode(errors="ignore")
        undecoded = undecoded[len(whole.encode()) :]
        terminal.write(whole)
        if reply is not None and any(reply[0] in line for line in terminal.lines):
            os.write(controller, reply[1].encode())
            reply = None
    raise AssertionError("the command did not end:\n" + "\n".join(terminal.lines))


def _take_terminal() -> None:
    """Make standard input the terminal that Ctrl-C comes from."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _set_size(controller: int, size: tuple[int, int]) -> None:
    columns, rows = size
    packed = struct.pack("HHHH", rows, columns, 0, 0)
    fcntl.ioctl(controller, termios.TIOCSWINSZ, packed)
