"""API server in a thread of its own, concurrent with the cycles.

The import is slow; it is imported only where the API is served.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from opendrs.api.app import create_app
from opendrs.api.connection_limits import HandshakeTimeoutLoop, LimitedSocket
from opendrs.api.problems import MEDIA_TYPE, ProblemError
from opendrs.api.schema.common import ApiProblem
from opendrs.api.service import RequestService
from opendrs.api.tls import tls_context
from opendrs.api.tokens import read_tokens
from opendrs.config.settings import ApiSettings
from opendrs.controller.events import (
    LogEventCode,
    RepeatedWarningFilter,
    log_event,
    mask_logs,
)
from opendrs.errors import OpenDRSError
from opendrs.transport.listening import listening_socket

MAX_CONNECTION_TIME = 60.0  # seconds; an agent needs about one
FIRST_REQUEST_TIMEOUT = 5.0  # seconds until the headers of the first request
_UVICORN = logging.getLogger("uvicorn.error")
_SHUTDOWN_TIMEOUT = 4.0  # seconds for the server to end
_IDLE_SHUTDOWN_TIMEOUT = 0.5  # seconds for an idle connection to end


class _LimitedConnection(H11Protocol):
    """A connection with a time limit, so that no client can occupy all of them."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._lifetime_timer = self.loop.call_later(
            MAX_CONNECTION_TIME, transport.abort
        )
        self._request_timer = self.loop.call_later(
            FIRST_REQUEST_TIMEOUT, self._require_request
        )

    def _require_request(self) -> None:
        if self.cycle is None:  # no request headers were received
            self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            # The response to the previous request must not be mixed with this one.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            problem = ProblemError(ApiProblem.REQUEST_MALFORMED, msg).document
            body = problem.model_dump_json(exclude_none=True).encode()
            headers = [
                (b"content-type", MEDIA_TYPE.encode()),
                (b"content-length", str(len(body)).encode()),
                (b"connection", b"close"),
            ]
            for event in (
                h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
                h11.Data(data=body),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def shutdown(self) -> None:
        busy = self.cycle is not None and not self.cycle.response_complete
        self._lifetime_timer.cancel()
        seconds = _SHUTDOWN_TIMEOUT / 2 if busy else _IDLE_SHUTDOWN_TIMEOUT
        self._lifetime_timer = self.loop.call_later(seconds, self.transport.abort)
        super().shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lifetime_timer.cancel()
        self._request_timer.cancel()
        super().connection_lost(exc)


class ApiServer:
    """Server of the API; used in a `with` statement.

    Args:
        settings: Address, certificate and tokens.
        service: Accepts requests and reports their status.

    Raises:
        ConfigurationError: Certificate, key, tokens or address cannot be used.
    """

    def __init__(self, settings: ApiSettings, service: RequestService) -> None:
        self._tokens = read_tokens(settings.tokens)
        tls = tls_context(settings)
        listening = listening_socket("api", settings.listen, settings.address)
        self._socket = LimitedSocket(listening)
        config = uvicorn.Config(
            create_app(service, self._tokens, self._socket.connections),
            http=_LimitedConnection,
            ws="none",
            loop=f"{HandshakeTimeoutLoop.__module__}:{HandshakeTimeoutLoop.__name__}",
            lifespan="off",
            log_config=None,
            log_level=logging.WARNING,  # the service logs each request
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=int(_SHUTDOWN_TIMEOUT),
        )
        config.load()
        config.ssl = tls
        self._uvicorn = uvicorn.Server(config)
        self._stack = ExitStack()
        self._warning_filter = RepeatedWarningFilter()
        self._thread = threading.Thread(target=self._serve, name="api", daemon=True)

    @property
    def address(self) -> tuple[str, int]:
        """Return the address and the port of the listening socket."""
        found: Any = self._address
        return found[0], found[1]

    def __enter__(self) -> Self:
        self._address = self._socket.getsockname()
        self._stack.enter_context(mask_logs(self._tokens.mask))
        _UVICORN.addFilter(self._warning_filter)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._uvicorn.should_exit = True
        self._thread.join(2 * _SHUTDOWN_TIMEOUT)
        _UVICORN.removeFilter(self._warning_filter)
        self._stack.close()

    def require_alive(self) -> None:
        """Check that the server thread is running.

        Raises:
            OpenDRSError: The thread has ended.
        """
        if not self._thread.is_alive():
            raise OpenDRSError("api: server stopped unexpectedly; see the log")

    def _serve(self) -> None:
        try:
            self._uvicorn.run(sockets=[self._socket])
        except BaseException as error:
            log_event(
                LogEventCode.API_SERVER_FAILED,
                f"api: server failed: {error!r}",
                level=logging.CRITICAL,
            )
            raise
