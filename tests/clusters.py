"""A real Dask cluster: a scheduler and workers, each a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

PATIENCE = 120.0  # s, on a machine that is busy with other tests
QUIET = ("--no-dashboard",)
LOCAL = "127.0.0.1"


@dataclass(frozen=True)
class Cluster:
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
        """Begin a worker with one thread; it ends at the end."""
        options = ("--nthreads", "1", "--no-nanny", "--host", LOCAL, *QUIET)
        with _begun(
            ("worker", self.address, *options), self.folder, environment
        ) as process:
            yield process


@contextmanager
def cluster(folder: Path, workers: int) -> Iterator[Cluster]:
    """Begin a scheduler and so many workers; all end at the end."""
    file = folder / "scheduler.json"
    options = ("--host", LOCAL, "--port", "0", "--scheduler-file", str(file), *QUIET)
    with ExitStack() as stack:
        process = stack.enter_context(_begun(("scheduler", *options), folder, None))
        found = Cluster(_address(file, process), process, folder)
        for _ in range(workers):
            stack.enter_context(found.worker())
        yield found


@contextmanager
def _begun(
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


def _address(file: Path, scheduler: subprocess.Popen[bytes]) -> str:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and scheduler.poll() is None:
        try:
            return str(json.loads(file.read_text())["address"])
        except (FileNotFoundError, ValueError):  # not yet, or half
            threading.Event().wait(0.05)
    raise AssertionError((file.parent / "scheduler.log").read_text())
