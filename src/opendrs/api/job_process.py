"""Process that computes the answers of jobs, started when it is needed."""

from __future__ import annotations

import contextlib
import os
import signal
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from opendrs.errors import ConfigurationError, ModelError, OpenDRSError

ReportProgress = Callable[[str], None]
JobFunction = Callable[[str, Mapping[str, Any], ReportProgress], Any]
_NICE = 10  # lower priority than the controller on the same machine
_PROGRESS_INTERVAL = 0.5  # seconds between two reports of progress, at least


@dataclass(frozen=True, slots=True)
class JobProgress:
    """Progress of a job that has not ended.

    Attributes:
        text: What is done, such as "balance: 120 of 2,880 snapshots".
    """

    text: str


@dataclass(frozen=True, slots=True)
class JobAnswer:
    """Result of a job.

    Attributes:
        document: The answer as plain values; None without one.
        error: Why there is no answer; empty if there is one.
        is_rejected: True if the question is the cause.
    """

    document: Any = None
    error: str = ""
    is_rejected: bool = False


class JobProcess:
    """Process that answers one question at a time.

    Args:
        function: Answers a question. It must be picklable.
    """

    def __init__(self, function: JobFunction) -> None:
        self._function = function
        self._context = get_context("spawn")  # the serving process has threads
        self._process: Any = None
        self._connection: Connection | None = None

    def send(self, kind: str, arguments: Mapping[str, Any]) -> None:
        """Send a question; the process is started if it does not run."""
        if self._process is None or not self._process.is_alive():
            self.kill()
            self._start()
        assert self._connection is not None  # noqa: S101 - just started
        with contextlib.suppress(OSError):  # reported by `receive`
            self._connection.send((kind, dict(arguments)))

    def receive(self, seconds: float) -> JobAnswer | JobProgress | None:
        """Return the result or the progress; None without both within *seconds*."""
        assert self._connection is not None  # noqa: S101 - a question was sent
        try:
            if not self._connection.poll(seconds):
                return None
            result: JobAnswer | JobProgress = self._connection.recv()
        except (EOFError, OSError):
            self.kill()
            return JobAnswer(error="the process of the job ended, maybe out of memory")
        return result

    def kill(self) -> None:
        """End the process, whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process.close()
        if self._connection is not None:
            self._connection.close()
        self._process, self._connection = None, None

    def _start(self) -> None:
        self._connection, other = self._context.Pipe()
        self._process = self._context.Process(
            target=_answer_questions, args=(other, self._function), daemon=True
        )
        self._process.start()
        other.close()


def _answer_questions(connection: Connection, function: JobFunction) -> None:
    """Answer the questions of *connection* until its other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICE)
    with contextlib.suppress(EOFError, OSError):
        while True:
            kind, arguments = connection.recv()
            report = _progress_report(connection)
            connection.send(_result(function, kind, arguments, report))


def _progress_report(connection: Connection) -> ReportProgress:
    """Return a function that sends the progress of a job, but not too often."""
    last = time.monotonic()

    def report(text: str) -> None:
        nonlocal last
        if time.monotonic() - last >= _PROGRESS_INTERVAL:
            try:
                connection.send(JobProgress(text))
            except OSError as error:  # the server has ended
                raise SystemExit from error
            last = time.monotonic()

    return report


def _result(
    function: JobFunction,
    kind: str,
    arguments: Mapping[str, Any],
    report: ReportProgress,
) -> JobAnswer:
    try:
        return JobAnswer(document=function(kind, arguments, report))
    except (ConfigurationError, ModelError) as error:
        return JobAnswer(error=str(error), is_rejected=True)
    except OpenDRSError as error:
        return JobAnswer(error=str(error))
    except Exception as error:  # noqa: BLE001 - a defect must not end the process
        traceback.print_exc()
        return JobAnswer(error=f"internal error: {type(error).__name__}")
