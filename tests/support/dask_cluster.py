"""Dask cluster of a scheduler and workers, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

STARTUP_TIMEOUT = 120.0  # s, on a machine that is busy with other tests
WORKER_OPTIONS = ("--no-dashboard",)
LOCALHOST = "127.0.0.1"


@dataclass(frozen=True)
class DaskCluster:
    """A cluster that runs.

    Attributes:
        address: Of its scheduler.
        scheduler: Its process.
        folder: Where everything is written.
    """

    address: str
    scheduler: subprocess.Popen[bytes]
    folder: Path

    @contextmanager
    def worker(
        self, environment: Mapping[str, str] | None = None
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Begin a worker with one thread, and wait for it; it ends at the end."""
        options = (
            "--nthreads",
            "1",
            "--no-nanny",
            "--host",
            LOCALHOST,
            *WORKER_OPTIONS,
        )
        log = self.folder / "worker.log"
        before = _registrations(log)
        with _running_process(
            ("worker", self.address, *options), self.folder, environment
        ) as process:
            end = time.monotonic() + STARTUP_TIMEOUT
            while _registrations(log) == before:
                assert time.monotonic() < end
                threading.Event().wait(0.05)
            yield process

    def worker_address(self) -> str:
        """Return where a worker listens, once one does."""
        log = self.folder / "worker.log"
        return _wait_for(
            lambda: log.read_text().partition("Listening to:")[2].split()[0]
        )


@contextmanager
def dask_cluster(folder: Path, workers: int) -> Iterator[DaskCluster]:
    """Begin a scheduler and so many workers; all end at the end."""
    file = folder / "scheduler.json"
    options = (
        "--host",
        LOCALHOST,
        "--port",
        "0",
        "--scheduler-file",
        str(file),
        *WORKER_OPTIONS,
    )
    with ExitStack() as stack:
        process = stack.enter_context(
            _running_process(("scheduler", *options), folder, None)
        )
        address = _wait_for(lambda: str(json.loads(file.read_text())["address"]))
        running = DaskCluster(address, process, folder)
        for _ in range(workers):
            stack.enter_context(running.worker())
        yield running


def _registrations(log: Path) -> int:
    """Return how often a worker was registered at the scheduler."""
    text = log.read_text(errors="replace") if log.exists() else ""
    return text.count("Registered to:")


@contextmanager
def _running_process(
    words: Sequence[str], folder: Path, environment: Mapping[str, str] | None
) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / f"{words[0]}.log").open("ab") as log:
        process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-m", "dask", *words],
            cwd=folder,
            stdout=log,
            stderr=log,
            env={**os.environ, **(environment or {})},
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _wait_for(read: Callable[[], str]) -> str:
    """Return what is found, once it is."""
    end = time.monotonic() + STARTUP_TIMEOUT
    while True:
        try:
            return read()
        except (FileNotFoundError, IndexError, ValueError):  # not yet, or half
            assert time.monotonic() < end
            threading.Event().wait(0.05)
