"""opendrs in processes of their own that start at once and can be killed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path

LOG = "log"
PROCESSES = get_context("forkserver")  # opendrs is imported once, in the fork server
PROCESSES.set_forkserver_preload(["opendrs.cli.main", "opendrs.policies"])


def opendrs_process(directory: Path, words: Sequence[str]) -> BaseProcess:
    """Return a process, not started yet, that runs opendrs in *directory*.

    Its output is added to the file `log` there.

    Args:
        directory: Its current directory.
        words: The arguments of opendrs.
    """
    return PROCESSES.Process(target=_opendrs, args=(directory, tuple(words)))


def _opendrs(directory: Path, words: Sequence[str]) -> None:
    from opendrs.cli.main import run  # noqa: PLC0415 - imported by the fork server

    os.chdir(directory)
    with Path(LOG).open("a") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    raise SystemExit(run(words))
