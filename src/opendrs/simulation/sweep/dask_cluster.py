"""Execution of tasks on a Dask cluster."""

from __future__ import annotations

import asyncio
import logging
import queue
import socket
import ssl
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, nullcontext, suppress
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from opendrs import __version__
from opendrs.errors import (
    ConfigurationError,
    DiagnosticCode,
    OpenDRSError,
    PlatformError,
    PlatformUnavailableError,
    UnsupportedError,
)
from opendrs.simulation.scenario.definition import RecordedWorkload
from opendrs.simulation.scenario.run import MetricValues, SimulationLoad, read_load
from opendrs.simulation.sweep.tasks import (
    SweepTask,
    TaskResults,
    run_task_with_load,
    task_load,
)

if TYPE_CHECKING:  # takes half a second to import
    from distributed import Client, Future


POLL_INTERVAL = 1.0  # s between checks for workers
_REPEATED = ("lost", "pending")  # states of a run whose worker died with its result


def run_on_cluster(
    client: Client, tasks: Sequence[SweepTask], report: Callable[[str], None]
) -> TaskResults:
    """Yield the result of each task when it is done; wait for the first worker.

    Recorded workloads are sent to the workers. Synthetic ones are generated there.

    Args:
        client: Connection to the scheduler.
        tasks: Tasks to run.
        report: Called with a message while no worker is available.

    Raises:
        ConfigurationError: A task is invalid.
        PlatformError: The scheduler is unreachable, workers died during a task, or
            have another version of opendrs.
    """
    _wait_for_workers(client, report)
    _check_versions(client)
    finished: queue.SimpleQueue[Future] = queue.SimpleQueue()
    task_of = dict(_submit(client, tasks))
    try:
        for future in task_of:
            future.add_done_callback(finished.put)
        for _ in tasks:
            future = _next_finished(client, finished, report)
            yield task_of[future], _result(future)
    finally:
        if client.status == "running":
            with suppress(OSError):
                client.cancel(list(task_of), asynchronous=False)


def _submit(
    client: Client, tasks: Sequence[SweepTask]
) -> Iterator[tuple[Future, SweepTask]]:
    name = uuid.uuid4().hex[:8]  # keeps sweeps on the same cluster separate
    loads: dict[str, Future] = {}
    for task in tasks:
        if task.digest not in loads:
            loads[task.digest] = _submit_load(
                client, task, f"load-{name}-{task.digest}"
            )
        future = client.submit(
            run_task_with_load,
            task,
            loads[task.digest],
            key=f"run-{name}-{task.identity}",
            pure=False,
        )
        yield future, task


def _submit_load(client: Client, task: SweepTask, key: str) -> Future:
    """Return the load of *task*, as a task of its own that can be repeated."""
    source = task.environment.source
    if isinstance(source, RecordedWorkload):
        load = read_load(source, task.environment.model)
        return client.submit(_identity, load, key=key, pure=False)
    return client.submit(task_load, task, key=key, pure=False)


def _identity(load: SimulationLoad) -> SimulationLoad:
    return load


def _next_finished(
    client: Client, finished: queue.SimpleQueue[Future], report: Callable[[str], None]
) -> Future:
    while True:
        try:
            future = finished.get(timeout=POLL_INTERVAL)
        except queue.Empty:
            _wait_for_workers(client, report)
            continue
        if future.status not in _REPEATED:
            return future
        future.add_done_callback(finished.put)


def _wait_for_workers(client: Client, report: Callable[[str], None]) -> None:
    reported = False
    while client.status == "running":
        with _translate_disconnect():
            try:
                client.wait_for_workers(1, timeout=POLL_INTERVAL)
            except TimeoutError:
                if not reported:
                    report("no worker in the Dask cluster; waiting for one")
                reported = True
            else:
                return
    raise _connection_lost()


def _check_versions(client: Client) -> None:
    """Check that all workers and the scheduler have this version of opendrs."""
    # Resolving a name fails with an ImportError where opendrs is not installed.
    call = (resolve_name, "opendrs:__version__")
    with _translate_disconnect():
        versions = client.run(*call, on_error="return")
        try:
            versions["the scheduler"] = client.run_on_scheduler(*call)
        except ImportError as error:
            versions["the scheduler"] = error
    for location, version in versions.items():
        if version != __version__:
            missing = isinstance(version, ImportError)
            raise UnsupportedError(
                f"{location}: {'no opendrs' if missing else f'opendrs {version}'}; "
                f"install {__version__} on the scheduler and all workers"
            )


def _result(future: Future) -> MetricValues:
    with _translate_disconnect():
        error = future.exception()  # None for a cancelled one, too
        if error is None:
            metrics: MetricValues = future.result()
            return metrics
    if isinstance(error, OpenDRSError):
        raise error
    raise PlatformError(f"run failed on the Dask cluster: {error}") from error


@contextmanager
def _translate_disconnect() -> Iterator[None]:
    """Translate the several errors of Dask for a lost connection."""
    try:
        yield
    except (OSError, CancelledError) as error:
        raise _connection_lost() from error


