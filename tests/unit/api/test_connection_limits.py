"""Peers without a token delay no agent and exhaust no file descriptors."""

from __future__ import annotations

import logging
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from uuid import uuid4

import pytest

from opendrs.api import connection_limits, server
from opendrs.api.connection_limits import HandshakeTimeoutLoop
from opendrs.api.server import ApiServer
from opendrs.config.api_schema import request_path
from opendrs.controller import events
from opendrs.controller.events import LogRateLimiter
from support.agent_cluster import AgentCluster, put_request
from support.certificates import CertificateFiles, node_token

FILES = 64  # that the process may open
MOST = 16  # connections then: a quarter
HEAD = (
    f"PUT {request_path(uuid4())} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n"
).encode()
GET_HEALTH = b"GET /api/v1/health HTTP/1.1\r\nHost: x\r\n\r\n"
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
    agent_cluster: AgentCluster,
    vouched: CertificateFiles,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[int]:
    """Return the port of an interface to which few connections may be open."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (FILES, FILES))
    with ApiServer(vouched.settings, agent_cluster.service) as serving:
        yield serving.address[1]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as found:
        yield found


def knock(port: int, source: str, stack: ExitStack) -> socket.socket:
    """Connect from the address *source*, and say nothing."""
    came = socket.create_connection(
        ("127.0.0.1", port), timeout=120, source_address=(source, 0)
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
    port: int, vouched: CertificateFiles, what: str, source: str, stack: ExitStack
) -> socket.socket:
    """Open a connection from *source*, and keep it as long as the other side does."""
    in_tls, said = HELD[what]
    held = knock(port, source, stack)
    if in_tls:
        try:
            held = stack.enter_context(
                vouched.ssl_context.wrap_socket(held, server_hostname="127.0.0.1")
            )
        except OSError:  # it was closed, which the peer does not mind
            return held
    with suppress(OSError):
        held.sendall(said)
    return held


@pytest.mark.parametrize("addresses", [1, 4, 64])
@pytest.mark.parametrize("what", HELD)
def test_anonymous_peers_do_not_block_agents(  # noqa: PLR0913 - fixtures, and what varies
    *,
    agent_cluster: AgentCluster,
    port: int,
    vouched: CertificateFiles,
    stack: ExitStack,
    what: str,
    addresses: int,
) -> None:
    for number in range(max(2 * MOST, addresses)):
        hold(port, vouched, what, f"127.0.1.{number % addresses + 1}", stack)

    for _ in range(4):
        for node, source in (("h1", "127.0.0.2"), ("h2", "127.0.0.3")):
            with vouched.client(port, node_token(node), source) as client:
                request = agent_cluster.build_request(node)
                assert put_request(client, request).status_code == 202
        hold(port, vouched, what, f"127.0.1.{addresses}", stack)


def test_agent_at_busiest_address_is_served(
    agent_cluster: AgentCluster, port: int, vouched: CertificateFiles, stack: ExitStack
) -> None:
    for _ in range(2 * MOST):
        knock(port, "127.0.0.1", stack)

    with vouched.client(port, node_token("h1")) as client:
        request = agent_cluster.build_request("h1")
        assert put_request(client, request).status_code == 202


def test_authenticated_connection_is_kept(
    agent_cluster: AgentCluster, port: int, vouched: CertificateFiles, stack: ExitStack
) -> None:
    with vouched.client(port, node_token("h1"), "127.0.0.2") as client:
        request = agent_cluster.build_request("h1")
        put_request(client, request)
        stream = client.stream("GET", request_path(uuid4()))
        with stream as before:
            kept = before.extensions["network_stream"].get_extra_info("client_addr")
            before.read()
        for number in range(2 * MOST):
            knock(port, f"127.0.1.{number + 1}", stack)

        stream = client.stream("GET", request_path(uuid4()))
        with stream as after:
            now = after.extensions["network_stream"].get_extra_info("client_addr")

    assert now == kept


def test_oldest_anonymous_connection_is_dropped_and_logged(
    port: int, stack: ExitStack, caplog: pytest.LogCaptureFixture
) -> None:
    sample_cluster = [knock(port, "127.0.0.2", stack) for _ in range(MOST // 2 + 2)]

    assert [is_closed(each) for each in sample_cluster[:2]] == [True, True]
    assert is_open(sample_cluster[2])
    assert is_open(sample_cluster[-1])
    logged = [
        r for r in caplog.records if getattr(r, "event", "") == "connection-dropped"
    ]
    assert [r.getMessage() for r in logged] == [
        "127.0.0.2: too many connections without a token: 8 of 8; the oldest is closed"
    ]


def test_handshake_timeout_closes_connection(
    agent_cluster: AgentCluster,
    vouched: CertificateFiles,
    stack: ExitStack,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection_limits, "HANDSHAKE_TIMEOUT", 0.5)
    with ApiServer(vouched.settings, agent_cluster.service) as serving:
        silent = knock(serving.address[1], "127.0.0.2", stack)

        assert is_closed(silent)


def test_connection_without_request_is_closed(
    agent_cluster: AgentCluster,
    vouched: CertificateFiles,
    stack: ExitStack,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "FIRST_REQUEST_TIMEOUT", 0.5)
    with ApiServer(vouched.settings, agent_cluster.service) as serving:
        raw = knock(serving.address[1], "127.0.0.2", stack)
        spoken = vouched.ssl_context.wrap_socket(raw, server_hostname="127.0.0.1")

        with spoken:
            assert is_closed(spoken)


def test_repeated_unauthorized_requests_are_logged_once(
    port: int, vouched: CertificateFiles, caplog: pytest.LogCaptureFixture
) -> None:
    with vouched.client(port, "unknown") as client:
        answers = {client.get(request_path(uuid4())).status_code for _ in range(5)}

    assert answers == {401}
    assert caplog.messages.count("127.0.0.1: missing or unknown token") == 1


def test_repeated_invalid_http_is_logged_at_most_once(
    port: int,
    vouched: CertificateFiles,
    stack: ExitStack,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for _ in range(3):
        raw = knock(port, "127.0.0.2", stack)
        with vouched.ssl_context.wrap_socket(
            raw, server_hostname="127.0.0.1"
        ) as spoken:
            spoken.sendall(b"no HTTP\r\n\r\n")
            assert spoken.recv(100).startswith(b"HTTP/1.1 400")

    # Another interface of this process may have logged it just before.
    assert caplog.messages.count("Invalid HTTP request received.") <= 1


def test_rate_limited_message_is_logged_after_interval(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(events, "MAX_MESSAGES", 3)
    one = LogRateLimiter()
    at_once = [one.allows(what) for what in ("a", "a", "b", "b", "c", "d")]
    monkeypatch.setattr(events, "REPEAT_INTERVAL", 0.0)

    assert at_once == [True, False, True, False, True, False]
    assert [one.allows("a"), one.allows("d")] == [True, True]


def test_repeated_error_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.ERROR, "asyncio")
    loop = HandshakeTimeoutLoop()
    for _ in range(1000):
        loop.call_exception_handler({"message": "no file is left"})
    loop.close()

    assert caplog.text.count("no file is left") == 1
