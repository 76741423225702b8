"""The interface over TLS: who is let in, and what is answered."""

from __future__ import annotations

import gzip
import json
import logging
import socket
import ssl
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx2
import pytest

from opendrs.api import body_limits, rate_limits, server
from opendrs.api.connections import MAX_CONNECTIONS_PER_NODE
from opendrs.api.problems import MEDIA_TYPE, STATUS, TITLES
from opendrs.api.schema.common import ApiProblem
from opendrs.api.server import ApiServer
from opendrs.api.tokens import hash_token
from opendrs.cli.logs import log_to_stderr
from opendrs.config.api_schema import (
    HEALTH_PATH,
    MAX_BODY_BYTES,
    OPENAPI_PATH,
    REQUEST_PATH,
    request_path,
)
from opendrs.errors import ConfigurationError, OpenDRSError
from opendrs.model import GuestId, LoadState, NodeId
from opendrs.policies.consolidation import Consolidate
from support.agent_cluster import AgentCluster, put_request
from support.builders import cluster
from support.certificates import CertificateFiles, node_token
from support.simulated_cluster import SHORT_LIMITS

SOME_ID = "5c6f6ad0-6f0f-4f0e-9d5b-6a4c3d1d8a11"
COMMITTED = Path(__file__).parents[3] / "docs/reference/openapi-agents.json"
SOME_PATH = request_path(SOME_ID)


@pytest.fixture
def h1(port: int, vouched: CertificateFiles) -> Iterator[httpx2.Client]:
    with vouched.client(port, node_token("h1")) as client:
        yield client


@pytest.fixture
def anonymous(port: int, vouched: CertificateFiles) -> Iterator[httpx2.Client]:
    with vouched.client(port) as client:
        yield client


def test_submitted_request_status_can_be_queried(
    agent_cluster: AgentCluster, h1: httpx2.Client
) -> None:
    request = agent_cluster.build_request("h1", LoadState.OVERLOADED, ["vm1"])

    taken = put_request(h1, request)
    again = put_request(h1, request)
    followed = h1.get(request_path(request.id))

    assert taken.status_code == 202
    assert taken.json() == {
        "id": str(request.id),
        "state": "queued",
        "detail": "",
        "steps": [],
    }
    assert (again.status_code, followed.status_code) == (200, 200)
    assert again.json() == followed.json() == taken.json()


def test_id_of_body_other_than_that_of_path_is_invalid(
    agent_cluster: AgentCluster, h1: httpx2.Client
) -> None:
    request = agent_cluster.build_request("h1")

    answer = h1.put(SOME_PATH, content=request.model_dump_json())

    assert (answer.status_code, answer.json()["code"]) == (422, ApiProblem.BODY_INVALID)
    assert [each["pointer"] for each in answer.json()["errors"]] == ["/id"]
    assert agent_cluster.request_store.latest_per_node() == ()


def test_samples_are_returned_to_any_node(
    agent_cluster: AgentCluster, port: int, vouched: CertificateFiles
) -> None:
    agent_cluster.send(agent_cluster.build_request("h1", guests={"a/b": [0.5, 1.0]}))
    agent_cluster.run_cycle()

    with vouched.client(port, node_token("h2")) as client:
        found = client.get("/api/v1/guests/a%2Fb/samples")
        unknown = client.get("/api/v1/guests/nobody/samples")

    assert found.json() == {
        "interval": 300.0,
        "taken_at": "2026-11-21T12:00:00Z",
        "samples": [0.5, 1.0],
    }
    assert unknown.status_code == 404


def test_health_and_openapi_need_no_token(anonymous: httpx2.Client) -> None:
    assert anonymous.get(HEALTH_PATH).json()["status"] == "ok"
    assert anonymous.get(OPENAPI_PATH).json() == json.loads(COMMITTED.read_text())


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer wrong",
        f"Basic {node_token('h1')}",
        f"Bearer {hash_token(node_token('h1'))}",
        f"Bearer {node_token('h1')} {node_token('h1')}",
    ],
)
@pytest.mark.parametrize("path", [SOME_PATH, "/api/v1/elsewhere"])
def test_request_without_token_is_unauthorized(
    agent_cluster: AgentCluster, anonymous: httpx2.Client, header: str | None, path: str
) -> None:
    headers = {} if header is None else {"Authorization": header}
    body = agent_cluster.build_request("h1").model_dump_json()

    answer = anonymous.put(path, content=body, headers=headers)

    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == 'Bearer realm="opendrs"'
    assert (
        answer.json()["detail"] == "token missing or unknown; send the token of a node"
    )
    assert agent_cluster.request_store.latest_per_node() == ()