def _connection_lost() -> PlatformUnavailableError:
    return PlatformUnavailableError("the connection to the Dask scheduler was lost")


ADDRESS_SCHEMES = ("tcp", "tls")
CONNECT_TIMEOUT = 5.0  # s in which a scheduler must respond
FRAME_COUNT_LENGTH = 8  # bytes of the number at the start of each message of Dask
MAX_FRAMES = 1000  # of a greeting; the first words of other protocols are far larger

SILENCED_LOGGERS = (
    "distributed",
    "distributed.client",
    "tornado.application",
    "asyncio",
)
"""Loggers with long output about errors that are reported here in one line."""


@contextmanager
def connect(address: str) -> Iterator[Client]:
    """Connect to the scheduler at *address*, such as `tcp://10.0.0.1:8786`.

    Raises:
        ConfigurationError: dask.distributed is missing, or the address is invalid.
        PlatformUnavailableError: No Dask scheduler responds at the address.
    """
    try:
        import dask  # noqa: PLC0415 - see above
        from distributed import Client  # noqa: PLC0415
    except ImportError as error:
        raise ConfigurationError(
            "--scheduler needs dask: pip install '.[dask]', in a checkout of opendrs",
            code=DiagnosticCode.UNUSABLE_LIBRARY,
        ) from error
    for name in SILENCED_LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    check_scheduler(address)
    overrides = {"distributed.admin.large-graph-warning-threshold": "1TiB"}
    with dask.config.set(overrides):
        try:
            client = Client(
                address,
                timeout=CONNECT_TIMEOUT,
                set_as_default=False,
                name="opendrs-sweep",
            )
        except (OSError, TimeoutError, TypeError, ValueError) as error:
            raise _no_scheduler(address) from error
        try:
            yield client
        finally:
            client.close(timeout=CONNECT_TIMEOUT)


def check_scheduler(address: str) -> None:
    """Check that a Dask scheduler responds at *address*.

    The client of Dask waits forever for a server that accepts a connection but speaks
    another protocol, and for its workers. Its threads then keep the process from
    exiting. So the server is checked first.

    Raises:
        ConfigurationError: The address is invalid.
        PlatformUnavailableError: No Dask scheduler responds at the address.
    """
    try:
        scheme, host, port = _parse_address(address)
    except ValueError as error:
        raise ConfigurationError(
            "--scheduler: expected an address such as tcp://10.0.0.1:8786, got "
            f"{address!r}: {error}"
        ) from error
    context = _tls_context(address) if scheme == "tls" else None
    _check_greeting(address, host, port, context)
    try:
        kind = asyncio.run(_server_type(address))
    except OSError as error:
        raise _no_scheduler(address) from error
    if kind != "Scheduler":
        raise _no_scheduler(address)


def _parse_address(address: str) -> tuple[str, str, int]:
    from distributed.comm import addressing  # noqa: PLC0415 - see above

    scheme, location = addressing.parse_address(address)
    if scheme not in ADDRESS_SCHEMES:
        raise ValueError(f"not one of {', '.join(ADDRESS_SCHEMES)}")
    host, port = addressing.parse_host_port(location)
    return scheme, host, port


def _tls_context(address: str) -> ssl.SSLContext:
    from distributed.security import Security  # noqa: PLC0415 - see above

    try:
        context = Security().get_connection_args("client").get("ssl_context")
    except (OSError, ValueError) as error:
        detail = f": {error}"
    else:
        if isinstance(context, ssl.SSLContext):
            return context
        detail = ""
    raise ConfigurationError(
        f"--scheduler: {address}: certificates missing; set distributed.comm.tls in "
        f"the configuration of Dask{detail}",
        code=DiagnosticCode.MISSING_KEY,
    )


def _check_greeting(
    address: str, host: str, port: int, context: ssl.SSLContext | None
) -> None:
    """Check that a server sends the greeting of Dask: a number of frames."""
    try:
        with (
            socket.create_connection((host, port), CONNECT_TIMEOUT) as plain,
            context.wrap_socket(plain) if context else nullcontext(plain) as link,
        ):
            greeting = link.recv(FRAME_COUNT_LENGTH)
    except (OSError, OverflowError, UnicodeError) as error:
        raise _no_scheduler(address) from error
    frames = int.from_bytes(greeting, "little")
    if len(greeting) < FRAME_COUNT_LENGTH or frames > MAX_FRAMES:
        raise _no_scheduler(address)


async def _server_type(address: str) -> object:
    """Return the type of the Dask server at *address*."""
    from distributed.core import rpc  # noqa: PLC0415 - see above
    from distributed.security import Security  # noqa: PLC0415

    options = Security().get_connection_args("client")
    async with rpc(address, timeout=CONNECT_TIMEOUT, connection_args=options) as server:
        identity = await asyncio.wait_for(server.identity(), CONNECT_TIMEOUT)
        return identity.get("type")


def _no_scheduler(address: str) -> PlatformUnavailableError:
    return PlatformUnavailableError(f"no Dask scheduler responds at {address}")
