"""A simulated cluster that outlives the processes which work on it.

Called as a program it is `opendrs`, with the further kind of platform `external`:
one in another process, which serves calls at the socket `address`. Its clock can be
shifted while it runs.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from opendrs.cli.main import run
from opendrs.cli.platforms import PLATFORMS
from opendrs.config.platform_kinds import PlatformKind
from opendrs.controller import SystemClock
from opendrs.errors import OpenDRSError, PlatformUnavailableError
from opendrs.model import Action, Snapshot
from opendrs.ports import Clock, TaskId, TaskStatus
from opendrs.simulation import SimulatedPlatform

BEFORE, AFTER = "before", "after"
CLOCK_VARIABLE = "OPENDRS_TEST_CLOCK_SHIFT"  # names the file with the shift
_system_time = SystemClock.now
CallMoment = tuple[str, str]  # a method of the platform; before or after it was called


class ShiftedClock(SystemClock):
    """Clock that differs from that of the system by the seconds in a file.

    Args:
        path: The file; it is read in each call.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def now(self) -> datetime:
        """Return the shifted time, in UTC."""
        return _system_time(self) + timedelta(seconds=float(self._path.read_text()))

    def set(self, time: datetime) -> None:
        """Set the clock to *time*; it goes on from there."""
        shift = (time - _system_time(self)).total_seconds()
        new = self._path.with_suffix(".new")
        new.write_text(repr(shift))
        new.replace(self._path)


def shift_system_clock() -> None:
    """Shift the clock of this process if the environment names a file."""
    path = os.environ.get(CLOCK_VARIABLE)
    if path is not None:
        shifted = ShiftedClock(Path(path))
        SystemClock.now = lambda self: shifted.now()  # type: ignore[method-assign]  # noqa: ARG005


class ExternalCluster:
    """A simulated cluster for other processes; used in a `with` statement.

    Args:
        origin: The cluster in the beginning.
        address: The socket at which it can be reached.
        bandwidth: Bytes a second over the link of one node.
        clock: The time; None for that of the system.
    """

    def __init__(
        self,
        origin: Snapshot,
        address: Path,
        bandwidth: float,
        clock: Clock | None = None,
    ) -> None:
        self.platform = SimulatedPlatform(
            origin, clock or SystemClock(), bandwidth=bandwidth, load_variation=0.0
        )
        self.starts: Counter[Action] = Counter()
        self.on_call: Callable[[CallMoment], None] = lambda _: None
        self.failing_method: str | None = None
        self._listener = Listener(str(address))
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        threading.Thread(target=self._receive, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.close()

    def _receive(self) -> None:
        with suppress(OSError):  # already closed
            while True:
                caller = self._listener.accept()
                threading.Thread(
                    target=self._serve, args=(caller,), daemon=True
                ).start()

    def _serve(self, caller: Connection[Any, Any]) -> None:
        with caller, suppress(EOFError, OSError):  # the calling process has died
            while True:
                method, arguments = caller.recv()
                self.on_call((method, BEFORE))
                answer = self._answer(method, arguments)
                self.on_call((method, AFTER))
                caller.send(answer)

    def _answer(self, method: str, arguments: tuple[Any, ...]) -> object:
        with self._lock:
            if method == self.failing_method:
                return PlatformUnavailableError(f"{method}: connection refused")
            if method == "start":
                self.starts[arguments[0]] += 1
            try:
                return getattr(self.platform, method)(*arguments)
            except OpenDRSError as error:
                return error


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalSettings:
    """The address of a cluster outside of this process."""

    address: Path


class ExternalPlatform:
    """A cluster outside of this process, as `opendrs.ports.Platform`.

    Args:
        name: What it is called.
        address: The socket at which it can be reached.
    """

    def __init__(self, name: str, address: Path) -> None:
        self.name = name
        self._connection: Connection[Any, Any] = Client(str(address))

    def observe(self) -> Snapshot:
        """Return the cluster as it is now."""
        answer: Snapshot = self._call("observe")
        return answer

    def start(self, action: Action) -> TaskId:
        """Start *action*."""
        answer: TaskId = self._call("start", action)
        return answer

    def find(self, action: Action) -> TaskId:
        """Return the task that *action* would have been given."""
        answer: TaskId = self._call("find", action)
        return answer

    def status(self, task: TaskId) -> TaskStatus:
        """Return the status of *task*."""
        answer: TaskStatus = self._call("status", task)
        return answer

    def abort(self, task: TaskId) -> None:
        """Request to abort *task*."""
        self._call("abort", task)

    def _call(self, method: str, *arguments: object) -> Any:  # noqa: ANN401
        self._connection.send((method, arguments))
        answer = self._connection.recv()
        if isinstance(answer, OpenDRSError):
            raise answer
        return answer


KIND = PlatformKind(
    settings_type=ExternalSettings,
    create=lambda name, settings, _rules: ExternalPlatform(name, settings.address),
)


def opendrs_outside(words: Sequence[str]) -> int:
    """Run opendrs, which knows the kind of platform, and return the exit status."""
    assert isinstance(PLATFORMS.kinds, dict)
    PLATFORMS.kinds["external"] = lambda: KIND
    shift_system_clock()
    return run(words)


if __name__ == "__main__":
    sys.exit(opendrs_outside(sys.argv[1:]))