def test_token_of_other_node_is_forbidden(
    agent_cluster: AgentCluster, port: int, vouched: CertificateFiles
) -> None:
    with vouched.client(port, node_token("h2")) as client:
        assert put_request(client, agent_cluster.build_request("h1")).status_code == 403


def test_authorization_scheme_ignores_case(
    agent_cluster: AgentCluster, anonymous: httpx2.Client
) -> None:
    headers = {"Authorization": f"bearer  {node_token('h1')}"}
    request = agent_cluster.build_request("h1")

    answer = anonymous.put(
        request_path(request.id), content=request.model_dump_json(), headers=headers
    )

    assert answer.status_code == 202


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"load_state": "fine"}, "load_state: Input should be"),
        ({"taken_at": "yesterday"}, "taken_at: "),
        ({"taken_at": "2026-11-21T12:00:00"}, "taken_at: "),
        ({"taken_at": 1763726400}, "taken_at: "),
        ({"sequence": -1}, "sequence: "),
        ({"sequence": 1.5}, "sequence: "),
        ({"sequence": 2**63}, "sequence: "),
        ({"id": "17"}, "id: "),
        ({"node": ""}, "node: "),
        ({"node": "n" * 256}, "node: "),
        ({"evict": ["vm1"], "load_state": "normal"}, "expected no guests to evict"),
        ({"evict": ["vm1", "vm1"]}, "evict: expected each name only once"),
        ({"samples": {}}, "samples.interval: "),
        (
            {"samples": {"interval": 0, "guests": {}, "host_overhead": []}},
            "samples.interval: ",
        ),
        (
            {"samples": {"interval": 1, "guests": {"v": [-1]}, "host_overhead": []}},
            "guests.v[0]",
        ),
        (
            {"samples": {"interval": 1, "guests": {}, "host_overhead": [0.0] * 1001}},
            "host_overhead: ",
        ),
        ({"further": 1}, "further: Extra inputs are not permitted"),
    ],
)
def test_invalid_request_detail_names_problem(
    agent_cluster: AgentCluster,
    h1: httpx2.Client,
    changes: dict[str, object],
    problem: str,
) -> None:
    request = agent_cluster.build_request("h1", LoadState.OVERLOADED).model_dump(
        mode="json"
    )

    answer = h1.put(request_path(request["id"]), json={**request, **changes})

    assert answer.status_code == 422
    assert problem in answer.json()["detail"]
    assert agent_cluster.request_store.latest_per_node() == ()


@pytest.mark.parametrize(
    "body", [b"", b"{", b"null", b"[]", b"\xff", b"[" * 100_000, b'{"id": NaN}']
)
def test_invalid_body_is_unprocessable(h1: httpx2.Client, body: bytes) -> None:
    assert h1.put(SOME_PATH, content=body).status_code == 422


def test_repeated_invalid_requests_are_logged_once(
    h1: httpx2.Client, caplog: pytest.LogCaptureFixture
) -> None:
    # Another test of the same interface may have brought it about just before.
    answers = {h1.put(SOME_PATH, content=b"{").status_code for _ in range(5)}

    assert answers == {422}
    assert caplog.messages.count("a request of h1 was answered with 422") <= 1


def test_many_problems_are_truncated(h1: httpx2.Client) -> None:
    fields = {f"further{number}": 1 for number in range(100)}

    detail = h1.put(SOME_PATH, json=fields).json()["detail"]

    assert detail.endswith("more")
    assert len(detail) < 1000


