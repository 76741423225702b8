"""Several processes do what one does, and their end is noticed."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from multiprocessing import active_children

import pytest

from opendrs.errors import InvalidFileError, PlatformError
from opendrs.sim.consolidation.sweep.local import cores, locally
from sweeps import entries

POLICIES = [{"name": ["none", "lr-mmt"]}]


def test_many_processes_give_what_one_gives() -> None:
    tasks = [each.task() for each in entries(seed=[1, 2], policies=POLICIES)]

    alone = {task.identity: metrics for task, metrics in locally(tasks, 1)}
    together = {task.identity: metrics for task, metrics in locally(tasks, 2)}

    assert together == alone
    assert len(alone) == 4
    assert active_children() == []


def test_a_process_that_dies_is_told() -> None:
    tasks = [each.task() for each in entries(seed=list(range(40)))]
    work = locally(tasks, 2)
    next(work)

    for child in active_children():
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)

    with pytest.raises(PlatformError, match="has died, perhaps for want of memory"):
        list(work)


def test_what_is_wrong_in_another_process_is_told_here() -> None:
    tasks = [each.task() for each in entries(seed=[1, 2])]
    wrong = [replace(task, digest="x") for task in tasks]

    with pytest.raises(InvalidFileError, match="is not what it was"):
        list(locally(wrong, 2))


def test_whoever_stops_listening_stops_the_processes() -> None:
    tasks = [each.task() for each in entries(seed=list(range(20)))]
    work = locally(tasks, 2)
    next(work)

    work.close()

    assert active_children() == []


def test_there_are_cores() -> None:
    assert 1 <= cores() <= (os.cpu_count() or 1)
