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

from opendrs.controller.requests.seldom import Seldom
from opendrs.controller.telling import tell
from opendrs.model import NodeId

MOST_OPEN = 256  # in all, also those that have not completed TLS
MOST_OF_NODE = 8  # on which the token of one node was shown
Client = tuple[str, int]  # address and port of the peer


@dataclass(slots=True, eq=False)
class _Connection:
    """An accepted connection.

    Attributes:
        source: The network of the peer.
        socket: What is closed when it ends.
        node: The node of the token that was shown on it; None before that.
        busy: A request is being processed.
        dropped: It was told to end, and keeps its file for a moment.
    """

    source: str
    socket: socket.socket
    node: NodeId | None = None
    busy: bool = False
    dropped: bool = False


class Connections:
    """The connections that are open; used by the thread of the event loop.

    Args:
        most: How many there may be.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        # Connections that were used last are the last ones.
        self._open: dict[Client, _Connection] = {}
        self._told = Seldom()

    def admit(self, client: Client, accepted: socket.socket) -> bool:
        """Return whether *accepted* may stay open; another one may end for it."""
        self._open = {
            each: found
            for each, found in self._open.items()
            if found.socket.fileno() >= 0
        }
        source = source_of(client[0])
        if len(self._open) >= self._most or not self._has_place():
            self._tell_refused(source)
            return False
        self._open[client] = _Connection(source, accepted)
        return True

    def begin(self, client: Client, node: NodeId) -> bool:
        """Note that a request with the token of *node* begins.

        Returns:
            Whether it may: only so many connections of a node have requests at once.
        """
        found = self._open.get(client)
        if found is None:
            return True
        if found.node is None:
            others = [each for each in self._kept() if each.node == node]
            if len(others) >= MOST_OF_NODE and not _drop_idle(others):
                return False
        found.node, found.busy = node, True
        return True

    def end(self, client: Client) -> None:
        """Note that the request has its answer."""
        found = self._open.pop(client, None)
        if found is not None:
            found.busy = False
            self._open[client] = found

    def _has_place(self) -> bool:
        """Return whether one more may come, if need be in the place of another."""
        kept = list(self._kept())
        unproven = [each for each in kept if each.node is None]
        if len(unproven) >= self._most // 2:
            self._drop_unproven(unproven)
            return True
        # What was dropped keeps its file for a moment, for which an eighth is left.
        return len(kept) < self._most - self._most // 8 or _drop_idle(kept)

    def _kept(self) -> Iterable[_Connection]:
        return (each for each in self._open.values() if not each.dropped)

    def _drop_unproven(self, unproven: list[_Connection]) -> None:
        ((source, count),) = Counter(each.source for each in unproven).most_common(1)
        _drop(next(each for each in unproven if each.source == source))
        if self._told.may(source):
            tell(
                "connection-dropped",
                f"{source}: has {count} of {len(unproven)} connections without a "
                "token; the oldest is closed",
                level=logging.WARNING,
                address=source,
            )

    def _tell_refused(self, source: str) -> None:
        if self._told.may(source):
            tell(
                "connection-refused",
                f"{source}: connection refused: {len(self._open)} are open",
                level=logging.WARNING,
                address=source,
            )


def _drop_idle(connections: Iterable[_Connection]) -> bool:
    """End the one that has waited longest for a request; return whether there is one.

    A client opens a new one when it needs it.
    """
    for each in connections:
        if each.node is not None and not each.busy:
            _drop(each)
            return True
    return False


def _drop(connection: _Connection) -> None:
    connection.dropped = True
    with suppress(OSError):  # the peer was faster
        # The event loop closes it, which still waits for this file.
        connection.socket.shutdown(socket.SHUT_RDWR)


def source_of(address: str) -> str:
    """Return the network of *address*: a host with IPv6 has 64 bits of addresses."""
    if ":" not in address:
        return address
    plain = address.partition("%")[0]  # a link-local one names its interface there
    return str(IPv6Network((plain, 64), strict=False))
