"""Power driver that runs commands of the operator, such as wake-on-LAN and ssh.

Commands are run without a shell, in a separate process group. A command continues if
opendrs is killed. After its timeout, the whole group is killed.
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
MAX_STDERR_SIZE = 1 << 20  # bytes of standard error; a command with more is killed
_POLL_INTERVAL = 0.1  # seconds between two checks of that size
_STDERR_TAIL_SIZE = 4_096  # bytes in which the last line is searched
_MAX_LINE_LENGTH = 200  # characters of that line in a message


class CommandDriver:
    """Power driver of one node that runs commands."""

    def __init__(self, node: NodeId, settings: PowerCommandSettings) -> None:
        self._node = node
        self._settings = settings
        self._values = {**settings.variables, NODE_VARIABLE: node}

    @property
    def off_confirm_time(self) -> float | None:
        """Return the setting `off_confirm_time`; None with a state command."""
        return None if self._settings.state_command else self._settings.off_confirm_time

    @property
    def transition_timeout(self) -> float:
        """Return the setting `transition_timeout` in seconds."""
        return self._settings.transition_timeout

    @property
    def detached(self) -> bool:
        """Return the setting `detached`."""
        return self._settings.detached

    def on(self) -> None:
        """Run the setting `on_command`.

        Raises:
            PlatformError: The command could not be run, timed out, or failed.
        """
        self._require_success("on", self._settings.on_command)

    def off(self) -> None:
        """Run the setting `off_command`.

        Raises:
            PlatformError: The command could not be run, timed out, or failed.
        """
        self._require_success("off", self._settings.off_command)

    def state(self) -> PowerState:
        """Return the power state from the exit status of `state_command`.

        Returns:
            ON for 0, OFF for 1, otherwise UNKNOWN; UNKNOWN without the setting.

        Raises:
            PlatformError: The command could not be run, or timed out.
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
            raise PlatformError(f"{self._node}: command {name}: {result}{suffix}")

    def _run(self, name: str, command: Sequence[str]) -> tuple[int, str]:
        """Return the exit status of a command, and its last line on standard error.

        Messages never contain the arguments, because these may contain a secret.
        """
        description = f"{self._node}: command {name}"
        if self._node.startswith("-"):  # a program would read it as an option
            raise PermissionDeniedError(
                f"{description}: not run: the name of the node starts with a dash"
            )
        try:
            # A file instead of a pipe: a background process that the command leaves
            # running would keep a pipe open.
            with TemporaryFile() as stderr:
                process = subprocess.Popen(  # noqa: S603 -- configured by the operator
                    substitute_variables(command, self._values),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=stderr,
                    start_new_session=True,
                )
                problem = _wait_for_exit(process, stderr, self._settings.timeout)
                if problem is not None:
                    _kill_group(process)
                    raise PlatformError(f"{description}: {problem}")
                return process.returncode, _last_line(stderr)
        except (OSError, ValueError) as error:
            problem = getattr(error, "strerror", None) or "an argument has a zero byte"
            raise PlatformError(f"{description}: cannot be run: {problem}") from None


def _wait_for_exit(
    process: subprocess.Popen[bytes], stderr: IO[bytes], timeout: float
) -> str | None:
    """Wait until a command exits; return None, or the reason to kill it."""
    deadline = time.monotonic() + timeout
    while (remaining := deadline - time.monotonic()) > 0:
        with suppress(subprocess.TimeoutExpired):
            process.wait(min(remaining, _POLL_INTERVAL))
            return None
        if os.fstat(stderr.fileno()).st_size > MAX_STDERR_SIZE:
            size = MAX_STDERR_SIZE >> 20
            return f"killed: more than {size} MiB on standard error"
    return f"killed: timeout after {timeout:g} s"


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
