"""Small sweeps whose runs take some hundredths of a second."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from opendrs.simulation.sweep.grid import SweepGrid
from opendrs.simulation.sweep.parsing import SWEEP_FORMAT, parse_sweep
from opendrs.simulation.sweep.run import PreparedTrial, prepare_trials
from opendrs.simulation.sweep.tasks import SweepTask, TaskResults, run_task

SMALL_SWEEP: dict[str, Any] = {
    "format": SWEEP_FORMAT,
    "workload": {"kind": "synthetic", "guests": 8},
    "hosts": [{"count": 6}],
}


def sweep_grid(**tables: Any) -> SweepGrid:  # noqa: ANN401 - a document
    """Return the grid of a small sweep with these *tables*."""
    return parse_sweep({**SMALL_SWEEP, **tables}, "x.toml", Path("folder"))


def prepared_trials(**tables: Any) -> list[PreparedTrial]:  # noqa: ANN401 - a document
    """Return the runs of a small sweep."""
    return prepare_trials(sweep_grid(**tables), ignore_progress)


def ignore_progress(done: int, total: int) -> None:
    """Ignore the progress."""
    del done, total


class RecordingWorker:
    """Executor that runs tasks in this process.

    Attributes:
        completed: Identities of the executed tasks, in order.
    """

    def __init__(self) -> None:
        self.completed: list[str] = []

    def __call__(self, tasks: Sequence[SweepTask]) -> TaskResults:
        """Run *tasks* one after the other."""
        for task in tasks:
            self.completed.append(task.identity)
            yield task, run_task(task)