def test_tokens_are_never_shown(
    agent_cluster: AgentCluster, h1: httpx2.Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    token = node_token("h1")
    request = agent_cluster.build_request("h1").model_dump(mode="json")
    answers = [
        h1.put(request_path(request["id"]), json={**request, "node": token}),
        h1.put(request_path(request["id"]), json={**request, "id": token}),
        h1.put(request_path(request["id"]), json={**request, token: token}),
        h1.put(request_path(request["id"]), json=request),
        h1.get(request_path(token)),
        h1.get(SOME_PATH, headers={"Authorization": f"Bearer {token}!"}),
    ]

    assert [answer.status_code for answer in answers] == [422, 422, 422, 202, 422, 401]
    shown = "".join(answer.text for answer in answers)
    logged = "".join(
        f"{vars(record)}"
        for record in caplog.records
        if not record.name.startswith("http")  # the client's own
    )
    for text in (shown, logged):
        assert token not in text
        assert hash_token(token) not in text


@pytest.mark.parametrize(
    "name",
    [
        node_token("h1"),
        f"vm {node_token('h1')} 1",
        f"x{node_token('h1')}x",
        node_token("h2"),
    ],
)
@pytest.mark.parametrize("field", ["node", "evict", "samples.guests"])
def test_a_name_with_a_token_is_neither_recorded_nor_logged_nor_answered(
    agent_cluster: AgentCluster,
    h1: httpx2.Client,
    caplog: pytest.LogCaptureFixture,
    field: str,
    name: str,
) -> None:
    caplog.set_level(logging.DEBUG)
    request = agent_cluster.build_request("h1", LoadState.OVERLOADED).model_dump(
        mode="json"
    )
    samples = {**request["samples"], "guests": {name: [0.1]}}
    changes: dict[str, dict[str, object]] = {
        "node": {"node": name},
        "evict": {"evict": ["vm1", name]},
        "samples.guests": {"samples": samples},
    }

    answer = h1.put(request_path(request["id"]), json={**request, **changes[field]})
    agent_cluster.run_cycle()

    assert answer.status_code == 422
    assert answer.json()["detail"] == (
        f"{field}: a name contains a token; replace this token"
    )
    assert agent_cluster.request_store.latest_per_node() == ()
    logged = [record for record in caplog.records if record.name == "opendrs"]
    assert not any("the-token-of" in f"{vars(record)}" for record in logged)


@pytest.mark.parametrize("form", ["text", "json"])
def test_guest_named_like_token_is_masked_in_log(
    tmp_path: Path,
    vouched: CertificateFiles,
    capsys: pytest.CaptureFixture[str],
    form: str,
) -> None:
    name = node_token("h3")
    origin = cluster({"h1": 0.95, "h2": 0.1}, {name: ("h1", 0.5), "vm2": ("h1", 0.45)})
    with (
        AgentCluster(
            tmp_path, origin, Consolidate(limits=SHORT_LIMITS)
        ) as agent_cluster,
        log_to_stderr(form, "debug"),
        ApiServer(vouched.settings, agent_cluster.service),
    ):
        agent_cluster.submit("h2")
        agent_cluster.submit("h1", LoadState.OVERLOADED, [name])
        agent_cluster.run_cycle()

    text = capsys.readouterr().err
    assert "evict" in text
    assert "[a secret]" in text
    assert name not in text


def test_misplaced_token_is_masked_in_response(
    agent_cluster: AgentCluster, h1: httpx2.Client
) -> None:
    token = node_token("h1")
    request = agent_cluster.build_request("h1").model_dump(mode="json")
    samples = {"interval": 300, "host_overhead": [], "guests": {token: ["much"]}}

    cut = "x" * 35 + " "  # only a part of the token would be shown after it
    answers = [
        h1.put(request_path(request["id"]), json={**request, cut + token: 1}),
        h1.put(request_path(request["id"]), json={**request, "samples": samples}),
    ]

    details = [answer.json()["detail"] for answer in answers]
    assert answers[1].json()["errors"][0]["pointer"] == "/samples/guests/[a secret]"
    assert all(token not in answer.text for answer in answers)
    assert "Extra inputs" in details[0]
    assert "the-t" not in details[0]
    assert details[1].startswith('samples.guests."[a secret]": ')


def test_oversized_body_is_not_read(h1: httpx2.Client) -> None:
    declared = h1.put(SOME_PATH, content=b" " * (MAX_BODY_BYTES + 1))
    chunks = (b" " * 65_536 for _ in range(MAX_BODY_BYTES // 65_536 + 1))
    undeclared = h1.put(SOME_PATH, content=chunks)

    assert (declared.status_code, undeclared.status_code) == (413, 413)
    assert (
        declared.json()["detail"]
        == f"request too large: at most {MAX_BODY_BYTES} bytes"
    )


@contextmanager
def at_most(mib: float) -> Iterator[None]:
    """Check how much memory is allocated at once by this process."""
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak / 2**20 < mib


def test_many_invalid_fields_use_little_memory(h1: httpx2.Client) -> None:
    fields = dict.fromkeys(map(str, range(350_000)), 0)
    body = json.dumps(fields, separators=(",", ":"))
    assert 0.8 * MAX_BODY_BYTES < len(body) < MAX_BODY_BYTES

    with at_most(50):
        answer = h1.put(SOME_PATH, content=body)

    assert answer.status_code == 422


def test_largest_request_uses_little_memory(
    agent_cluster: AgentCluster, h1: httpx2.Client
) -> None:
    guests = {f"vm{number}": [12.34567] * 999 for number in range(400)}
    request = agent_cluster.build_request("h1", guests=guests)
    body = request.model_dump_json()
    assert 0.8 * MAX_BODY_BYTES < len(body) < MAX_BODY_BYTES

    with at_most(50):
        answer = h1.put(request_path(request.id), content=body)

    assert answer.status_code == 202


def test_largest_request_is_accepted(
    agent_cluster: AgentCluster, h1: httpx2.Client
) -> None:
    guests = {f"guest-{number:05}": [1.25] * 30 for number in range(10_000)}

    request = agent_cluster.build_request("h1", guests=guests)
    body = request.model_dump_json()
    answer = h1.put(request_path(request.id), content=body)

    assert len(body) < MAX_BODY_BYTES
    assert answer.status_code == 202
    places = dict.fromkeys(map(GuestId, guests), NodeId("h1"))
    agent_cluster.request_store.record_placements(
        places, agent_cluster.simulation.clock.now()
    )
    assert (
        len(agent_cluster.request_store.histories(agent_cluster.simulation.clock.now()))
        == 10_000
    )


def test_store_failure_is_service_unavailable(
    agent_cluster: AgentCluster, h1: httpx2.Client, caplog: pytest.LogCaptureFixture
) -> None:
    agent_cluster.store.__exit__(None, None, None)

    answer = put_request(h1, agent_cluster.build_request("h1"))

    agent_cluster.store.__enter__()
    assert answer.status_code == 503
    assert answer.json()["code"] == ApiProblem.STORE_UNAVAILABLE
    assert answer.headers["Retry-After"] == "1"
    assert "not open" in caplog.text
    assert put_request(h1, agent_cluster.build_request("h1")).status_code == 202


def wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < until, "it did not come true"
        threading.Event().wait(0.01)


def test_internal_error_is_answered_and_logged(
    agent_cluster: AgentCluster,
    h1: httpx2.Client,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(agent_cluster.service, "submit", None)  # which cannot be called

    answer = put_request(h1, agent_cluster.build_request("h1"))

    assert answer.status_code == 500
    assert answer.json()["code"] == ApiProblem.INTERNAL_ERROR
    # It is logged after it is answered, which may take a moment.
    wait_until(lambda: "Exception in ASGI application" in caplog.text)


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/", ApiProblem.NOT_FOUND),
        ("GET", "/api/v1/requests", ApiProblem.NOT_FOUND),
        ("PUT", "/v1/requests", ApiProblem.NOT_FOUND),
        ("DELETE", SOME_PATH, ApiProblem.METHOD_NOT_ALLOWED),
        ("GET", request_path("17"), ApiProblem.BODY_INVALID),
        ("GET", SOME_PATH, ApiProblem.NOT_FOUND),
        ("GET", "/api/v1/guests//samples", ApiProblem.BODY_INVALID),
        ("GET", "/api/v1/guests/none/samples", ApiProblem.NOT_FOUND),
        ("PUT", request_path(""), ApiProblem.NOT_FOUND),
        ("GET", "/docs", ApiProblem.NOT_FOUND),
    ],
)
def test_unknown_path_answers_problem_details(
    h1: httpx2.Client, method: str, path: str, code: ApiProblem
) -> None:
    answer = h1.request(method, path)

    assert answer.status_code == STATUS[code]
    assert answer.headers["Content-Type"] == MEDIA_TYPE
    problem = answer.json()
    del problem["detail"], problem["errors"]
    assert problem == {
        "type": f"/problems/{code}",
        "title": TITLES[code],
        "status": STATUS[code],
        "code": code,
    }


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", SOME_PATH, "GET, PUT"),
        ("POST", HEALTH_PATH, "GET"),
        ("DELETE", SOME_PATH, "GET, PUT"),
        ("PATCH", "/api/v1/guests/vm1/samples", "GET"),
        ("PATCH", "/api/v1/guests/a%2Fb/samples", "GET"),
    ],
)
def test_unsupported_method_answers_allowed_methods(
    h1: httpx2.Client, method: str, path: str, allowed: str
) -> None:
    answer = h1.request(method, path)

    assert (answer.status_code, answer.headers["Allow"]) == (405, allowed)
    assert answer.json()["code"] == ApiProblem.METHOD_NOT_ALLOWED


