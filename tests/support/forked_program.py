"""Programs in processes of their own that start at once and can be killed.

A new Python process imports opendrs first, which takes longer than most of what tests
do with it. These are forked from one process that has imported it. They are used like
those of `subprocess`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from multiprocessing import connection, get_context
from multiprocessing.reduction import DupFd
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import IO, Any, Self

from opendrs.cli.main import run
from opendrs.controller import SystemClock

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as `opendrs` sets it
PROCESSES = get_context("forkserver")
PROCESSES.set_forkserver_preload(
    [
        "keystoneauth1.loading._plugins.admin_token",
        "keystoneauth1.token_endpoint",
        "opendrs.cli.apply",
        "opendrs.cli.drain",
        "opendrs.cli.run",
        "opendrs.platforms.incus",
        "opendrs.platforms.openstack",
        "opendrs.platforms.prometheus",
        "opendrs.platforms.proxmox",
        "opendrs.policies",
        "opendrs.store",
        "openstack.compute.v2._proxy",
        "openstack.connection",
        "openstack.placement.v1._proxy",
        "support.external_cluster",
    ]
)
# Of all exit statuses: multiprocessing reads each of them once, also those of other
# processes whenever one is started, and reports 255 to a thread that comes too late.
_STATUS_LOCK = Lock()
POLL = 0.1  # most seconds between two polls of tasks, instead of one
Program = Callable[[Sequence[str]], int]  # called with the arguments; the exit status


def opendrs_program(words: Sequence[str]) -> int:
    """Run opendrs with the arguments *words* and return the exit status."""
    return run(words)


def polling_opendrs(words: Sequence[str]) -> int:
    """Run opendrs, which polls tasks more often, and return the exit status."""
    sleep = SystemClock.sleep
    SystemClock.sleep = lambda self, seconds: sleep(self, min(seconds, POLL))  # type: ignore[method-assign]
    return run(words)


class ForkedProgram:
    """A running program; its standard input is empty.

    Args:
        program: What is run, a function of a module.
        words: Its arguments.
        cwd: Its current directory.
        stdout: The file for its output and its errors.
        stderr: The file for its errors, if it is another one.
        env: Its environment; None for that of the test.
    """

    def __init__(  # noqa: PLR0913 - as of `subprocess.Popen`
        self,
        program: Program,
        words: Sequence[str],
        *,
        cwd: Path | None = None,
        stdout: IO[Any] | None = None,
        stderr: IO[Any] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        with Path(os.devnull).open("r+b") as nothing:
            output = nothing if stdout is None else stdout
            errors = output if stderr is None else stderr
            self._process = PROCESSES.Process(
                target=_run,
                args=(
                    program,
                    tuple(words),
                    Path.cwd() if cwd is None else cwd,
                    dict(os.environ if env is None else env),
                    _Streams(nothing, output, errors),
                ),
                daemon=True,
            )
            with _STATUS_LOCK:
                self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit status, or the negative number of the signal; None while it runs."""
        with _STATUS_LOCK:
            return self._process.exitcode

    def poll(self) -> int | None:
        """Return the same as `returncode`."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it ends and return its exit status.

        Raises:
            subprocess.TimeoutExpired: It runs longer than *timeout* seconds.
        """
        connection.wait([self._process.sentinel], timeout)
        status = self.returncode
        if status is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout or 0.0)
        return status

    def send_signal(self, number: int) -> None:
        """Send it a signal if it runs."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL if it runs."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Send SIGTERM if it runs."""
        self.send_signal(signal.SIGTERM)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.wait()


def run_forked(
    program: Program,
    words: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end and return its output, as `subprocess.run` does."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        started = ForkedProgram(
            program, words, cwd=cwd, stdout=output, stderr=errors, env=env
        )
        try:
            status = started.wait(timeout)
        except subprocess.TimeoutExpired:
            started.kill()
            raise
        texts = [_text(file) for file in (output, errors)]
    return subprocess.CompletedProcess(list(words), status, *texts)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


class _Streams:
    """Open files on their way to a process that is about to start."""

    def __init__(self, *files: IO[Any]) -> None:
        self._files = files

    def __getstate__(self) -> list[Any]:
        return [DupFd(file.fileno()) for file in self._files]

    def __setstate__(self, descriptors: list[Any]) -> None:
        self._descriptors = [each.detach() for each in descriptors]

    def connect(self) -> None:
        """Make them the standard streams of this process."""
        for number, descriptor in enumerate(self._descriptors):
            os.dup2(descriptor, number)
            os.close(descriptor)
        # multiprocessing has closed the input; programs expect one.
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115


def _run(
    program: Program,
    words: Sequence[str],
    directory: Path,
    environment: Mapping[str, str],
    streams: _Streams,
) -> None:
    streams.connect()
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    status = program(words)
    sys.stdout.flush()
    raise SystemExit(status)
