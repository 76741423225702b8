"""The command line of OpenDRS in a process that can be killed.

The processes are forked from one that has imported everything, so that they start in
some milliseconds.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from multiprocessing.process import BaseProcess
from pathlib import Path
from unittest.mock import patch

from opendrs.cli import main
from opendrs.controller import SystemClock

_PRELOADED = (
    "keystoneauth1.loading._plugins.admin_token",
    "keystoneauth1.token_endpoint",
    "opendrs.cli.apply",
    "opendrs.cli.run",
    "opendrs.planning",
    "opendrs.platforms.openstack",
    "opendrs.platforms.prometheus",
    "opendrs.policies.balance",
    "opendrs.store",
    "openstack.compute.v2._proxy",
    "openstack.connection",
    "openstack.placement.v1._proxy",
)
_MAX_SLEEP = 0.1  # seconds between two polls of tasks, instead of one second


def start_command(words: Sequence[str], log: Path) -> BaseProcess:
    """Start `opendrs WORDS` in the directory of *log*, which receives its output."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, *_PRELOADED])
    process = context.Process(target=_run, args=(words, log), daemon=True)
    process.start()
    return process


def _run(words: Sequence[str], log: Path) -> None:
    for name in _PRELOADED:
        import_module(name)
    sleep = SystemClock.sleep
    os.chdir(log.parent)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(file, stream.fileno())
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    with patch.object(
        SystemClock,
        "sleep",
        lambda clock, seconds: sleep(clock, min(seconds, _MAX_SLEEP)),
    ):
        status = main.run(list(words))
    sys.exit(status)
