"""Peers without a token hold up no agent, and take no more files than there are."""

from __future__ import annotations

import logging
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from uuid import uuid4

import pytest

from hall import Hall
from opendrs.controller.requests import door, seldom, server
from opendrs.controller.requests.door import DoorLoop
from opendrs.controller.requests.seldom import Seldom
from opendrs.controller.requests.server import Server
from opendrs.controller.requests.wire import REQUESTS
from vouching import Vouched, token_of

FILES = 64  # that the process may open
MOST = 16  # connections then: a quarter
HEAD = b"POST /v1/requests HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n"
GET_HEALTH = b"GET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n"
# What peers without a token send on a connection, in TLS if the first is true.
HELD = {
    "nothing": (False, b""),
    "a part of a handshake": (False, b"\x16\x03\x01\x01\x00\x01\x00\x00\xfc\x03\x03"),
    "no request": (True, b""),
    "a part of a head": (True, HEAD),
    "a part of a body": (True, HEAD + b"\r\n{"),
    "an unknown token": (True, HEAD + b"Authorization: Bearer unknown\r\n\r\n"),
    "a request that needs no token": (True, GET_HEALTH),
}


@pytest.fixture
def port(
    hall: Hall, vouched: Vouched, monkeypatch: pytest.MonkeyPatch
) -> Iterator[int]:
    """Return the port of an interface to which few connections may be open."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (FILES, FILES))
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


def hold(
    port: int, vouched: Vouched, what: str, source: str, stack: ExitStack
) -> socket.socket:
    """Open a connection from *source*, and keep it as long as the other side does."""
    in_tls, said = HELD[what]
    held = knock(port, source, stack)
    if in_tls:
        try:
            held = stack.enter_context(
                vouched.trust.wrap_socket(held, server_hostname="127.0.0.1")
            )
        except OSError:  # it was closed, which the peer does not mind
            return held
    with suppress(OSError):
        held.sendall(said)
    return held


@pytest.mark.parametrize("addresses", [1, 4, 64])
@pytest.mark.parametrize("what", HELD)
def test_peers_without_a_token_do_not_keep_agents_out(  # noqa: PLR0913 - fixtures, and what varies
    *,
    hall: Hall,
    port: int,
    vouched: Vouched,
    stack: ExitStack,
    what: str,
    addresses: int,
) -> None:
    for number in range(max(2 * MOST, addresses)):
        hold(port, vouched, what, f"127.0.1.{number % addresses + 1}", stack)

    for _ in range(4):
        for node, source in (("h1", "127.0.0.2"), ("h2", "127.0.0.3")):
            with vouched.client(port, token_of(node), source) as client:
                body = hall.request(node).model_dump_json()
                assert client.post(REQUESTS, content=body).status_code == 202
        hold(port, vouched, what, f"127.0.1.{addresses}", stack)


def test_an_agent_is_heard_from_an_address_that_has_most_connections(
    hall: Hall, port: int, vouched: Vouched, stack: ExitStack
) -> None:
    for _ in range(2 * MOST):
        knock(port, "127.0.0.1", stack)

    with vouched.client(port, token_of("h1")) as client:
        body = hall.request("h1").model_dump_json()
        assert client.post(REQUESTS, content=body).status_code == 202


def test_a_connection_with_a_token_stays_while_others_come(
    hall: Hall, port: int, vouched: Vouched, stack: ExitStack
) -> None:
    with vouched.client(port, token_of("h1"), "127.0.0.2") as client:
        body = hall.request("h1").model_dump_json()
        client.post(REQUESTS, content=body)
        stream = client.stream("GET", f"{REQUESTS}/{uuid4()}")
        with stream as before:
            kept = before.extensions["network_stream"].get_extra_info("client_addr")
            before.read()
        for number in range(2 * MOST):
            knock(port, f"127.0.1.{number + 1}", stack)

        stream = client.stream("GET", f"{REQUESTS}/{uuid4()}")
        with stream as after:
            now = after.extensions["network_stream"].get_extra_info("client_addr")

    assert now == kept


def test_the_oldest_connection_without_a_token_gives_way_and_that_is_logged(
    port: int, stack: ExitStack, caplog: pytest.LogCaptureFixture
) -> None:
    crowd = [knock(port, "127.0.0.2", stack) for _ in range(MOST // 2 + 2)]

    assert [is_closed(each) for each in crowd[:2]] == [True, True]
    assert is_open(crowd[2])
    assert is_open(crowd[-1])
    told = [
        r for r in caplog.records if getattr(r, "event", "") == "connection-dropped"
    ]
    assert [r.getMessage() for r in told] == [
        "127.0.0.2: has 8 of 8 connections without a token; the oldest is closed"
    ]


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
