"""The process of `opendrs serve` that `opendrs run` starts, and starts again."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from opendrs.controller.events import LogEventCode, log_event
from opendrs.controller.observers import NullControllerObserver
from opendrs.ports import Clock, Store

FIRST_DELAY, LONGEST_DELAY = 1.0, 60.0  # seconds until it is started again
STABLE_TIME = 60.0  # seconds after which an end counts as the first one
STOP_TIMEOUT = 5.0  # seconds until it is killed


class ServeProcess(NullControllerObserver):
    """Controller observer that runs `opendrs serve`; used in a `with` statement.

    The process ends with the controller, however that ends: its standard input is
    closed then. Its own end never ends the controller.

    Args:
        words: Arguments of `opendrs`, without `--with-parent`.
        clock: The time.
    """

    def __init__(self, words: Sequence[str], clock: Clock) -> None:
        self._words = tuple(words)
        self._clock = clock
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at = 0.0
        self._start_at: float | None = None
        self._delay = FIRST_DELAY

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._start_at = None
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        assert process.stdin is not None  # noqa: S101 - for the type checker
        process.stdin.close()
        try:
            process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    @property
    def pid(self) -> int | None:
        """Return the process id; None while it does not run."""
        return None if self._process is None else self._process.pid

    def lease_acquired(self, store: Store) -> None:
        """Start the process: the store exists now."""
        del store
        self._start_at = self._clock.monotonic()
        self.loop_polled()

    def loop_polled(self) -> None:
        """Start the process again if it has ended."""
        now = self._clock.monotonic()
        if self._process is not None and self._process.poll() is not None:
            self._ended(self._process.returncode, now)
        if self._start_at is not None and now >= self._start_at:
            self._start(now)

    def steps_polled(self) -> None:
        """Start the process again if it has ended."""
        self.loop_polled()

    def _start(self, now: float) -> None:
        command = [sys.executable, "-m", "opendrs", *self._words, "--with-parent"]
        try:
            # A session of its own: Ctrl-C on the terminal stops the controller first.
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                command, stdin=subprocess.PIPE, start_new_session=True
            )
        except OSError as error:
            self._ended(error.strerror or str(error), now)
            return
        self._started_at, self._start_at = now, None

    def _ended(self, status: int | str, now: float) -> None:
        """Log the end of the process, and schedule the next start."""
        self._process = None
        is_first = now - self._started_at >= STABLE_TIME or self._delay == FIRST_DELAY
        delay = FIRST_DELAY if now - self._started_at >= STABLE_TIME else self._delay
        self._start_at = now + delay
        self._delay = min(LONGEST_DELAY, 2 * delay)
        log_event(
            LogEventCode.WEB_ENDED,
            f"web: opendrs serve ended: {status}; starting it again in {delay:g} s",
            level=logging.WARNING if is_first else logging.DEBUG,
            status=status,
        )
