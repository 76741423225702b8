"""Runs on the cores of this machine."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from multiprocessing.connection import Connection

from opendrs.errors import PlatformError
from opendrs.sim.consolidation.sweep.task import Done, Task, done


def locally(tasks: Sequence[Task], jobs: int) -> Done:
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
            yield task, done(task)
        return
    yield from _by_many(tasks, jobs)


def _by_many(tasks: Sequence[Task], jobs: int) -> Done:
    context = get_context("spawn")  # a fork would copy threads halfway
    held, leash = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(min(jobs, len(tasks)), context, _tie, (held,))
    others = set(active_children())
    try:
        with _born_deaf():
            futures = {pool.submit(done, task): task for task in tasks}
        for future in as_completed(futures):
            yield futures[future], future.result()
    except BrokenProcessPool as error:
        raise PlatformError(
            "a process that did runs has died, perhaps for want of memory: try "
            "fewer --jobs"
        ) from error
    finally:
        for process in set(active_children()) - others:
            process.kill()  # whoever still runs something, or has not yet begun
        leash.close()
        pool.shutdown(cancel_futures=True)
        held.close()


@contextmanager
def _born_deaf() -> Iterator[None]:
    """Begin processes that never hear of Ctrl-C: that is for this one to hear.

    Once they have begun, for one that is left halfway would complain. It is not
    enough to block the signal: threads of libraries hear it as well, and what they
    hear is told to the main one.
    """
    heard: list[int] = []
    usual = signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        signal.signal(signal.SIGINT, usual)
    if heard:
        signal.raise_signal(signal.SIGINT)


def _tie(held: Connection) -> None:
    """Make this process end when the one that started it lets go, or dies."""
    threading.Thread(target=_end_with, args=(held,), daemon=True).start()


def _end_with(held: Connection) -> None:
    held.poll(None)
    os._exit(1)


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0))