def test_invalid_http_answers_problem_details(
    port: int, vouched: CertificateFiles
) -> None:
    with speak(port, b"no HTTP\r\n\r\n", vouched.ssl_context) as peer:
        answer = to_its_end(peer)

    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    assert MEDIA_TYPE.encode() in head
    problem = json.loads(body)
    assert problem["code"] == ApiProblem.REQUEST_MALFORMED
    assert problem["detail"] == "Invalid HTTP request received."


def test_invalid_chunk_ends_request_without_traceback(
    agent_cluster: AgentCluster,
    port: int,
    vouched: CertificateFiles,
    caplog: pytest.LogCaptureFixture,
) -> None:
    head = (
        f"PUT {SOME_PATH} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
        f"Authorization: Bearer {node_token('h1')}\r\n\r\n"
    ).encode()
    with speak(port, head, vouched.ssl_context) as peer:
        peer.sendall(b"not a size\r\n")
        answer = to_its_end(peer)

    assert answer.startswith(b"HTTP/1.1 400")
    with vouched.client(port, node_token("h1")) as client:
        assert put_request(client, agent_cluster.build_request("h1")).status_code == 202
    assert "Traceback" not in caplog.text


def test_many_concurrent_agents_are_served(
    agent_cluster: AgentCluster, port: int, vouched: CertificateFiles
) -> None:
    def say(number: int) -> int:
        request = agent_cluster.build_request("h1", sequence=number)
        with vouched.client(port, node_token("h1")) as client:
            # One body of a node is taken at a time; the others come again.
            while (status := put_request(client, request).status_code) == 429:
                pass
        return status

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(say, range(40)))

    accepted = answers.count(202)
    assert set(answers) <= {202, 412}
    assert accepted >= 1
    assert agent_cluster.request_store.latest_per_node()[0].sequence == 39


