"""Lines at the bottom of a terminal that change while others are printed above.

Rich writes such lines from a thread of its own, and does not keep that thread from
writing between the moment when `Console.print` has computed how many lines to erase
and the moment when it writes (Textualize/rich issue 1530): printed lines are then
erased. Here all that is written to a `Screen` is written under its lock, and the
thread that keeps the lines up to date takes the lock before anything else.
"""

from __future__ import annotations

import os
import sys
import termios
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from threading import Event, Thread
from typing import IO, Any

from rich.console import RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from opendrs.cli.console import TerminalConsole, printable

REFRESH_INTERVAL = 0.1  # seconds
MAX_LINES = 10  # and at most half of the terminal, so that printed lines stay in sight


class LiveProgress(Progress):
    """Progress bars on a terminal that never erase a line printed on its console.

    Args:
        screen: The terminal; all else that writes to it writes to this console.
        columns: The parts of each line, as rich has them.
    """

    def __init__(self, screen: TerminalConsole, *columns: ProgressColumn) -> None:
        self._screen = screen
        super().__init__(
            *columns,
            console=screen,
            auto_refresh=False,
            transient=True,
            redirect_stdout=sys.stdout.isatty(),
            redirect_stderr=sys.stderr.isatty(),
        )
        self._stopped = Event()
        self._modes = ExitStack()  # of the terminal, while the lines are shown
        self._ticker = Thread(target=self._tick, daemon=True)

    def start(self) -> None:
        """Show the lines, and keep them up to date."""
        self._modes.enter_context(disable_echo(self._screen.file))
        with self._screen:
            super().start()
        self._ticker.start()

    def stop(self) -> None:
        """Erase the lines."""
        self._stopped.set()
        if self._ticker.is_alive():
            self._ticker.join()
        with self._modes, self._screen:
            super().stop()

    def refresh(self) -> None:
        """Show the lines as they are now."""
        with self._screen:
            super().refresh()

    def get_renderables(self) -> Iterable[RenderableType]:
        """Return the first lines, and how many there are besides."""
        tasks = self.tasks
        fitting = max(1, min(MAX_LINES, self._screen.height // 2))
        yield self.make_tasks_table(tasks[:fitting])
        if len(tasks) > fitting:
            yield Text(f"and {len(tasks) - fitting} more in progress", style="dim")

    def _tick(self) -> None:
        while not self._stopped.wait(REFRESH_INTERVAL):
            try:
                self.refresh()
            except OSError:  # the terminal is gone: the next line printed reports it
                return


@contextmanager
def progress_bars(*columns: ProgressColumn) -> Iterator[LiveProgress | None]:
    """Give progress bars on standard error; None where that is no terminal."""
    screen = TerminalConsole(stderr=True, markup=False, highlight=False, emoji=False)
    if not screen.is_interactive:
        yield None
        return
    with LiveProgress(screen, *columns) as bars:
        yield bars


def counting_bars() -> AbstractContextManager[LiveProgress | None]:
    """Give bars that count pieces of work, with the time that remains."""
    return progress_bars(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )


@contextmanager
def planning_spinner() -> Iterator[Callable[[str], None]]:
    """Give what shows on a terminal which policy is at work."""
    text = TextColumn("{task.description}", markup=False)
    with progress_bars(SpinnerColumn(), text) as bars:
        if bars is None:
            yield lambda _: None
            return
        line = bars.add_task("", total=None)
        yield lambda policy: bars.update(
            line, description=f"planning with {printable(policy)}"
        )


_LOCAL_MODES = 3  # the index of these flags in what `tcgetattr` returns


@contextmanager
def disable_echo(terminal: IO[str]) -> Iterator[None]:
    """Show nothing that is typed on *terminal* inside the `with` statement.

    Nothing changes where *terminal* is no terminal, or where this process is in the
    background and the terminal belongs to the shell.
    """
    try:
        original = termios.tcgetattr(terminal)
    except (OSError, termios.error):
        yield
        return
    changed = original.copy()
    changed[_LOCAL_MODES] &= ~termios.ECHO
    changed[_LOCAL_MODES] |= termios.NOFLSH
    _set_modes(terminal, changed)
    try:
        yield
    finally:
        _set_modes(terminal, original)


def _set_modes(terminal: IO[str], modes: list[Any]) -> None:
    """Set the modes of *terminal*, which stops a process in the background."""
    with suppress(OSError, termios.error):  # the terminal is gone, or another's
        if os.tcgetpgrp(terminal.fileno()) == os.getpgrp():
            termios.tcsetattr(terminal, termios.TCSANOW, modes)
