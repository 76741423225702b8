"""Small sweeps, whose runs take some hundredths of a second."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from opendrs.sim.consolidation.sweep.form import FORMAT, sweep_from
from opendrs.sim.consolidation.sweep.grid import Grid
from opendrs.sim.consolidation.sweep.running import Entry, prepared
from opendrs.sim.consolidation.sweep.task import Done, Task, done

SMALL: dict[str, Any] = {
    "format": FORMAT,
    "workload": {"kind": "synthetic", "guests": 8},
    "hosts": [{"count": 6}],
}


def grid(**tables: Any) -> Grid:  # noqa: ANN401 - a document
    """Return the grid of a small sweep with these *tables*."""
    return sweep_from({**SMALL, **tables}, "x.toml", Path("folder"))


def entries(**tables: Any) -> list[Entry]:  # noqa: ANN401 - a document
    """Return the runs of a small sweep."""
    return prepared(grid(**tables), silent)


def silent(done: int, total: int) -> None:
    """Take no notice."""
    del done, total


class Worker:
    """Somebody who does runs, here and now.

    Attributes:
        did: The identities of what was done, in that order.
    """

    def __init__(self) -> None:
        self.did: list[str] = []

    def __call__(self, tasks: Sequence[Task]) -> Done:
        """Do *tasks*, one after the other."""
        for task in tasks:
            self.did.append(task.identity)
            yield task, done(task)
