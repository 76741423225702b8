"""Tasks of a sweep, and their execution in local processes."""

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
"""Results of tasks as they are done. Closing the generator stops the others."""

CACHED_LOADS = 2  # loads a process keeps; runs of one load are adjacent


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepTask:
    """Run to be executed.

    Attributes:
        identity: Unique identity of the run.
        environment: Inputs of the run except the policy.
        policy_run: The policy.
        digest: Digest of its load.
        version: Required version of opendrs.
    """

    identity: str
    environment: SimulationEnvironment
    policy_run: PolicyRun
    digest: str
    version: str = __version__


def run_task(task: SweepTask) -> MetricValues:
    """Return the metrics of *task*; its load is read or generated here.

    Raises:
        InvalidFileError: The load has changed since the sweep started.
    """
    return simulate_policy(task.environment, task.policy_run, task_load(task))


def task_load(task: SweepTask) -> SimulationLoad:
    """Return the load of *task*, read or generated here.

    Raises:
        InvalidFileError: The load has changed since the sweep started.
    """
    return _cached_load(task.environment.source, task.environment.model, task.digest)


@lru_cache(maxsize=CACHED_LOADS)
def _cached_load(
    source: WorkloadSource, model: SimulationModel, digest: str
) -> SimulationLoad:
    load = read_load(source, model)
    if load_digest(load) != digest:
        raise InvalidFileError(
            f"{source_name(source)}: changed since the sweep started; start it again"
        )
    return load


def run_task_with_load(task: SweepTask, load: SimulationLoad) -> MetricValues:
    """Return the metrics of *task* with a given *load*.

    Raises:
        UnsupportedError: The task requires another version of opendrs.
    """
    if task.version != __version__:
        raise UnsupportedError(
            f"worker has opendrs {__version__}, expected {task.version}; install it"
        )
    return simulate_policy(task.environment, task.policy_run, load)


def run_locally(tasks: Sequence[SweepTask], jobs: int) -> TaskResults:
    """Yield the result of each task when it is done.

    Args:
        tasks: Tasks to run.
        jobs: Number of processes; with 1, tasks run in this process.

    Raises:
        ConfigurationError: A task is invalid.
        PlatformError: A process died.
    """
    if min(jobs, len(tasks)) <= 1:
        for task in tasks:
            yield task, run_task(task)
        return
    yield from _run_in_processes(tasks, jobs)


def _run_in_processes(tasks: Sequence[SweepTask], jobs: int) -> TaskResults:
    context = get_context("spawn")  # a fork would copy the state of running threads
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
            "a process died during a run, possibly out of memory; try fewer --jobs"
        ) from error
    finally:
        for process in set(active_children()) - existing:
            process.kill()  # processes that still run a task or are starting
        parent_end.close()
        pool.shutdown(cancel_futures=True)
        child_end.close()


@contextmanager
def _ignore_interrupts_in_children() -> Iterator[None]:
    """Start processes that ignore Ctrl-C; this process handles it.

    An interrupt is delivered after they have started, because a process interrupted
    during its start prints an error. Blocking the signal alone is not enough: it is
    also delivered to threads of libraries, and Python handles it in the main thread.
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
    """Exit this process when its parent closes the pipe or dies."""
    threading.Thread(target=_wait_for_parent, args=(child_end,), daemon=True).start()


def _wait_for_parent(child_end: Connection) -> None:
    child_end.poll(None)
    os._exit(1)


def available_cores() -> int:
    """Return the number of cores available to this process."""
    return len(os.sched_getaffinity(0))
