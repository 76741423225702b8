"""Power by commands of the operator, such as wake-on-LAN and ssh.

They are run without a shell, in a process group of their own: a command goes on
when opendrs is killed, and none is left behind when its time is over.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from tempfile import TemporaryFile
from typing import IO

from opendrs.errors import PermissionDeniedError, PlatformError
from opendrs.model import NodeId
from opendrs.power.driver import PowerState
from opendrs.power.settings import (
    NODE_VARIABLE,
    PowerCommandSettings,
    substitute_variables,
)

_STATES = {0: PowerState.ON, 1: PowerState.OFF}
MAX_STDERR_SIZE = 1 << 20  # bytes that a command may complain
_POLL_INTERVAL = 0.1  # seconds from one look at that to the next
_STDERR_TAIL_SIZE = 4_096  # bytes of it that are looked at in the end
_MAX_LINE_LENGTH = 200  # characters of it that are repeated


class CommandDriver:
    """The power of one node, by commands."""

    def __init__(self, node: NodeId, settings: PowerCommandSettings) -> None:
        self._node = node
        self._settings = settings
        self._values = {**settings.variables, NODE_VARIABLE: node}

    @property
    def off_confirm_time(self) -> float | None:
        """Return the seconds of silence that stand for `state`, if there is none."""
        return None if self._settings.state_command else self._settings.off_confirm_time

    @property
    def transition_timeout(self) -> float:
        """Return the seconds in which the node should have followed."""
        return self._settings.transition_timeout

    @property
    def detached(self) -> bool:
        """Return whether a complaint of `off` may mean nothing."""
        return self._settings.detached

    def on(self) -> None:
        """Run the command `on`.

        Raises:
            PlatformError: It could not be run, did not end in time, or failed.
        """
        self._require_success("on", self._settings.on_command)

    def off(self) -> None:
        """Run the command `off`.

        Raises:
            PlatformError: It could not be run, did not end in time, or failed.
        """
        self._require_success("off", self._settings.off_command)

    def state(self) -> PowerState:
        """Return what the exit status of the command `state` means.

        Raises:
            PlatformError: It could not be run, or did not end in time.
        """
        if self._settings.state_command is None:
            return PowerState.UNKNOWN
        status, _ = self._run("state", self._settings.state_command)
        return _STATES.get(status, PowerState.UNKNOWN)

    def _require_success(self, name: str, command: Sequence[str]) -> None:
        status, error_line = self._run(name, command)
        if status != 0:
            result = f"signal {-status}" if status < 0 else f"exit status {status}"
            suffix = f": {error_line}" if error_line else ""
            raise PlatformError(
                f"the command {name} of {self._node} ended with {result}{suffix}"
            )

    def _run(self, name: str, command: Sequence[str]) -> tuple[int, str]:
        """Return the exit status of a command, and the last line it complained.

        The words are never told to anybody: they may hold a secret.
        """
        description = f"the command {name} of {self._node}"
        if self._node.startswith("-"):  # which a program would take as an option
            raise PermissionDeniedError(
                f"{description}: a name cannot begin with a dash"
            )
        try:
            # A file and not a pipe, which what a command leaves running would keep
            # open, and could not outlive.
            with TemporaryFile() as stderr:
                process = subprocess.Popen(  # noqa: S603 -- the operator's own words
                    substitute_variables(command, self._values),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=stderr,
                    start_new_session=True,
                )
                problem = _wait_for_exit(process, stderr, self._settings.timeout)
                if problem is not None:
                    _kill_group(process)
                    raise PlatformError(f"{description} {problem}")
                return process.returncode, _last_line(stderr)
        except (OSError, ValueError) as error:
            problem = getattr(error, "strerror", None) or "it holds a zero byte"
            raise PlatformError(f"{description} could not be run: {problem}") from None


def _wait_for_exit(
    process: subprocess.Popen[bytes], stderr: IO[bytes], timeout: float
) -> str | None:
    """Wait for the end of a command; return why no longer, if that is not its end."""
    deadline = time.monotonic() + timeout
    while (remaining := deadline - time.monotonic()) > 0:
        with suppress(subprocess.TimeoutExpired):
            process.wait(min(remaining, _POLL_INTERVAL))
            return None
        if os.fstat(stderr.fileno()).st_size > MAX_STDERR_SIZE:
            return f"complained more than {MAX_STDERR_SIZE >> 20} MiB, and was ended"
    return f"did not end within {timeout:g} s"


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """End a command, and all that it started and did not detach."""
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
