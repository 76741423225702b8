"""Server of the operator API and the dashboard.

The import is slow; it is imported only where the API is served.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import signal
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from types import FrameType

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from opendrs.api.connections import network_of
from opendrs.api.context import ApiContext
from opendrs.api.dashboard import Dashboard
from opendrs.api.gateway import Gateway
from opendrs.api.state_feed import StateFeed
from opendrs.api.tls import credentials_context
from opendrs.api.web_app import create_web_app
from opendrs.config.web_settings import WebSettings
from opendrs.transport.listening import listening_socket

MAX_CONNECTIONS = 2_000
MAX_CONNECTIONS_PER_NETWORK = 1_000
MAX_HEADERS = 16_384  # bytes
FIRST_REQUEST_TIMEOUT = 10.0  # seconds until the headers of the first request
KEEPALIVE_TIMEOUT = 30  # seconds in which the next request must begin
SHUTDOWN_TIMEOUT = 2  # seconds for responses to end


class _Connections:
    """The number of open connections, in all and of each network."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open = Counter[str]()

    def admit(self, network: str) -> bool:
        """Count a connection; return False if there are too many."""
        self._open[network] += 1
        per_network = min(MAX_CONNECTIONS_PER_NETWORK, self._limit)
        return self._open.total() <= self._limit and self._open[network] <= per_network

    def close(self, network: str) -> None:
        """Count the end of a connection."""
        self._open[network] -= 1
        if self._open[network] <= 0:
            del self._open[network]


class _CountedConnection(H11Protocol):
    """A connection that is closed if there are too many, or if it sends nothing."""

    def __init__(
        self, *args: object, connections: _Connections, **named: object
    ) -> None:
        super().__init__(*args, **named)  # type: ignore[arg-type]  # passed on
        self._connections = connections
        self._network = ""
        self._request_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        peer = transport.get_extra_info("peername") or ("",)
        self._network = network_of(str(peer[0]))
        if not self._connections.admit(self._network):
            transport.abort()
            return
        self._request_timer = self.loop.call_later(
            FIRST_REQUEST_TIMEOUT, self._require_request
        )

    def _require_request(self) -> None:
        if self.cycle is None:  # no request headers were received
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._request_timer is not None:
            self._request_timer.cancel()
        self._connections.close(self._network)
        super().connection_lost(exc)


class _Server(uvicorn.Server):
    """A server that ends the streams of events when it ends.

    Args:
        config: Its settings.
        states: The feed of the streams.
    """

    def __init__(self, config: uvicorn.Config, states: StateFeed) -> None:
        super().__init__(config)
        self._states = states

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End the server; uvicorn would raise the signal again afterward."""
        del frame
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams, then the connections."""
        self._states.close()
        await super().shutdown(sockets)


def create_gateway(context: ApiContext) -> Gateway:
    """Return the whole application: limits, API and dashboard."""
    app = create_web_app(context)
    app.router.lifespan_context = partial(_lifespan, context)
    return Gateway(app, Dashboard(), context.access, context.clock.monotonic)


@asynccontextmanager
async def _lifespan(context: ApiContext, app: FastAPI) -> AsyncIterator[None]:
    """Read the store repeatedly while the application runs, and end its jobs."""
    del app
    reading = asyncio.create_task(context.states.run())
    try:
        yield
    finally:
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading
        if context.jobs is not None:
            await asyncio.to_thread(context.jobs.close)


class WebServer:
    """Server of the operator API and the dashboard; runs in the main thread.

    Args:
        settings: Address and certificate.
        create_context: Returns what the routes use; called once, after the address
            and the certificate were checked.

    Raises:
        ConfigurationError: Certificate, key or address cannot be used.
    """

    def __init__(
        self, settings: WebSettings, create_context: Callable[[], ApiContext]
    ) -> None:
        tls = None
        if settings.certificate is not None and settings.key is not None:
            tls = credentials_context("web", settings.certificate, settings.key)
        self._scheme = settings.scheme
        self._socket = listening_socket("web", settings.listen, settings.address)
        context = create_context()
        config = uvicorn.Config(
            create_gateway(context),
            http=partial(_CountedConnection, connections=_Connections(_file_limit())),  # type: ignore[arg-type]  # called like the class
            ws="none",
            lifespan="on",
            log_config=None,
            log_level=logging.WARNING,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=MAX_HEADERS,
            timeout_keep_alive=KEEPALIVE_TIMEOUT,
            timeout_graceful_shutdown=SHUTDOWN_TIMEOUT,
        )
        config.load()
        config.ssl = tls
        self._server = _Server(config, context.states)

    @property
    def address(self) -> str:
        """Return the address of the page."""
        host, port, *_ = self._socket.getsockname()
        shown = f"[{host}]" if self._socket.family == socket.AF_INET6 else host
        return f"{self._scheme}://{shown}:{port}/"

    def run(self) -> None:
        """Serve until SIGINT, SIGTERM or `stop`."""
        self._server.run(sockets=[self._socket])

    def stop(self) -> None:
        """End `run`; can be called by any thread."""
        self._server.should_exit = True


def _file_limit() -> int:
    """Return the number of connections; allow the process that many files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * MAX_CONNECTIONS
    if hard == resource.RLIM_INFINITY or hard >= wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
        return MAX_CONNECTIONS
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard // 2
