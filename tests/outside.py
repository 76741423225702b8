"""A simulated cluster that outlives the processes which work on it.

Called as a program it is `opendrs`, with the further kind of platform "outside":
one in another process, which lets itself be worked on at the socket `address`.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from opendrs.cli.main import main
from opendrs.controller.clock import SystemClock
from opendrs.errors import OpenDRSError
from opendrs.model import Action, Snapshot
from opendrs.platforms import connect
from opendrs.ports import TaskId, TaskStatus
from opendrs.sim import SimulatedPlatform

BEFORE, AFTER = "before", "after"
Moment = tuple[str, str]  # a method of the platform; before or after it was called


class Outside:
    """A simulated cluster for other processes; used in a `with` statement.

    Args:
        origin: The cluster in the beginning.
        address: The socket at which it can be reached.
        bandwidth: Bytes a second over the link of one node.
    """

    def __init__(self, origin: Snapshot, address: Path, bandwidth: float) -> None:
        self.world = SimulatedPlatform(
            origin, SystemClock(), bandwidth=bandwidth, swing=0.0
        )
        self.starts: Counter[Action] = Counter()
        self.strike: Callable[[Moment], None] = lambda _: None
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
        with suppress(OSError):  # it was closed
            while True:
                caller = self._listener.accept()
                threading.Thread(
                    target=self._serve, args=(caller,), daemon=True
                ).start()

    def _serve(self, caller: Connection[Any, Any]) -> None:
        with caller, suppress(EOFError, OSError):  # whoever called has died
            while True:
                method, arguments = caller.recv()
                self.strike((method, BEFORE))
                answer = self._answer(method, arguments)
                self.strike((method, AFTER))
                caller.send(answer)

    def _answer(self, method: str, arguments: tuple[Any, ...]) -> object:
        with self._lock:
            if method == "start":
                self.starts[arguments[0]] += 1
            try:
                return getattr(self.world, method)(*arguments)
            except OpenDRSError as error:
                return error


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideSettings:
    """Where a cluster outside of this process can be reached."""

    address: Path


class OutsidePlatform:
    """A cluster outside of this process, as `opendrs.ports.Platform`.

    Args:
        name: What it is called.
        address: The socket at which it can be reached.
    """

    def __init__(self, name: str, address: Path) -> None:
        self.name = name
        self._line: Connection[Any, Any] = Client(str(address))

    def observe(self) -> Snapshot:
        """Return the cluster as it is now."""
        answer: Snapshot = self._ask("observe")
        return answer

    def start(self, action: Action) -> TaskId:
        """Start *action*."""
        answer: TaskId = self._ask("start", action)
        return answer

    def find(self, action: Action) -> TaskId:
        """Return the task that *action* would have been given."""
        answer: TaskId = self._ask("find", action)
        return answer

    def status(self, task: TaskId) -> TaskStatus:
        """Return how *task* stands."""
        answer: TaskStatus = self._ask("status", task)
        return answer

    def abort(self, task: TaskId) -> None:
        """Ask for *task* to be given up."""
        self._ask("abort", task)

    def _ask(self, method: str, *arguments: object) -> Any:  # noqa: ANN401
        self._line.send((method, arguments))
        answer = self._line.recv()
        if isinstance(answer, OpenDRSError):
            raise answer
        return answer


def _kind() -> tuple[type, connect.Adapter]:
    def adapter(name: str, settings: object, rules: object) -> OutsidePlatform:
        del rules
        assert isinstance(settings, OutsideSettings)
        return OutsidePlatform(name, settings.address)

    return OutsideSettings, adapter


if __name__ == "__main__":
    assert isinstance(connect.KINDS, dict)
    connect.KINDS["outside"] = _kind
    main()
