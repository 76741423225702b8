"""Connections of token holders stay; those of others take the place of one another."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from opendrs.controller.requests.connections import (
    MOST_OF_NODE,
    Client,
    Connections,
    source_of,
)
from opendrs.model import NodeId

MOST = 16
H1, H2, H3 = map(NodeId, ("h1", "h2", "h3"))


class Peers:
    """Peers that connect, and what they have of the connections."""

    def __init__(self, stack: ExitStack) -> None:
        self.connections = Connections(MOST)
        self._stack = stack
        self._ends: dict[Client, tuple[socket.socket, socket.socket]] = {}

    def connect(self, address: str) -> Client | None:
        """Connect from *address*; return None where that is refused."""
        client = (address, len(self._ends))
        ours, theirs = map(self._stack.enter_context, socket.socketpair())
        self._ends[client] = ours, theirs
        return client if self.connections.admit(client, ours) else None

    def show(self, address: str, node: NodeId, *, idle: bool) -> Client:
        """Connect, and show the token of *node*, in a request that may have ended."""
        client = self.connect(address)
        assert client is not None
        assert self.connections.begin(client, node)
        if idle:
            self.connections.end(client)
        return client

    def is_open(self, client: Client | None) -> bool:
        """Return whether the peer has not been told to end the connection."""
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


def test_the_oldest_of_the_address_with_most_connections_ends_first(
    peers: Peers,
) -> None:
    alone = peers.connect("192.0.2.1")
    crowd = [peers.connect("192.0.2.9") for _ in range(MOST // 2 - 1)]

    late = peers.connect("192.0.2.2")

    assert peers.is_open(alone)
    assert peers.is_open(late)
    assert [peers.is_open(each) for each in crowd] == [False] + [True] * 6


def test_half_of_the_connections_are_for_token_holders(peers: Peers) -> None:
    holders = [
        peers.show(f"192.0.2.{number}", node, idle=number % 2 == 0)
        for number, node in enumerate([H1, H2, H3] * 2)
    ]

    for number in range(100):
        assert peers.connect(f"198.51.100.{number}") is not None
        peers.close_dropped()

    assert all(map(peers.is_open, holders))


def test_the_longest_idle_token_holder_gives_way_to_one_that_connects(
    peers: Peers,
) -> None:
    first, second = (peers.show("192.0.2.1", H1, idle=True) for _ in range(2))
    assert peers.connections.begin(first, H1)
    peers.connections.end(first)  # it was used after the second one
    busy = [peers.show("192.0.2.2", H2, idle=False) for _ in range(MOST_OF_NODE)]
    busy += [peers.show("192.0.2.3", H3, idle=False) for _ in range(4)]

    assert peers.connect("192.0.2.4") is not None
    assert (peers.is_open(first), peers.is_open(second)) == (True, False)
    assert peers.connect("192.0.2.5") is not None
    assert not peers.is_open(first)
    assert all(map(peers.is_open, busy))


def test_none_is_admitted_while_all_others_have_requests_in_progress(
    peers: Peers,
) -> None:
    busy = [
        peers.show("192.0.2.1", node, idle=False)
        for node in (H1, H2)
        for _ in range(MOST_OF_NODE - 1)
    ]

    assert peers.connect("192.0.2.2") is None
    peers.connections.end(busy[0])
    assert peers.connect("192.0.2.2") is not None
    assert [peers.is_open(each) for each in busy].count(False) == 1


def test_dropped_connections_count_until_they_are_closed(peers: Peers) -> None:
    admitted = [peers.connect("192.0.2.1") for _ in range(MOST + 1)]

    assert [each is not None for each in admitted] == [True] * MOST + [False]
    peers.close_dropped()
    assert peers.connect("192.0.2.1") is not None


def test_a_node_has_only_so_many_connections_and_idle_ones_end_first(
    peers: Peers,
) -> None:
    idle = peers.show("192.0.2.1", H1, idle=True)
    busy = [peers.show("192.0.2.1", H1, idle=False) for _ in range(MOST_OF_NODE - 1)]

    one_more = peers.show("192.0.2.1", H1, idle=False)
    too_many = peers.connect("192.0.2.1")

    assert not peers.is_open(idle)
    assert all(map(peers.is_open, [*busy, one_more]))
    assert too_many is not None
    assert not peers.connections.begin(too_many, H1)
    assert peers.connections.begin(busy[0], H1)  # a further request on an old one
    assert peers.connections.begin(too_many, H2)


def test_all_of_one_network_of_ipv6_count_as_one() -> None:
    addresses = [
        "192.0.2.1",
        "192.0.2.2",
        "2001:db8::1",
        "2001:db8::ffff:1",
        "fe80::1%lo",
    ]

    assert [source_of(each) for each in addresses] == [
        "192.0.2.1",
        "192.0.2.2",
        "2001:db8::/64",
        "2001:db8::/64",
        "fe80::/64",
    ]
