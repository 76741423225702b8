"""Who comes in at all, before a word is said: only so many, and not for long.

Who is silent takes a file as well, and a process without any left cannot open its
record. So what is too much is closed at once, before TLS is spoken.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
from ipaddress import IPv6Network
from typing import Any

from opendrs.controller.requests.seldom import Seldom
from opendrs.controller.telling import tell

MOST_OPEN = 256  # connections at once, also those that have not spoken TLS yet
MOST_OF_ONE = 64  # of them from one address
LONGEST_HANDSHAKE = 5.0  # seconds in which TLS has to be spoken, or ended


class Door(socket.socket):
    """A listening socket that closes at once what is too much.

    Args:
        listening: The socket in whose place it is, and which is closed by that.
    """

    def __init__(self, listening: socket.socket) -> None:
        super().__init__(fileno=listening.detach())
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        # Most of the files of a process are for the record and the platforms.
        self._most = min(MOST_OPEN, files // 4) if files > 0 else MOST_OPEN
        self._inside: tuple[tuple[str, socket.socket], ...] = ()
        self._told = Seldom()

    def accept(self) -> tuple[socket.socket, Any]:
        """Let the next one in.

        Raises:
            ConnectionAbortedError: That was too many, and it is closed.
            OSError: Nobody is there, or no file is left.
        """
        connection, address = super().accept()
        source = _source(address[0])
        inside = tuple(each for each in self._inside if each[1].fileno() >= 0)
        of_one = sum(other == source for other, _ in inside)
        if len(inside) >= self._most or of_one >= MOST_OF_ONE:
            connection.close()
            self._tell_refused(source, of_one, len(inside))
            raise ConnectionAbortedError
        self._inside = (*inside, (source, connection))
        return connection, address

    def _tell_refused(self, source: str, of_one: int, everybody: int) -> None:
        if self._told.may(source):
            tell(
                "connection-refused",
                f"{source} has {of_one} connections open, of {everybody}: no more "
                "are let in",
                level=logging.WARNING,
                address=source,
            )


class DoorLoop(asyncio.SelectorEventLoop):
    """An event loop in which TLS has to be spoken soon.

    What goes wrong with connections is told seldom: anybody can bring it about.
    """

    def __init__(self) -> None:
        super().__init__()
        self._told = Seldom()

    async def create_server(self, *args: Any, **options: Any) -> asyncio.Server:  # noqa: ANN401 - passed on as they are
        """Return a server that waits for TLS only so long."""
        return await super().create_server(
            *args,
            **options,
            ssl_handshake_timeout=LONGEST_HANDSHAKE,
            ssl_shutdown_timeout=LONGEST_HANDSHAKE,
        )

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Tell it, unless the same was told just now."""
        if self._told.may(str(context.get("message"))):
            super().call_exception_handler(context)


def _source(address: str) -> str:
    """Return whose *address* it is: who has one of IPv6 has a whole network."""
    if ":" not in address:
        return address
    plain = address.partition("%")[0]  # a local one names its interface there
    return str(IPv6Network((plain, 64), strict=False))
