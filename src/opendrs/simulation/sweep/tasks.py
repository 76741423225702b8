"""Tasks of a sweep, and their execution in processes of this machine."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import active_children, get_context
from multiprocessing.connection import Connection

from opendrs import __version__
from opendrs.errors import InvalidFileError, PlatformError, UnsupportedError
from opendrs.simulation.scenario.definition import (
    PolicyRun,
    SimulationEnvironment,
    SimulationModel,
    WorkloadSource,
    source_name,
)
from opendrs.simulation.scenario.run import (
    MetricValues,
    SimulationLoad,
    load_digest,
    read_load,
    simulate_policy,
)

TaskResults = Generator[tuple["SweepTask", MetricValues], None, None]


"""What comes of tasks, as they are done; to be closed, which stops the others."""


CACHED_LOADS = 2  # loads a process keeps; runs of one load come one after the other


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepTask:
    """A run that is to be done.

    Attributes:
        identity: What tells it from any other.
        environment: All that it needs but the policy.
        policy_run: The policy.
        digest: That of its load.
        version: Which opendrs is to do it.
    """

    identity: str
    environment: SimulationEnvironment
    policy_run: PolicyRun
    digest: str
    version: str = __version__


def run_task(task: SweepTask) -> MetricValues:
    """Return what comes of *task*, whose load is read or drawn here.

    Raises:
        InvalidFileError: The load is not what it was when the sweep began.
    """
    return simulate_policy(task.environment, task.policy_run, task_load(task))


def task_load(task: SweepTask) -> SimulationLoad:
    """Return the load of *task*, read or drawn here.

    Raises:
        InvalidFileError: It is not what it was when the sweep began.
    """
    return _cached_load(task.environment.source, task.environment.model, task.digest)


@lru_cache(maxsize=CACHED_LOADS)
def _cached_load(
    source: WorkloadSource, model: SimulationModel, digest: str
) -> SimulationLoad:
    load = read_load(source, model)
    if load_digest(load) != digest:
        raise InvalidFileError(
            f"{source_name(source)} is not what it was when the sweep began"
        )
    return load


def run_task_with_load(task: SweepTask, load: SimulationLoad) -> MetricValues:
    """Return what comes of *task* with a *load* that is at hand.

    Raises:
        UnsupportedError: Another version of opendrs is to do it.
    """
    if task.version != __version__:
        raise UnsupportedError(
            f"a worker has opendrs {__version__}, not {task.version}: install the same"
        )
    return simulate_policy(task.environment, task.policy_run, load)


def run_locally(tasks: Sequence[SweepTask], jobs: int) -> TaskResults:
    """Yield what comes of each task, as it is done.

    Args:
        tasks: What is to be done.
        jobs: How many processes do it; with one, this one.

    Raises:
        ConfigurationError: A run cannot be.
        PlatformError: A process died.
    """
    if min(jobs, len(tasks)) <= 1:
        for task in tasks:
            yield task, run_task(task)
        return
    yield from _run_in_processes(tasks, jobs)


def _run_in_processes(tasks: Sequence[SweepTask], jobs: int) -> TaskResults:
    context = get_context("spawn")  # a fork would copy threads halfway
    child_end, parent_end = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(
        min(jobs, len(tasks)), context, _exit_with_parent, (child_end,)
    )
    existing = set(active_children())
    try:
        with _ignore_interrupts_in_children():
            futures = {pool.submit(run_task, task): task for task in tasks}
        for future in as_completed(futures):
            yield futures[future], future.result()
    except BrokenProcessPool as error:
        raise PlatformError(
            "a process that did runs has died, perhaps for want of memory: try "
            "fewer --jobs"
        ) from error
    finally:
        for process in set(active_children()) - existing:
            process.kill()  # whoever still runs something, or has not yet begun
        parent_end.close()
        pool.shutdown(cancel_futures=True)
        child_end.close()


@contextmanager
def _ignore_interrupts_in_children() -> Iterator[None]:
    """Begin processes that never hear of Ctrl-C: that is for this one to hear.

    Once they have begun, for one that is left halfway would complain. It is not
    enough to block the signal: threads of libraries hear it as well, and what they
    hear is told to the main one.
    """
    received: list[int] = []
    previous_handler = signal.signal(
        signal.SIGINT, lambda number, _: received.append(number)
    )
    previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous_mask)
        signal.signal(signal.SIGINT, previous_handler)
    if received:
        signal.raise_signal(signal.SIGINT)


def _exit_with_parent(child_end: Connection) -> None:
    """Make this process end when the one that started it lets go, or dies."""
    threading.Thread(target=_wait_for_parent, args=(child_end,), daemon=True).start()


def _wait_for_parent(child_end: Connection) -> None:
    child_end.poll(None)
    os._exit(1)


def available_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0))
