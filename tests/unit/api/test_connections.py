"""Connections of token holders are kept; those of others replace one another."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from opendrs.api.connections import (
    MAX_CONNECTIONS_PER_NODE,
    ClientAddress,
    Connections,
    network_of,
)
from opendrs.model import NodeId

MOST = 16
H1, H2, H3 = map(NodeId, ("h1", "h2", "h3"))


class Peers:
    """Peers that connect, and what they have of the connections."""

    def __init__(self, stack: ExitStack) -> None:
        self.connections = Connections(MOST)
        self._stack = stack
        self._ends: dict[ClientAddress, tuple[socket.socket, socket.socket]] = {}

    def connect(self, address: str) -> ClientAddress | None:
        """Connect from *address*; return None where that is refused."""
        client = (address, len(self._ends))
        ours, theirs = map(self._stack.enter_context, socket.socketpair())
        self._ends[client] = ours, theirs
        return client if self.connections.admit(client, ours) else None

    def show(self, address: str, node: NodeId, *, idle: bool) -> ClientAddress:
        """Connect, and show the token of *node*, in a request that may have ended."""
        client = self.connect(address)
        assert client is not None
        assert self.connections.begin_request(client, node)
        if idle:
            self.connections.end_request(client)
        return client

    def is_open(self, client: ClientAddress | None) -> bool:
        """Return whether the server keeps the connection to the peer open."""
        assert client is not None
        theirs = self._ends[client][1]
        theirs.settimeout(0)
        try:
            return theirs.recv(1) != b""
        except BlockingIOError:
            return True

    def close_dropped(self) -> None:
        """Do what the event loop does a moment later."""
        for client, (ours, _) in self._ends.items():
            if not self.is_open(client):
                ours.close()


@pytest.fixture
def peers() -> Iterator[Peers]:
    with ExitStack() as stack:
        yield Peers(stack)


def test_oldest_of_network_with_most_connections_is_dropped_first(
    peers: Peers,
) -> None:
    alone = peers.connect("192.0.2.1")
    sample_cluster = [peers.connect("192.0.2.9") for _ in range(MOST // 2 - 1)]

    late = peers.connect("192.0.2.2")

    assert peers.is_open(alone)
    assert peers.is_open(late)
    assert [peers.is_open(each) for each in sample_cluster] == [False] + [True] * 6


def test_half_of_connections_are_reserved_for_token_holders(peers: Peers) -> None:
    holders = [
        peers.show(f"192.0.2.{number}", node, idle=number % 2 == 0)
        for number, node in enumerate([H1, H2, H3] * 2)
    ]

    for number in range(100):
        assert peers.connect(f"198.51.100.{number}") is not None
        peers.close_dropped()

    assert all(map(peers.is_open, holders))


def test_longest_idle_token_holder_is_dropped_for_new_connection(
    peers: Peers,
) -> None:
    first, second = (peers.show("192.0.2.1", H1, idle=True) for _ in range(2))
    assert peers.connections.begin_request(first, H1)
    peers.connections.end_request(first)  # it was used after the second one
    busy = [
        peers.show("192.0.2.2", H2, idle=False) for _ in range(MAX_CONNECTIONS_PER_NODE)
    ]
    busy += [peers.show("192.0.2.3", H3, idle=False) for _ in range(4)]

    assert peers.connect("192.0.2.4") is not None
    assert (peers.is_open(first), peers.is_open(second)) == (True, False)
    assert peers.connect("192.0.2.5") is not None
    assert not peers.is_open(first)
    assert all(map(peers.is_open, busy))


def test_connection_while_all_are_busy_is_rejected(
    peers: Peers,
) -> None:
    busy = [
        peers.show("192.0.2.1", node, idle=False)
        for node in (H1, H2)
        for _ in range(MAX_CONNECTIONS_PER_NODE - 1)
    ]

    assert peers.connect("192.0.2.2") is None
    peers.connections.end_request(busy[0])
    assert peers.connect("192.0.2.2") is not None
    assert [peers.is_open(each) for each in busy].count(False) == 1


def test_dropped_connections_count_until_they_are_closed(peers: Peers) -> None:
    admitted = [peers.connect("192.0.2.1") for _ in range(MOST + 1)]

    assert [each is not None for each in admitted] == [True] * MOST + [False]
    peers.close_dropped()
    assert peers.connect("192.0.2.1") is not None


def test_node_over_connection_limit_drops_idle_first(
    peers: Peers,
) -> None:
    idle = peers.show("192.0.2.1", H1, idle=True)
    busy = [
        peers.show("192.0.2.1", H1, idle=False)
        for _ in range(MAX_CONNECTIONS_PER_NODE - 1)
    ]

    one_more = peers.show("192.0.2.1", H1, idle=False)
    too_many = peers.connect("192.0.2.1")

    assert not peers.is_open(idle)
    assert all(map(peers.is_open, [*busy, one_more]))
    assert too_many is not None
    assert not peers.connections.begin_request(too_many, H1)
    assert peers.connections.begin_request(
        busy[0], H1
    )  # a further request on an old one
    assert peers.connections.begin_request(too_many, H2)


def test_ipv6_network_counts_as_one_source() -> None:
    addresses = [
        "192.0.2.1",
        "192.0.2.2",
        "2001:db8::1",
        "2001:db8::ffff:1",
        "fe80::1%lo",
    ]

    assert [network_of(each) for each in addresses] == [
        "192.0.2.1",
        "192.0.2.2",
        "2001:db8::/64",
        "2001:db8::/64",
        "fe80::/64",
    ]
