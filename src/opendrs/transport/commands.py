"""Commands of the operator, run without a shell and with limits.

Each command has a process group of its own. It continues if opendrs is killed. After
its timeout, the whole group is killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import IO

from opendrs.errors import PlatformError

MAX_STDERR_SIZE = 1 << 20  # bytes of standard error; a command with more is killed
DEFAULT_MAX_OUTPUT = 16 << 20  # bytes
_POLL_INTERVAL = 0.05  # seconds between two checks of the sizes
_STDERR_TAIL_SIZE = 4_096  # bytes in which the last line is searched
_MAX_LINE_LENGTH = 200  # characters of that line in a message


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """Result of a command.

    Attributes:
        status: Exit status; negative for the signal that ended it.
        output: Standard output.
        last_line: Last line on standard error, for the operator.
    """

    status: int
    output: bytes
    last_line: str

    @property
    def problem(self) -> str:
        """Return how a failed command ended, and its last line on standard error."""
        ended = (
            f"signal {-self.status}"
            if self.status < 0
            else f"exit status {self.status}"
        )
        return f"{ended}: {self.last_line}" if self.last_line else ended


def run_command(  # noqa: PLR0913 - one for each property of a process
    description: str,
    command: Sequence[str],
    *,
    timeout: float,
    standard_input: bytes = b"",
    max_output: int = DEFAULT_MAX_OUTPUT,
    inherited: Collection[int] = (),
) -> CommandResult:
    """Run *command* and return its result.

    Args:
        description: Name of the command for messages.
        command: Program and arguments, which may contain a secret: never in messages.
        timeout: Seconds after which it is killed.
        standard_input: Its standard input.
        max_output: Largest size of its standard output, in bytes.
        inherited: File descriptors that it inherits, such as a lock.

    Raises:
        PlatformError: The command cannot be run, timed out, or printed too much.
    """
    try:
        # Not pipes: a process that the command leaves running would keep them open.
        with (
            TemporaryFile() as stdin,
            TemporaryFile() as stdout,
            TemporaryFile() as err,
        ):
            stdin.write(standard_input)
            stdin.seek(0)
            process = subprocess.Popen(  # noqa: S603 -- configured by the operator
                list(command),
                stdin=stdin,
                stdout=stdout,
                stderr=err,
                start_new_session=True,
                pass_fds=tuple(inherited),
            )
            limits = ((stdout, max_output, "output"), (err, MAX_STDERR_SIZE, "error"))
            problem = _wait_for_exit(process, limits, timeout)
            if problem is not None:
                _kill_group(process)
                raise PlatformError(f"{description}: {problem}")
            stdout.seek(0)
            return CommandResult(
                status=process.returncode,
                output=stdout.read(max_output),
                last_line=_last_line(err),
            )
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or "an argument has a zero byte"
        raise PlatformError(f"{description}: cannot be run: {problem}") from None


def _wait_for_exit(
    process: subprocess.Popen[bytes],
    limits: Sequence[tuple[IO[bytes], int, str]],
    timeout: float,
) -> str | None:
    """Wait until a command exits; return None, or the reason to kill it."""
    deadline = time.monotonic() + timeout
    exited = False
    while not exited and (remaining := deadline - time.monotonic()) > 0:
        with suppress(subprocess.TimeoutExpired):
            process.wait(min(remaining, _POLL_INTERVAL))
            exited = True
        for file, limit, name in limits:
            if os.fstat(file.fileno()).st_size > limit:
                return f"killed: more than {limit >> 20} MiB on standard {name}"
    return None if exited else f"killed: timeout after {timeout:g} s"


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a command and its child processes, except detached ones."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _last_line(stderr: IO[bytes]) -> str:
    stderr.seek(max(0, stderr.seek(0, os.SEEK_END) - _STDERR_TAIL_SIZE))
    text = stderr.read(_STDERR_TAIL_SIZE).decode(errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return ""
    printable = "".join(c if c.isprintable() else "?" for c in lines[-1])
    return (
        printable
        if len(printable) <= _MAX_LINE_LENGTH
        else f"{printable[:_MAX_LINE_LENGTH]}..."
    )
