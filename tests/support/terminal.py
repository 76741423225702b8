"""The command line: called in this process, in a terminal, and through a pipe."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from support.pseudo_terminal import Finished, run_in_terminal

OPENDRS = str(Path(sys.executable).with_name("opendrs"))


@dataclass(frozen=True)
class CommandResult:
    """The result of a command: its exit status and its output."""

    status: int
    out: str
    err: str


RunOpendrs = Callable[..., CommandResult]


def run_opendrs_in_terminal(
    *arguments: str,
    size: tuple[int, int] = (80, 24),
    reply: tuple[str, str] | None = None,
) -> Finished:
    """Run opendrs in a terminal of its own.

    Args:
        arguments: Its arguments.
        size: The columns and rows of the terminal.
        reply: A text, and what is typed when it can be read.
    """
    environment = {**os.environ, "COLUMNS": "", "LINES": ""}
    command = [OPENDRS, *arguments]
    return run_in_terminal(command, environment=environment, size=size, reply=reply)


def piped_output(*arguments: str) -> str:
    """Return the output of opendrs to a pipe, once it has ended with status 0."""
    process = subprocess.run(  # noqa: S603 - our own command
        [OPENDRS, *arguments], capture_output=True, encoding="utf-8", check=True
    )
    return process.stdout
