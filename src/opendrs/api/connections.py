"""Limit of open connections, with a share reserved for clients with a token.

Each connection takes a file descriptor before a byte is received, and a process
without free file descriptors cannot open its store. The number is therefore limited.
While clients without a token use half of the connections, each new one replaces the
oldest of the network with the most. An agent sends its token at once and is not
affected.
"""

from __future__ import annotations

import logging
import socket
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv6Network

from opendrs.controller.events import LogEventCode, LogRateLimiter, log_event
from opendrs.model import NodeId

MAX_CONNECTIONS = 256  # in all, including those without a completed TLS handshake
MAX_CONNECTIONS_PER_NODE = 8  # with the token of one node
ClientAddress = tuple[str, int]  # address and port of the client


@dataclass(slots=True, eq=False)
class _OpenConnection:
    """An accepted connection.

    Attributes:
        network: Network of the client.
        socket: Socket of the connection.
        node: Node of the token that was received; None before that.
        busy: A request is being processed.
        dropped: The connection was shut down, and has its file descriptor until the
            event loop closes it.
    """

    network: str
    socket: socket.socket
    node: NodeId | None = None
    busy: bool = False
    dropped: bool = False


class Connections:
    """The open connections; used by the thread of the event loop.

    Args:
        limit: Largest number of open connections.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        # Ordered by the time of their last use.
        self._open: dict[ClientAddress, _OpenConnection] = {}
        self._rate_limiter = LogRateLimiter()

    def admit(self, client: ClientAddress, accepted: socket.socket) -> bool:
        """Return True if *accepted* may stay open; drop another one if necessary."""
        self._open = {
            each: connection
            for each, connection in self._open.items()
            if connection.socket.fileno() >= 0
        }
        network = network_of(client[0])
        if len(self._open) >= self._limit or not self._make_place():
            self._log_rejected(network)
            return False
        self._open[client] = _OpenConnection(network, accepted)
        return True

    def begin_request(self, client: ClientAddress, node: NodeId) -> bool:
        """Record the start of a request with the token of *node*.

        Returns:
            False if the node has too many connections with requests.
        """
        connection = self._open.get(client)
        if connection is None:
            return True
        if connection.node is None:
            others = [each for each in self._remaining() if each.node == node]
            if len(others) >= MAX_CONNECTIONS_PER_NODE and not _drop_idle(others):
                return False
        connection.node, connection.busy = node, True
        return True

    def end_request(self, client: ClientAddress) -> None:
        """Record the end of a request."""
        connection = self._open.pop(client, None)
        if connection is not None:
            connection.busy = False
            self._open[client] = connection

    def _make_place(self) -> bool:
        """Return True if there is space for one more; drop another if necessary."""
        remaining = list(self._remaining())
        unauthenticated = [each for each in remaining if each.node is None]
        if len(unauthenticated) >= self._limit // 2:
            self._drop_unauthenticated(unauthenticated)
            return True
        # An eighth is reserved for dropped connections that are not closed yet.
        return len(remaining) < self._limit - self._limit // 8 or _drop_idle(remaining)

    def _remaining(self) -> Iterable[_OpenConnection]:
        return (each for each in self._open.values() if not each.dropped)

    def _drop_unauthenticated(self, unauthenticated: list[_OpenConnection]) -> None:
        ((network, count),) = Counter(
            each.network for each in unauthenticated
        ).most_common(1)
        _drop(next(each for each in unauthenticated if each.network == network))
        if self._rate_limiter.allows(network):
            log_event(
                LogEventCode.CONNECTION_DROPPED,
                f"{network}: too many connections without a token: {count} of "
                f"{len(unauthenticated)}; the oldest is closed",
                level=logging.WARNING,
                address=network,
            )

    def _log_rejected(self, network: str) -> None:
        if self._rate_limiter.allows(network):
            log_event(
                LogEventCode.CONNECTION_REJECTED,
                f"{network}: connection rejected: {len(self._open)} are open",
                level=logging.WARNING,
                address=network,
            )


def _drop_idle(connections: Iterable[_OpenConnection]) -> bool:
    """Drop the connection that is idle for the longest time; return False without one.

    A client opens a new connection when it needs one.
    """
    for each in connections:
        if each.node is not None and not each.busy:
            _drop(each)
            return True
    return False


def _drop(connection: _OpenConnection) -> None:
    connection.dropped = True
    with suppress(OSError):  # the client has closed it already
        # Not closed here: the event loop still uses the file descriptor.
        connection.socket.shutdown(socket.SHUT_RDWR)


def network_of(address: str) -> str:
    """Return the /64 network of an IPv6 *address*; an IPv4 address unchanged."""
    if ":" not in address:
        return address
    plain = address.partition("%")[0]  # without the interface of a link-local address
    return str(IPv6Network((plain, 64), strict=False))
