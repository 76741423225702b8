"""The echo of a terminal: off while lines at its bottom are drawn and erased again.

What a terminal echoes moves its cursor, and Ctrl-C discards what is still to be
written: the lines above the cursor are then erased from the wrong place.
"""

from __future__ import annotations

import os
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any

_LOCAL_MODES = 3  # the index of these flags in what `tcgetattr` returns


@contextmanager
def echo_off(terminal: IO[str]) -> Iterator[None]:
    """Show nothing that is typed on *terminal* inside the `with` statement.

    Nothing changes where *terminal* is no terminal, or where this process is in the
    background and the terminal belongs to the shell.
    """
    try:
        before = termios.tcgetattr(terminal)
    except (OSError, termios.error):
        yield
        return
    changed = before.copy()
    changed[_LOCAL_MODES] &= ~termios.ECHO
    changed[_LOCAL_MODES] |= termios.NOFLSH
    _set(terminal, changed)
    try:
        yield
    finally:
        _set(terminal, before)


def _set(terminal: IO[str], modes: list[Any]) -> None:
    """Set the modes of *terminal*, which stops a process in the background."""
    with suppress(OSError, termios.error):  # the terminal is gone, or another's
        if os.tcgetpgrp(terminal.fileno()) == os.getpgrp():
            termios.tcsetattr(terminal, termios.TCSANOW, modes)
