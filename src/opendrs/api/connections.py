"""Connections that may stay open; those of token holders have a share of their own.

Each takes a file before a byte is received on it, and a process without free files
cannot open its record. So there are only so many, and while peers without a token want
more than half of them, each new one takes the place of another of these: the oldest of
the address that has most. An agent, which shows its token at once, is not affected.
"""

from __future__ import annotations

import logging
import socket
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv6Network

from opendrs.controller.events import LogRateLimiter, log_event
from opendrs.model import NodeId

MAX_CONNECTIONS = 256  # in all, also those that have not completed TLS
MAX_CONNECTIONS_PER_NODE = 8  # on which the token of one node was shown
ClientAddress = tuple[str, int]  # address and port of the peer


@dataclass(slots=True, eq=False)
class _OpenConnection:
    """An accepted connection.

    Attributes:
        network: The network of the peer.
        socket: What is closed when it ends.
        node: The node of the token that was shown on it; None before that.
        busy: A request is being processed.
        dropped: It was told to end, and keeps its file for a moment.
    """

    network: str
    socket: socket.socket
    node: NodeId | None = None
    busy: bool = False
    dropped: bool = False


class Connections:
    """The connections that are open; used by the thread of the event loop.

    Args:
        limit: How many there may be.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        # Connections that were used last are the last ones.
        self._open: dict[ClientAddress, _OpenConnection] = {}
        self._rate_limiter = LogRateLimiter()

    def admit(self, client: ClientAddress, accepted: socket.socket) -> bool:
        """Return whether *accepted* may stay open; another one may end for it."""
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
        """Note that a request with the token of *node* begins.

        Returns:
            Whether it may: only so many connections of a node have requests at once.
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
        """Note that the request has its answer."""
        connection = self._open.pop(client, None)
        if connection is not None:
            connection.busy = False
            self._open[client] = connection

    def _make_place(self) -> bool:
        """Return whether one more may come, if need be in the place of another."""
        remaining = list(self._remaining())
        unauthenticated = [each for each in remaining if each.node is None]
        if len(unauthenticated) >= self._limit // 2:
            self._drop_unauthenticated(unauthenticated)
            return True
        # What was dropped keeps its file for a moment, for which an eighth is left.
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
                "connection-dropped",
                f"{network}: has {count} of {len(unauthenticated)} connections without a "
                "token; the oldest is closed",
                level=logging.WARNING,
                address=network,
            )

    def _log_rejected(self, network: str) -> None:
        if self._rate_limiter.allows(network):
            log_event(
                "connection-rejected",
                f"{network}: connection refused: {len(self._open)} are open",
                level=logging.WARNING,
                address=network,
            )


def _drop_idle(connections: Iterable[_OpenConnection]) -> bool:
    """End the one that has waited longest for a request; return whether there is one.

    A client opens a new one when it needs it.
    """
    for each in connections:
        if each.node is not None and not each.busy:
            _drop(each)
            return True
    return False


def _drop(connection: _OpenConnection) -> None:
    connection.dropped = True
    with suppress(OSError):  # the peer was faster
        # The event loop closes it, which still waits for this file.
        connection.socket.shutdown(socket.SHUT_RDWR)


def network_of(address: str) -> str:
    """Return the network of *address*: a host with IPv6 has 64 bits of addresses."""
    if ":" not in address:
        return address
    plain = address.partition("%")[0]  # a link-local one names its interface there
    return str(IPv6Network((plain, 64), strict=False))
