"""The listening socket, and an event loop that completes TLS in time or not at all.

What is too much is closed before TLS begins.
"""

from __future__ import annotations

import asyncio
import resource
import socket
from typing import Any

from opendrs.api import connections
from opendrs.api.connections import Connections
from opendrs.controller.events import LogRateLimiter

HANDSHAKE_TIMEOUT = 5.0  # seconds in which TLS has to be spoken
SHUTDOWN_TIMEOUT = 1.0  # seconds in which the peer has to end TLS as well
_BACKLOG = 1024  # connections that the kernel keeps until they are accepted


class LimitedSocket(socket.socket):
    """A listening socket that closes at once what is too much.

    Args:
        listening: The socket in whose place it is, and which is closed by that.
    """

    def __init__(self, listening: socket.socket) -> None:
        super().__init__(fileno=listening.detach())
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        # Most of the files of a process are for the record and the platforms.
        limit = connections.MAX_CONNECTIONS
        if files > 0:
            limit = min(limit, files // 4)
        self.connections = Connections(limit)
        # A dropped connection is closed two turns of the event loop later.
        self.accept_batch = max(1, limit // 16)

    def listen(self, backlog: int = _BACKLOG) -> None:
        """Accept connections; the event loop's *backlog* is only its own."""
        super().listen(max(backlog, _BACKLOG))

    def accept(self) -> tuple[socket.socket, Any]:
        """Let the next one in.

        Raises:
            ConnectionAbortedError: That was too many, and it is closed.
            OSError: There is none, or no file is left.
        """
        connection, address = super().accept()
        if not self.connections.admit(address[:2], connection):
            connection.close()
            raise ConnectionAbortedError
        return connection, address


class HandshakeTimeoutLoop(asyncio.SelectorEventLoop):
    """An event loop in which TLS has to be spoken soon.

    What goes wrong with connections is told seldom: anybody can bring it about.
    """

    def __init__(self) -> None:
        super().__init__()
        self._rate_limiter = LogRateLimiter()

    async def create_server(  # type: ignore[override]  # only what is called
        self,
        *args: Any,  # noqa: ANN401 - passed on as they are
        sock: LimitedSocket,
        backlog: int,
        **options: Any,  # noqa: ANN401 - passed on as they are
    ) -> asyncio.Server:
        """Return a server that waits for TLS only so long, and accepts few at once."""
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
        """Tell it, unless the same was told just now."""
        if self._rate_limiter.allows(str(context.get("message"))):
            super().call_exception_handler(context)
