"""Who says nothing holds up nobody, and takes no more files than there are."""

from __future__ import annotations

import logging
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from hall import Hall
from opendrs.controller.requests import door, seldom, server
from opendrs.controller.requests.door import Door, DoorLoop
from opendrs.controller.requests.seldom import Seldom
from opendrs.controller.requests.server import Server
from opendrs.controller.requests.wire import HEALTH, REQUESTS
from vouching import Vouched

MOST, MOST_OF_ONE = 6, 4


@pytest.fixture
def port(
    hall: Hall, vouched: Vouched, monkeypatch: pytest.MonkeyPatch
) -> Iterator[int]:
    """Return the port of an interface of which few may want something at once."""
    monkeypatch.setattr(door, "MOST_OPEN", MOST)
    monkeypatch.setattr(door, "MOST_OF_ONE", MOST_OF_ONE)
    with Server(vouched.settings, hall.desk) as serving:
        yield serving.address[1]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as found:
        yield found


def knock(port: int, source: str, stack: ExitStack) -> socket.socket:
    """Connect from the address *source*, and say nothing."""
    came = socket.create_connection(
        ("127.0.0.1", port), timeout=20, source_address=(source, 0)
    )
    return stack.enter_context(came)


def is_closed(came: socket.socket) -> bool:
    try:
        return came.recv(1) == b""
    except ConnectionError:
        return True


def is_open(came: socket.socket) -> bool:
    came.settimeout(0.2)
    try:
        came.recv(1)
    except TimeoutError:
        return True
    return False


def test_who_has_too_many_connections_gets_no_more_and_others_do(
    port: int, vouched: Vouched, stack: ExitStack, caplog: pytest.LogCaptureFixture
) -> None:
    crowd = [knock(port, "127.0.0.2", stack) for _ in range(MOST_OF_ONE + 2)]

    with vouched.client(port) as client:
        assert client.get(HEALTH).status_code == 200
    assert [is_closed(each) for each in crowd[MOST_OF_ONE:]] == [True, True]
    assert is_open(crowd[0])
    told = [
        r for r in caplog.records if getattr(r, "event", "") == "connection-refused"
    ]
    assert [r.getMessage() for r in told] == [
        "127.0.0.2 has 4 connections open, of 4: no more are let in"
    ]


def test_there_are_only_so_many_in_all(port: int, stack: ExitStack) -> None:
    crowd = [knock(port, f"127.0.0.{2 + number}", stack) for number in range(MOST)]

    late = knock(port, "127.0.0.99", stack)

    assert is_closed(late)
    assert is_open(crowd[0])


def test_who_leaves_makes_room(port: int, vouched: Vouched, stack: ExitStack) -> None:
    crowd = [knock(port, "127.0.0.2", stack) for _ in range(MOST_OF_ONE)]
    for each in crowd:
        each.close()

    for _ in range(MOST + 1):
        with vouched.client(port) as client:
            assert client.get(HEALTH).status_code == 200


def test_who_does_not_speak_tls_in_time_is_cut_off(
    hall: Hall, vouched: Vouched, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "LONGEST_HANDSHAKE", 0.5)
    with Server(vouched.settings, hall.desk) as serving:
        silent = knock(serving.address[1], "127.0.0.2", stack)

        assert is_closed(silent)


def test_who_speaks_tls_and_says_nothing_is_cut_off(
    hall: Hall, vouched: Vouched, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "LONGEST_SILENCE", 0.5)
    with Server(vouched.settings, hall.desk) as serving:
        raw = knock(serving.address[1], "127.0.0.2", stack)
        spoken = vouched.trust.wrap_socket(raw, server_hostname="127.0.0.1")

        with spoken:
            assert is_closed(spoken)


def test_fewer_are_let_in_where_few_files_may_be_open(
    monkeypatch: pytest.MonkeyPatch, stack: ExitStack
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (8, 8))
    small = stack.enter_context(Door(socket.create_server(("127.0.0.1", 0))))
    port = small.getsockname()[1]
    for _ in range(3):
        knock(port, "127.0.0.2", stack)

    for _ in range(2):
        stack.enter_context(small.accept()[0])
    with pytest.raises(ConnectionAbortedError):
        small.accept()


def test_all_of_one_network_of_ipv6_count_as_one() -> None:
    sources = [
        "192.0.2.1",
        "192.0.2.2",
        "2001:db8::1",
        "2001:db8::ffff:1",
        "fe80::1%lo",
    ]

    assert [door._source(each) for each in sources] == [  # noqa: SLF001
        "192.0.2.1",
        "192.0.2.2",
        "2001:db8::/64",
        "2001:db8::/64",
        "fe80::/64",
    ]


def test_who_shows_no_token_again_and_again_is_told_once(
    port: int, vouched: Vouched, caplog: pytest.LogCaptureFixture
) -> None:
    with vouched.client(port, "unknown") as client:
        answers = {client.get(REQUESTS).status_code for _ in range(5)}

    assert answers == {401}
    assert caplog.messages.count("127.0.0.1 showed no token that is known") == 1


def test_who_speaks_no_http_again_and_again_is_told_once_at_most(
    port: int, vouched: Vouched, stack: ExitStack, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        raw = knock(port, "127.0.0.2", stack)
        with vouched.trust.wrap_socket(raw, server_hostname="127.0.0.1") as spoken:
            spoken.sendall(b"no HTTP\r\n\r\n")
            assert spoken.recv(100).startswith(b"HTTP/1.1 400")

    # Another interface of this process may have told it just before.
    assert caplog.messages.count("Invalid HTTP request received.") <= 1


def test_what_is_told_seldom_is_told_again_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(seldom, "MOST", 3)
    one = Seldom()
    at_once = [one.may(what) for what in ("a", "a", "b", "b", "c", "d")]
    monkeypatch.setattr(seldom, "PAUSE", 0.0)

    assert at_once == [True, False, True, False, True, False]
    assert [one.may("a"), one.may("d")] == [True, True]


def test_what_goes_wrong_again_and_again_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.ERROR, "asyncio")
    loop = DoorLoop()
    for _ in range(1000):
        loop.call_exception_handler({"message": "no file is left"})
    loop.close()

    assert caplog.text.count("no file is left") == 1
