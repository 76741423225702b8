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
from opendrs.platforms.power.driver import PowerState
from opendrs.platforms.power.settings import NODE, CommandSettings
from opendrs.platforms.power.words import filled

_STATES = {0: PowerState.ON, 1: PowerState.OFF}
MOST_SAID = 1 << 20  # bytes that a command may complain
_GLANCE = 0.1  # seconds from one look at that to the next
_LAST = 4_096  # bytes of it that are looked at in the end
_MOST = 200  # characters of it that are repeated


class CommandDriver:
    """The power of one node, by commands."""

    def __init__(self, node: NodeId, settings: CommandSettings) -> None:
        self._node = node
        self._settings = settings
        self._values = {**settings.variables, NODE: node}

    @property
    def silence(self) -> float | None:
        """Return the seconds of silence that stand for `state`, if there is none."""
        return None if self._settings.state else self._settings.silence

    @property
    def patience(self) -> float:
        """Return the seconds in which the node should have followed."""
        return self._settings.patience

    @property
    def detached(self) -> bool:
        """Return whether a complaint of `off` may mean nothing."""
        return self._settings.detached

    def on(self) -> None:
        """Run the command `on`.

        Raises:
            PlatformError: It could not be run, did not end in time, or failed.
        """
        self._require_success("on", self._settings.on)

    def off(self) -> None:
        """Run the command `off`.

        Raises:
            PlatformError: It could not be run, did not end in time, or failed.
        """
        self._require_success("off", self._settings.off)

    def state(self) -> PowerState:
        """Return what the exit status of the command `state` means.

        Raises:
            PlatformError: It could not be run, or did not end in time.
        """
        if self._settings.state is None:
            return PowerState.UNKNOWN
        status, _ = self._run("state", self._settings.state)
        return _STATES.get(status, PowerState.UNKNOWN)

    def _require_success(self, name: str, words: Sequence[str]) -> None:
        status, complaint = self._run(name, words)
        if status != 0:
            how = f"signal {-status}" if status < 0 else f"exit status {status}"
            said = f": {complaint}" if complaint else ""
            raise PlatformError(
                f"the command {name} of {self._node} ended with {how}{said}"
            )

    def _run(self, name: str, words: Sequence[str]) -> tuple[int, str]:
        """Return the exit status of a command, and the last line it complained.

        The words are never told to anybody: they may hold a secret.
        """
        what = f"the command {name} of {self._node}"
        if self._node.startswith("-"):  # which a program would take as an option
            raise PermissionDeniedError(f"{what}: a name cannot begin with a dash")
        try:
            # A file and not a pipe, which what a command leaves running would keep
            # open, and could not outlive.
            with TemporaryFile() as complaints:
                process = subprocess.Popen(  # noqa: S603 -- the operator's own words
                    filled(words, self._values),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=complaints,
                    start_new_session=True,
                )
                why = _waited_for(process, complaints, self._settings.timeout)
                if why is not None:
                    _end(process)
                    raise PlatformError(f"{what} {why}")
                return process.returncode, _last_line(complaints)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "it holds a zero byte"
            raise PlatformError(f"{what} could not be run: {why}") from None


def _waited_for(
    process: subprocess.Popen[bytes], complaints: IO[bytes], lasting: float
) -> str | None:
    """Wait for the end of a command; return why no longer, if that is not its end."""
    until = time.monotonic() + lasting
    while (left := until - time.monotonic()) > 0:
        with suppress(subprocess.TimeoutExpired):
            process.wait(min(left, _GLANCE))
            return None
        if os.fstat(complaints.fileno()).st_size > MOST_SAID:
            return f"complained more than {MOST_SAID >> 20} MiB, and was ended"
    return f"did not end within {lasting:g} s"


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a command, and all that it started and did not detach."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _last_line(complaints: IO[bytes]) -> str:
    complaints.seek(max(0, complaints.seek(0, os.SEEK_END) - _LAST))
    text = complaints.read(_LAST).decode(errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return ""
    plain = "".join(c if c.isprintable() else "?" for c in lines[-1])
    return plain if len(plain) <= _MOST else f"{plain[:_MOST]}..."