def speak(port: int, text: bytes, trust: ssl.SSLContext) -> ssl.SSLSocket:
    raw = socket.create_connection(("127.0.0.1", port), timeout=120)
    spoken = trust.wrap_socket(raw, server_hostname="127.0.0.1")
    spoken.sendall(text)
    return spoken


def test_slow_peer_is_closed_without_delaying_others(
    agent_cluster: AgentCluster,
    vouched: CertificateFiles,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(body_limits, "BODY_TIMEOUT", 1.0)
    head = (
        f"PUT {SOME_PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n"
        f"Authorization: Bearer {node_token('h1')}\r\n\r\n"
    ).encode()
    with ApiServer(vouched.settings, agent_cluster.service) as serving:
        port = serving.address[1]
        slow = speak(port, head, vouched.ssl_context)

        with vouched.client(port, node_token("h2")) as client:
            request = agent_cluster.build_request("h2")
            # A busy machine may be as slow as the peer.
            wait_until(lambda: put_request(client, request).status_code in (200, 202))

        assert slow.recv(1000).startswith(b"HTTP/1.1 408")
        slow.close()


def test_connection_is_closed_after_its_time(
    agent_cluster: AgentCluster,
    vouched: CertificateFiles,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTION_TIME", 1.0)
    with ApiServer(vouched.settings, agent_cluster.service) as serving:
        silent = speak(serving.address[1], b"", vouched.ssl_context)

        assert is_cut_off(silent)
        silent.close()


def to_its_end(spoken: ssl.SSLSocket) -> bytes:
    """Return what comes until the other side ends the connection."""
    answer = b""
    with suppress(ConnectionError, ssl.SSLError):
        while chunk := spoken.recv(1000):
            answer += chunk
    return answer


def is_cut_off(spoken: ssl.SSLSocket) -> bool:
    """Return whether the other side ends it rather than wait for ever."""
    try:
        return not spoken.recv(1)
    except (ConnectionError, ssl.SSLError):
        return True


def test_a_node_has_one_body_at_a_time_and_others_are_not_affected(
    agent_cluster: AgentCluster, port: int, vouched: CertificateFiles
) -> None:
    head = (
        f"PUT {SOME_PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n"
        f"Authorization: Bearer {node_token('h1')}\r\n\r\n"
    ).encode()
    with speak(port, head, vouched.ssl_context) as first:
        # Its second request is rejected as soon as the first one has arrived.
        with vouched.client(port, node_token("h1")) as client:
            wait_until(
                lambda: (
                    put_request(client, agent_cluster.build_request("h1")).status_code
                    == 429
                )
            )
            rejected = put_request(client, agent_cluster.build_request("h1"))
        with vouched.client(port, node_token("h2")) as client:
            other = put_request(client, agent_cluster.build_request("h2"))
        first.sendall(b"0123456789")
        assert first.recv(1000).startswith(b"HTTP/1.1 422")

    assert (rejected.status_code, other.status_code) == (429, 202)
    assert rejected.headers["Retry-After"] == "1"
    assert rejected.json()["code"] == ApiProblem.NODE_BUSY
    with vouched.client(port, node_token("h1")) as client:
        assert put_request(client, agent_cluster.build_request("h1")).status_code == 202


def test_large_bodies_over_limit_are_busy_and_small_accepted(
    agent_cluster: AgentCluster,
    port: int,
    vouched: CertificateFiles,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(body_limits, "MAX_TOTAL_BYTES", 0)
    large = {f"vm{number}": [1.0] * 1000 for number in range(100)}

    with vouched.client(port, node_token("h1")) as client:
        rejected = put_request(client, agent_cluster.build_request("h1", guests=large))
        small = put_request(client, agent_cluster.build_request("h1"))

    assert (rejected.status_code, small.status_code) == (503, 202)
    assert rejected.headers["Retry-After"] == "1"


def test_node_with_many_requests_is_busy(
    agent_cluster: AgentCluster, vouched: CertificateFiles
) -> None:
    head = (
        f"PUT {SOME_PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n"
        f"Authorization: Bearer {node_token('h1')}\r\n\r\n"
    ).encode()
    with (
        ApiServer(vouched.settings, agent_cluster.service) as serving,
        ExitStack() as stack,
    ):
        port = serving.address[1]
        limited_socket = serving._socket.connections  # noqa: SLF001 - no request shows it
        for number in range(MAX_CONNECTIONS_PER_NODE):
            client = ("192.0.2.1", number)
            ours, _ = map(stack.enter_context, socket.socketpair())
            assert limited_socket.admit(client, ours)
            assert limited_socket.begin_request(client, NodeId("h1"))

        with speak(port, head, vouched.ssl_context) as one_more:
            answer = to_its_end(one_more)

    assert answer.startswith(b"HTTP/1.1 429")
    assert b"retry-after: 1" in answer.lower()


def test_requests_of_a_node_above_the_rate_are_limited_and_others_are_not(
    agent_cluster: AgentCluster,
    vouched: CertificateFiles,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rate_limits, "RATE", 0.001)
    monkeypatch.setattr(rate_limits, "BURST", 2.0)
    with ApiServer(vouched.settings, agent_cluster.service) as serving:
        port = serving.address[1]
        with vouched.client(port, node_token("h1")) as client:
            statuses = [client.get(SOME_PATH).status_code for _ in range(2)]
            limited = put_request(client, agent_cluster.build_request("h1"))
        with vouched.client(port, node_token("h2")) as client:
            other = put_request(client, agent_cluster.build_request("h2"))

    assert statuses == [404, 404]
    assert limited.status_code == 429
    assert limited.json()["code"] == ApiProblem.RATE_LIMITED
    assert 900 < int(limited.headers["Retry-After"]) <= 1000
    assert other.status_code == 202


def test_responses_have_the_headers_of_the_http_api(h1: httpx2.Client) -> None:
    for answer in (h1.get(HEALTH_PATH), h1.get(SOME_PATH), h1.get("/")):
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "Strict-Transport-Security" in answer.headers
    assert h1.get(SOME_PATH).headers["Cache-Control"] == "no-store"


def test_compressed_body_is_rejected(
    agent_cluster: AgentCluster, h1: httpx2.Client
) -> None:
    packed = gzip.compress(agent_cluster.build_request("h1").model_dump_json().encode())

    answer = h1.put(SOME_PATH, content=packed, headers={"Content-Encoding": "gzip"})

    assert answer.status_code == 415
    assert answer.headers["Accept-Encoding"] == "identity"
    assert "send plain JSON" in answer.json()["detail"]
    assert agent_cluster.request_store.latest_per_node() == ()


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ("", 401),
        ("Authorization: Bearer unknown\r\n", 401),
        ("Authorization: Bearer {token}\r\nContent-Encoding: br\r\n", 415),
        ("Authorization: Bearer {token}\r\nContent-Length: 99999999\r\n", 413),
        ("Authorization: Bearer {token}\r\nContent-Length: 10\r\n", 408),
    ],
)
def test_response_to_unread_request_closes_connection(
    port: int,
    vouched: CertificateFiles,
    monkeypatch: pytest.MonkeyPatch,
    more: str,
    status: int,
) -> None:
    monkeypatch.setattr(body_limits, "BODY_TIMEOUT", 0.5)
    length = "" if "Length" in more else "Content-Length: 1000000\r\n"
    head = f"PUT {SOME_PATH} HTTP/1.1\r\nHost: x\r\n{length}{more}\r\n"

    with speak(
        port, head.format(token=node_token("h1")).encode(), vouched.ssl_context
    ) as peer:
        answer = to_its_end(peer)

    assert answer.startswith(f"HTTP/1.1 {status}".encode())
    assert b"connection: close" in answer.lower()


@pytest.mark.parametrize(
    ("path", "status"), [("/api/v1/elsewhere", 404), (request_path("17"), 422)]
)
def test_unread_body_for_an_invalid_path_closes_connection(
    port: int, vouched: CertificateFiles, path: str, status: int
) -> None:
    head = (
        f"PUT {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n"
        f"Authorization: Bearer {node_token('h1')}\r\n\r\n"
    )

    with speak(port, head.encode(), vouched.ssl_context) as peer:
        answer = to_its_end(peer)

    assert answer.startswith(f"HTTP/1.1 {status}".encode())
    assert b"connection: close" in answer.lower()


@pytest.mark.parametrize("path", [HEALTH_PATH, OPENAPI_PATH])
def test_anonymous_response_closes_connection(
    anonymous: httpx2.Client, h1: httpx2.Client, path: str
) -> None:
    assert anonymous.get(path).headers["Connection"] == "close"
    assert "Connection" not in h1.get(path).headers


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_old_tls_is_rejected(
    port: int, vouched: CertificateFiles, version: ssl.TLSVersion
) -> None:
    trust = vouched.ssl_context
    trust.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    trust.maximum_version = version
    trust.set_ciphers("ALL:@SECLEVEL=0")

    with pytest.raises(OSError, match=r"(?i)version|protocol|EOF|alert"):
        speak(port, b"", trust)


def test_plain_http_is_rejected(port: int) -> None:
    with pytest.raises(httpx2.HTTPError):
        httpx2.get(f"http://127.0.0.1:{port}{HEALTH_PATH}", trust_env=False)


def test_listen_address_in_use_is_configuration_error(
    agent_cluster: AgentCluster, port: int, vouched: CertificateFiles
) -> None:
    taken = f"127.0.0.1:{port}"
    settings = vouched.settings
    object.__setattr__(settings, "listen", taken)

    with pytest.raises(ConfigurationError) as raised:
        ApiServer(settings, agent_cluster.service)

    assert str(raised.value) == (
        f"api.listen: cannot listen on {taken}: address in use by another process"
    )


@pytest.mark.parametrize("listen", ["203.0.113.1:0", "no-such-host.invalid:0"])
def test_listen_foreign_address_is_configuration_error(
    agent_cluster: AgentCluster, vouched: CertificateFiles, listen: str
) -> None:
    settings = vouched.settings
    object.__setattr__(settings, "listen", listen)

    with pytest.raises(ConfigurationError, match="cannot listen on"):
        ApiServer(settings, agent_cluster.service)


def test_ended_server_thread_is_reported(
    agent_cluster: AgentCluster, vouched: CertificateFiles
) -> None:
    with ApiServer(vouched.settings, agent_cluster.service) as serving:
        serving.require_alive()

    with pytest.raises(OpenDRSError, match="server stopped"):
        serving.require_alive()


def test_server_stops_with_open_connections(
    agent_cluster: AgentCluster, vouched: CertificateFiles
) -> None:
    with ApiServer(vouched.settings, agent_cluster.service) as serving:
        idle = speak(serving.address[1], b"", vouched.ssl_context)

    assert is_cut_off(idle)
    with pytest.raises(OpenDRSError):
        serving.require_alive()
    idle.close()


def test_every_answer_is_described(anonymous: httpx2.Client) -> None:
    described = anonymous.get(OPENAPI_PATH).json()["paths"]

    answers = described[REQUEST_PATH]["put"]["responses"]
    assert set(answers) == {
        "200", "202", "400", "401", "403", "408", "409", "412", "413", "415", "422",
        "429", "500", "503",
    }  # fmt: skip
    examples = json.dumps(answers)
    assert "the last accepted of h1" in examples


def test_unusable_certificates_are_configuration_errors(
    agent_cluster: AgentCluster, vouched: CertificateFiles, tmp_path: Path
) -> None:
    settings = vouched.settings
    garbage = tmp_path / "garbage.pem"
    garbage.write_text("nothing of that kind")
    other = CertificateFiles(tmp_path).settings
    logged = []
    for changes in (
        {"certificate": tmp_path / "absent.pem"},
        {"key": tmp_path},
        {"certificate": garbage},
        {"key": garbage},
        {"key": other.key},
        {"tokens": tmp_path / "absent.toml"},
    ):
        changed = vouched.settings
        for name, value in changes.items():
            object.__setattr__(changed, name, value)
        with pytest.raises(ConfigurationError) as raised:
            ApiServer(changed, agent_cluster.service)
        logged.append(str(raised.value).replace(str(tmp_path), "."))

    both = "api.certificate, api.key: cannot use "
    no_match = "the key does not belong to the certificate"
    no_pem = "expected a certificate and its private key in PEM"
    assert logged == [
        "api.certificate: cannot read ./absent.pem: No such file or directory",
        "api.key: cannot read .: Is a directory",
        f"{both}./garbage.pem and {settings.key}: {no_pem}",
        f"{both}{settings.certificate} and ./garbage.pem: {no_pem}",
        f"{both}{settings.certificate} and ./controller.key: {no_match}",
        "api.tokens: cannot read ./absent.toml: No such file or directory",
    ]
