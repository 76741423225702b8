"""Runs on a Dask cluster; the scheduler and its workers are somebody else's."""

from __future__ import annotations

import queue
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from opendrs import __version__
from opendrs.errors import (
    OpenDRSError,
    PlatformError,
    PlatformUnavailableError,
    UnsupportedError,
)
from opendrs.sim.consolidation.scenario.running import Load, Metrics, load_of
from opendrs.sim.consolidation.scenario.scenario import Recorded
from opendrs.sim.consolidation.sweep.task import Done, Task, done_with, own_load

if TYPE_CHECKING:  # takes half a second, and is needed only with a cluster
    from distributed import Client, Future

LOOK = 1.0  # s between two looks at whether there are workers


def on_cluster(
    client: Client, tasks: Sequence[Task], say: Callable[[str], None]
) -> Done:
    """Yield what comes of each task, as it is done; wait for a worker to begin with.

    Traces go to the workers from here; what is drawn is drawn there.

    Args:
        client: The connection.
        tasks: What is to be done.
        say: Told what holds everything up.

    Raises:
        ConfigurationError: A run cannot be.
        PlatformError: The scheduler went away, workers died over a run, or have
            another opendrs.
    """
    _wait_for_workers(client, say)
    _require_same(client)
    ended: queue.SimpleQueue[Future] = queue.SimpleQueue()
    tasks_of = dict(_submitted(client, tasks))
    try:
        for future in tasks_of:
            future.add_done_callback(ended.put)
        for _ in tasks:
            future = _next(client, ended, say)
            yield tasks_of[future], _result(future)
    finally:
        if client.status == "running":
            with suppress(OSError):
                client.cancel(list(tasks_of), asynchronous=False)


def _submitted(client: Client, tasks: Sequence[Task]) -> Iterator[tuple[Future, Task]]:
    name = uuid.uuid4().hex[:8]  # two sweeps on one cluster do not mix
    loads: dict[str, Future] = {}
    for task in tasks:
        if task.digest not in loads:
            loads[task.digest] = _handed(client, task, f"load-{name}-{task.digest}")
        future = client.submit(
            done_with,
            task,
            loads[task.digest],
            key=f"run-{name}-{task.identity}",
            pure=False,
        )
        yield future, task


def _handed(client: Client, task: Task, key: str) -> Future:
    """Return the load of *task*, as a task of its own that can be done again."""
    source = task.stage.source
    if isinstance(source, Recorded):
        load = load_of(source, task.stage.model)
        return client.submit(_itself, load, key=key, pure=False)
    return client.submit(own_load, task, key=key, pure=False)


def _itself(load: Load) -> Load:
    return load


def _next(
    client: Client, ended: queue.SimpleQueue[Future], say: Callable[[str], None]
) -> Future:
    while True:
        try:
            return ended.get(timeout=LOOK)
        except queue.Empty:
            _wait_for_workers(client, say)


def _wait_for_workers(client: Client, say: Callable[[str], None]) -> None:
    told = False
    while client.status == "running":
        with _connected():
            try:
                client.wait_for_workers(1, timeout=LOOK)
            except TimeoutError:
                if not told:
                    say("the cluster has no worker; waiting for one")
                told = True
            else:
                return
    raise _lost()


def _require_same(client: Client) -> None:
    """Check that all have the opendrs that is here; who has none would die of a run."""
    words = (resolve_name, "opendrs:__version__")  # told also by who has none
    with _connected():
        found = client.run(*words, on_error="return")
        try:
            found["the scheduler"] = client.run_on_scheduler(*words)
        except ImportError as error:
            found["the scheduler"] = error
    for place, version in found.items():
        if version != __version__:
            missing = isinstance(version, ImportError)
            raise UnsupportedError(
                f"{place} has {'no opendrs' if missing else f'opendrs {version}'}: "
                f"the scheduler and all workers need {__version__}, as it is here"
            )


def _result(future: Future) -> Metrics:
    with _connected():
        if future.status == "finished":
            metrics: Metrics = future.result()
            return metrics
        if future.status != "error":
            raise _lost()
        error = future.exception()
    if isinstance(error, OpenDRSError):
        raise error
    raise PlatformError(f"a run failed on the cluster: {error}") from error


@contextmanager
def _connected() -> Iterator[None]:
    """Tell the end of a connection, which Dask does in several ways."""
    try:
        yield
    except (OSError, CancelledError) as error:
        raise _lost() from error


def _lost() -> PlatformUnavailableError:
    return PlatformUnavailableError("the connection to the Dask scheduler was lost")
