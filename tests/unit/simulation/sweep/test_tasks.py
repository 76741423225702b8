"""Several processes give the results of one, and their failures are reported."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from multiprocessing import active_children

import pytest

from opendrs.errors import InvalidFileError, PlatformError
from opendrs.simulation.sweep.tasks import available_cores, run_locally
from support.sweeps import prepared_trials

POLICIES = [{"name": ["none", "lr-mmt"]}]


def test_processes_give_same_results_as_one() -> None:
    before = set(active_children())
    tasks = [each.task() for each in prepared_trials(seed=[1, 2], policies=POLICIES)]

    alone = {task.identity: metrics for task, metrics in run_locally(tasks, 1)}
    together = {task.identity: metrics for task, metrics in run_locally(tasks, 2)}

    assert together == alone
    assert len(alone) == 4
    assert set(active_children()) == before


def test_killed_process_is_reported() -> None:
    before = set(active_children())
    tasks = [each.task() for each in prepared_trials(seed=list(range(40)))]
    work = run_locally(tasks, 2)
    next(work)

    for child in set(active_children()) - before:
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)

    with pytest.raises(PlatformError, match="a process died during a run"):
        list(work)


def test_error_in_process_is_raised() -> None:
    tasks = [each.task() for each in prepared_trials(seed=[1, 2])]
    wrong = [replace(task, digest="x") for task in tasks]

    with pytest.raises(InvalidFileError, match="changed since the sweep started"):
        list(run_locally(wrong, 2))


def test_closing_results_stops_processes() -> None:
    before = set(active_children())
    tasks = [each.task() for each in prepared_trials(seed=list(range(20)))]
    work = run_locally(tasks, 2)
    next(work)

    work.close()

    assert set(active_children()) == before


def test_available_cores_is_positive() -> None:
    assert 1 <= available_cores() <= (os.cpu_count() or 1)
