"""Listening socket with a connection limit, and event loop with TLS timeouts.

Excess connections are closed before the TLS handshake.
"""

from __future__ import annotations

import asyncio
import resource
import socket
from typing import Any

from opendrs.api import connections
from opendrs.api.connections import Connections
from opendrs.controller.events import LogRateLimiter

HANDSHAKE_TIMEOUT = 5.0  # seconds for the TLS handshake
SHUTDOWN_TIMEOUT = 1.0  # seconds for the TLS shutdown of the client
_BACKLOG = 1024  # connections that the kernel queues until they are accepted


class LimitedSocket(socket.socket):
    """A listening socket that closes excess connections immediately.

    Args:
        listening: Socket that is replaced by this one, and detached.
    """

    def __init__(self, listening: socket.socket) -> None:
        super().__init__(fileno=listening.detach())
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        # The store and the platforms need most of the file descriptors.
        limit = connections.MAX_CONNECTIONS
        if files > 0:
            limit = min(limit, files // 4)
        self.connections = Connections(limit)
        # The event loop closes a dropped connection two iterations later.
        self.accept_batch = max(1, limit // 16)

    def listen(self, backlog: int = _BACKLOG) -> None:
        """Listen with at least the backlog of this module, not only *backlog*."""
        super().listen(max(backlog, _BACKLOG))

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept the next connection.

        Raises:
            ConnectionAbortedError: It exceeds the limit and was closed.
            OSError: There is no connection, or no file descriptor is left.
        """
        connection, address = super().accept()
        if not self.connections.admit(address[:2], connection):
            connection.close()
            raise ConnectionAbortedError
        return connection, address


class HandshakeTimeoutLoop(asyncio.SelectorEventLoop):
    """Event loop with timeouts for TLS.

    Connection errors are logged with a rate limit, because every client can cause
    them.
    """

    def __init__(self) -> None:
        super().__init__()
        self._rate_limiter = LogRateLimiter()

    async def create_server(  # type: ignore[override]  # only the overload in use
        self,
        *args: Any,  # noqa: ANN401 - passed on unchanged
        sock: LimitedSocket,
        backlog: int,
        **options: Any,  # noqa: ANN401 - passed on unchanged
    ) -> asyncio.Server:
        """Return a server with TLS timeouts that accepts few connections at once."""
        del backlog
        return await super().create_server(
            *args,
            sock=sock,
            backlog=sock.accept_batch,
            ssl_handshake_timeout=HANDSHAKE_TIMEOUT,
            ssl_shutdown_timeout=SHUTDOWN_TIMEOUT,
            **options,
        )

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Log the error unless the same message was logged recently."""
        if self._rate_limiter.allows(str(context.get("message"))):
            super().call_exception_handler(context)
