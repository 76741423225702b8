"""A decision within a time: the best so far when it is over, or when one is stopped."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from opendrs.errors import ConfigurationError
from opendrs.model import Snapshot
from opendrs.policies import Decision, Optimize, Policy

PORTIONS = 40  # in which the work is done, about
FIRST = 20_000  # moves that are looked at to learn how long that takes


def introduced(policy: Policy[Any]) -> str:
    """Return the name of *policy*, and why it may take long this once."""
    once = " (the first time its search is compiled, which takes half a minute)"
    return f"{policy.name}{once}" if isinstance(policy, Optimize) else policy.name


def decided_within(
    policy: Policy[Any], snapshot: Snapshot, seconds: float
) -> Decision[Any]:
    """Return the best that *policy* finds in so many seconds, or until Ctrl-C.

    Making a plan of what was found takes its own time after that.

    Raises:
        ConfigurationError: The policy does not become better with time.
    """
    if not isinstance(policy, Optimize):
        raise ConfigurationError(
            f"--time: {policy.name} takes as long as it takes; optimize can be given "
            "a time"
        )
    begun = monotonic()
    with _shown(introduced(policy)) as bar:
        work = policy.work(snapshot)
        if isinstance(work, Decision):
            return work
        iterations, gone = FIRST, 0.0
        try:
            while gone < 1:
                before = monotonic()
                share = (before - begun) / seconds + 1 / PORTIONS
                work.improve(iterations, min(1.0, max(share, gone + 1e-6)))
                took = max(monotonic() - before, 1e-4)
                iterations = max(FIRST, int(iterations * seconds / PORTIONS / took))
                gone = (monotonic() - begun) / seconds
                bar(gone)
        except KeyboardInterrupt:
            pass  # who stops it wants what there is
    return work.decision()


@contextmanager
def _shown(whom: str) -> Iterator[Callable[[float], None]]:
    """Give what shows on a terminal how much of the time is gone."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(f"asking {whom}", total=1.0)
        yield lambda gone: progress.update(task, completed=min(gone, 1.0))
