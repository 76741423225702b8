"""Runs on a Dask cluster; the scheduler and its workers are somebody else's."""

from __future__ import annotations

import logging
import queue
import socket
import ssl
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from opendrs.errors import (
    ConfigurationError,
    OpenDRSError,
    PlatformError,
    PlatformUnavailableError,
)
from opendrs.sim.consolidation.scenario.running import Load, Metrics, load_of
from opendrs.sim.consolidation.scenario.scenario import Recorded
from opendrs.sim.consolidation.sweep.task import Task, done_with, own_load

if TYPE_CHECKING:  # takes half a second, and is needed only with a cluster
    from distributed import Client, Future

PATIENCE = 5.0  # s in which a scheduler must answer
LENGTH = 8  # bytes of the number that begins each message of Dask
MOST_FRAMES = 1000  # in a greeting; others' first words are far larger numbers
LOOK = 1.0  # s between two looks at whether there are workers


@contextmanager
def cluster(address: str) -> Iterator[Client]:
    """Connect to the scheduler at *address*, such as `tcp://10.0.0.1:8786`.

    Raises:
        ConfigurationError: dask.distributed is missing, or that is no address.
        PlatformUnavailableError: Nobody answers there, or somebody else.
    """
    try:
        import dask  # noqa: PLC0415 - see above
        from distributed import Client  # noqa: PLC0415
    except ImportError as error:
        raise ConfigurationError(
            "--scheduler needs dask: pip install 'opendrs[dask]'"
        ) from error
    # What goes wrong is told by us, in a line.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    require_scheduler(address)
    quiet = {"distributed.admin.large-graph-warning-threshold": "1TiB"}
    with dask.config.set(quiet):
        try:
            client = Client(
                address, timeout=PATIENCE, set_as_default=False, name="opendrs-sweep"
            )
        except (OSError, TimeoutError, TypeError, ValueError) as error:
            raise _nobody(address) from error
        try:
            yield client
        finally:
            client.close(timeout=PATIENCE)


def require_scheduler(address: str) -> None:
    """Check that a Dask server answers at *address*.

    The client of Dask waits without end for whoever accepts a connection and speaks
    another language, and its remains keep a process from ending; so we look first.

    Raises:
        ConfigurationError: That is no address.
        PlatformUnavailableError: Nobody answers there, or somebody else.
    """
    from distributed.comm import addressing, registry  # noqa: PLC0415 - see above
    from distributed.security import Security  # noqa: PLC0415

    try:
        scheme, place = addressing.parse_address(address)
        registry.get_backend(scheme)
        host, port = addressing.parse_host_port(place)
    except ValueError as error:
        raise ConfigurationError(
            "--scheduler: expected an address such as tcp://10.0.0.1:8786, found "
            f"{address!r}: {error}"
        ) from error
    context = None
    if scheme == "tls":
        context = Security().get_connection_args("client").get("ssl_context")
        if context is None:
            raise ConfigurationError(
                f"--scheduler: {address} needs the certificates that the configuration "
                "of Dask names under distributed.comm.tls"
            )
    if scheme in ("tcp", "tls"):
        _require_greeting(address, host, port, context)


def _require_greeting(
    address: str, host: str, port: int, context: ssl.SSLContext | None
) -> None:
    """Check that a server greets as those of Dask do, with a number of frames."""
    try:
        with (
            socket.create_connection((host, port), PATIENCE) as plain,
            context.wrap_socket(plain) if context else nullcontext(plain) as link,
        ):
            greeting = link.recv(LENGTH)
    except (OSError, OverflowError, UnicodeError) as error:
        raise _nobody(address) from error
    frames = int.from_bytes(greeting, "little")
    if len(greeting) < LENGTH or frames > MOST_FRAMES:
        raise _nobody(address)


def _nobody(address: str) -> PlatformUnavailableError:
    return PlatformUnavailableError(f"no Dask scheduler answers at {address}")


def on_cluster(
    client: Client, tasks: Sequence[Task], say: Callable[[str], None]
) -> Iterator[tuple[Task, Metrics]]:
    """Yield what comes of each task, as it is done.

    Traces go to the workers from here; what is drawn is drawn there.

    Args:
        client: The connection.
        tasks: What is to be done.
        say: Told what holds everything up.

    Raises:
        ConfigurationError: A run cannot be.
        PlatformError: The scheduler went away, or workers died over a run.
    """
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
    told = False
    while True:
        try:
            return ended.get(timeout=LOOK)
        except queue.Empty:
            if client.status != "running":
                raise _lost() from None
            if not told and not client.nthreads():
                say("the cluster has no worker; waiting for one")
                told = True


def _lost() -> PlatformUnavailableError:
    return PlatformUnavailableError("the connection to the Dask scheduler was lost")


def _result(future: Future) -> Metrics:
    if future.status == "finished":
        metrics: Metrics = future.result()
        return metrics
    if future.status != "error":
        raise _lost()
    error = future.exception()
    if isinstance(error, OpenDRSError):
        raise error
    raise PlatformError(f"a run failed on the cluster: {error}") from error
