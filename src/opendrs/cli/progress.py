"""Progress bars at the bottom of a terminal, below lines that are being printed.

Rich refreshes its bars in a separate thread. That thread may write after
`Console.print` has computed how many lines to erase, and before it writes them
(Textualize/rich issue 1530). Printed lines are then erased. Here all output to a
`TerminalConsole` is written under its lock, and the refreshing thread acquires the
lock first.
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
MAX_LINES = 10  # and at most half of the terminal, so that printed lines stay visible


class LiveProgress(Progress):
    """Progress bars that never erase a line printed on the same console.

    Args:
        screen: The terminal; all other output must use this console.
        columns: The columns of each bar, as in rich.
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
        self._modes = ExitStack()  # restores the modes of the terminal
        self._ticker = Thread(target=self._tick, daemon=True)

    def start(self) -> None:
        """Show the bars and refresh them periodically."""
        self._modes.enter_context(disable_echo(self._screen.file))
        with self._screen:
            super().start()
        self._ticker.start()

    def stop(self) -> None:
        """Erase the bars and restore the terminal."""
        self._stopped.set()
        if self._ticker.is_alive():
            self._ticker.join()
        with self._modes, self._screen:
            super().stop()

    def refresh(self) -> None:
        """Redraw the bars."""
        with self._screen:
            super().refresh()

    def get_renderables(self) -> Iterable[RenderableType]:
        """Yield the bars that fit, and the number of the others."""
        tasks = self.tasks
        fitting = max(1, min(MAX_LINES, self._screen.height // 2))
        yield self.make_tasks_table(tasks[:fitting])
        if len(tasks) > fitting:
            yield Text(f"and {len(tasks) - fitting} more in progress", style="dim")

    def _tick(self) -> None:
        while not self._stopped.wait(REFRESH_INTERVAL):
            try:
                self.refresh()
            except OSError:  # the terminal is closed; the next print reports it
                return


@contextmanager
def progress_bars(*columns: ProgressColumn) -> Iterator[LiveProgress | None]:
    """Yield progress bars on standard error; None if that is not a terminal."""
    screen = TerminalConsole(stderr=True, markup=False, highlight=False, emoji=False)
    if not screen.is_interactive:
        yield None
        return
    with LiveProgress(screen, *columns) as bars:
        yield bars


def counting_bars() -> AbstractContextManager[LiveProgress | None]:
    """Return bars with the number of completed items and the remaining time."""
    return progress_bars(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )


@contextmanager
def planning_spinner(
    activity: str = "planning with",
) -> Iterator[Callable[[str], None]]:
    """Yield a function that shows *activity* and the name of a policy on a terminal."""
    text = TextColumn("{task.description}", markup=False)
    with progress_bars(SpinnerColumn(), text) as bars:
        if bars is None:
            yield lambda _: None
            return
        line = bars.add_task("", total=None)
        yield lambda policy: bars.update(
            line, description=f"{activity} {printable(policy)}"
        )


_LOCAL_MODES = 3  # index of the local modes in the result of `tcgetattr`


@contextmanager
def disable_echo(terminal: IO[str]) -> Iterator[None]:
    """Disable the echo of typed characters on *terminal* in a `with` block.

    Has no effect if *terminal* is not a terminal, or if this process is in the
    background.
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
    """Set the modes of *terminal*, unless this process is in the background.

    The kernel stops a background process that sets them.
    """
    with suppress(OSError, termios.error):  # closed, or owned by another session
        if os.tcgetpgrp(terminal.fileno()) == os.getpgrp():
            termios.tcsetattr(terminal, termios.TCSANOW, modes)
