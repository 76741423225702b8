"""The scheduler of a Dask cluster: whether it answers, and the connection to it."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from opendrs.errors import ConfigurationError, PlatformUnavailableError

if TYPE_CHECKING:  # takes half a second, and is needed only with a cluster
    from distributed import Client

SCHEMES = ("tcp", "tls")
PATIENCE = 5.0  # s in which a scheduler must answer
LENGTH = 8  # bytes of the number that begins each message of Dask
MOST_FRAMES = 1000  # in a greeting; others' first words are far larger numbers
TALKERS = ("distributed", "distributed.client", "tornado.application", "asyncio")
"""Who would log at length what is told here in a line."""


@contextmanager
def connected(address: str) -> Iterator[Client]:
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
            "--scheduler needs dask: pip install '.[dask]', in a checkout of opendrs"
        ) from error
    for name in TALKERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
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
    """Check that a scheduler of Dask answers at *address*.

    The client of Dask waits without end for whoever accepts a connection and speaks
    another language, and for its workers; and its remains keep a process from ending.
    So we look first.

    Raises:
        ConfigurationError: That is no address.
        PlatformUnavailableError: Nobody answers there, or somebody else.
    """
    try:
        scheme, host, port = _place(address)
    except ValueError as error:
        raise ConfigurationError(
            "--scheduler: expected an address such as tcp://10.0.0.1:8786, found "
            f"{address!r}: {error}"
        ) from error
    context = _certificates(address) if scheme == "tls" else None
    _require_greeting(address, host, port, context)
    try:
        kind = asyncio.run(_kind(address))
    except OSError as error:
        raise _nobody(address) from error
    if kind != "Scheduler":
        raise _nobody(address)


def _place(address: str) -> tuple[str, str, int]:
    from distributed.comm import addressing  # noqa: PLC0415 - see above

    scheme, place = addressing.parse_address(address)
    if scheme not in SCHEMES:
        raise ValueError(f"not one of {', '.join(SCHEMES)}")
    host, port = addressing.parse_host_port(place)
    return scheme, host, port


def _certificates(address: str) -> ssl.SSLContext:
    from distributed.security import Security  # noqa: PLC0415 - see above

    try:
        found = Security().get_connection_args("client").get("ssl_context")
    except (OSError, ValueError) as error:
        why = f": {error}"
    else:
        if isinstance(found, ssl.SSLContext):
            return found
        why = ""
    raise ConfigurationError(
        f"--scheduler: {address} needs the certificates that the configuration of Dask "
        f"names under distributed.comm.tls{why}"
    )


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


async def _kind(address: str) -> object:
    """Return what kind of server of Dask is at *address*."""
    from distributed.core import rpc  # noqa: PLC0415 - see above
    from distributed.security import Security  # noqa: PLC0415

    options = Security().get_connection_args("client")
    async with rpc(address, timeout=PATIENCE, connection_args=options) as server:
        identity = await asyncio.wait_for(server.identity(), PATIENCE)
        return identity.get("type")


def _nobody(address: str) -> PlatformUnavailableError:
    return PlatformUnavailableError(f"no Dask scheduler answers at {address}")
