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

import httpx
import pytest

from builders import cluster
from hall import Hall
from opendrs.cli.logs import logged
from opendrs.controller.requests import body_limits, gate, server
from opendrs.controller.requests.connections import MOST_OF_NODE
from opendrs.controller.requests.server import Server
from opendrs.controller.requests.tokens import hash_of
from opendrs.controller.requests.wire import (
    HEALTH,
    LARGEST_BODY,
    OPENAPI,
    REQUESTS,
    Request,
    Verdict,
)
from opendrs.errors import ConfigurationError, OpenDRSError
from opendrs.model import GuestId, NodeId
from opendrs.policies import Consolidate
from stage import HASTY
from vouching import Vouched, token_of

SOME_ID = "5c6f6ad0-6f0f-4f0e-9d5b-6a4c3d1d8a11"


@pytest.fixture
def h1(port: int, vouched: Vouched) -> Iterator[httpx.Client]:
    with vouched.client(port, token_of("h1")) as client:
        yield client


@pytest.fixture
def stranger(port: int, vouched: Vouched) -> Iterator[httpx.Client]:
    with vouched.client(port) as client:
        yield client


def post(client: httpx.Client, request: Request) -> httpx.Response:
    return client.post(REQUESTS, content=request.model_dump_json())


def test_a_request_is_taken_and_can_be_followed(hall: Hall, h1: httpx.Client) -> None:
    request = hall.request("h1", Verdict.OVERLOADED, ["vm1"])

    taken = post(h1, request)
    again = post(h1, request)
    followed = h1.get(f"{REQUESTS}/{request.id}")

    assert taken.status_code == 202
    assert taken.json() == {
        "id": str(request.id),
        "state": "queued",
        "detail": "",
        "steps": [],
    }
    assert (again.status_code, followed.status_code) == (200, 200)
    assert again.json() == followed.json() == taken.json()


def test_the_history_of_a_guest_is_given_to_any_node(
    hall: Hall, port: int, vouched: Vouched
) -> None:
    hall.send(hall.request("h1", guests={"a/b": [0.5, 1.0]}))
    hall.cycle()

    with vouched.client(port, token_of("h2")) as client:
        found = client.get("/v1/guests/a%2Fb/samples")
        unknown = client.get("/v1/guests/nobody/samples")

    assert found.json() == {
        "interval": 300.0,
        "taken_at": "2026-11-21T12:00:00Z",
        "samples": [0.5, 1.0],
    }
    assert unknown.status_code == 404


def test_health_and_description_need_no_token(stranger: httpx.Client) -> None:
    assert stranger.get(HEALTH).json() == {"status": "ok"}
    assert stranger.get(OPENAPI).json()["info"]["title"] == "OpenDRS requests"


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer wrong",
        f"Basic {token_of('h1')}",
        f"Bearer {hash_of(token_of('h1'))}",
        f"Bearer {token_of('h1')} {token_of('h1')}",
    ],
)
@pytest.mark.parametrize("path", [REQUESTS, f"{REQUESTS}/{SOME_ID}", "/v1/elsewhere"])
def test_nobody_else_is_let_in(
    hall: Hall, stranger: httpx.Client, header: str | None, path: str
) -> None:
    headers = {} if header is None else {"Authorization": header}
    body = hall.request("h1").model_dump_json()

    answer = stranger.post(path, content=body, headers=headers)

    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert answer.json()["detail"] == "show the token of a node"
    assert hall.inbox.newest() == ()


def test_a_token_is_for_its_own_node(hall: Hall, port: int, vouched: Vouched) -> None:
    with vouched.client(port, token_of("h2")) as client:
        assert post(client, hall.request("h1")).status_code == 403


def test_the_scheme_may_be_written_as_one_likes(
    hall: Hall, stranger: httpx.Client
) -> None:
    headers = {"Authorization": f"bearer  {token_of('h1')}"}
    body = hall.request("h1").model_dump_json()

    assert stranger.post(REQUESTS, content=body, headers=headers).status_code == 202


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"verdict": "fine"}, "verdict: Input should be"),
        ({"taken_at": "yesterday"}, "taken_at: "),
        ({"taken_at": "2026-11-21T12:00:00"}, "taken_at: "),
        ({"taken_at": 1763726400}, "taken_at: "),
        ({"sequence": -1}, "sequence: "),
        ({"sequence": 1.5}, "sequence: "),
        ({"sequence": 2**63}, "sequence: "),
        ({"id": "17"}, "id: "),
        ({"node": ""}, "node: "),
        ({"node": "n" * 256}, "node: "),
        ({"leaving": ["vm1"], "verdict": "calm"}, "expected nobody to leave"),
        ({"leaving": ["vm1", "vm1"]}, "leaving: expected each name only once"),
        ({"samples": {}}, "samples.interval: "),
        ({"samples": {"interval": 0, "guests": {}, "own": []}}, "samples.interval: "),
        ({"samples": {"interval": 1, "guests": {"v": [-1]}, "own": []}}, "guests.v[0]"),
        ({"samples": {"interval": 1, "guests": {}, "own": [0.0] * 1001}}, "own: "),
        ({"further": 1}, "further: Extra inputs are not permitted"),
    ],
)
def test_says_what_does_not_fit(
    hall: Hall, h1: httpx.Client, changes: dict[str, object], complaint: str
) -> None:
    request = hall.request("h1", Verdict.OVERLOADED).model_dump(mode="json")

    answer = h1.post(REQUESTS, json={**request, **changes})

    assert answer.status_code == 422
    assert complaint in answer.json()["detail"]
    assert hall.inbox.newest() == ()


@pytest.mark.parametrize(
    "body", [b"", b"{", b"null", b"[]", b"\xff", b"[" * 100_000, b'{"id": NaN}']
)
def test_a_body_that_is_no_request_does_not_fit(h1: httpx.Client, body: bytes) -> None:
    assert h1.post(REQUESTS, content=body).status_code == 422


def test_what_does_not_fit_again_and_again_is_logged_once(
    h1: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    # Another test of the same interface may have brought it about just before.
    answers = {h1.post(REQUESTS, content=b"{").status_code for _ in range(5)}

    assert answers == {422}
    assert caplog.messages.count("a request of h1 was answered with 422") <= 1


def test_many_complaints_are_cut_short(h1: httpx.Client) -> None:
    fields = {f"further{number}": 1 for number in range(100)}

    detail = h1.post(REQUESTS, json=fields).json()["detail"]

    assert detail.endswith("more")
    assert len(detail) < 1000


def test_tokens_are_never_shown(
    hall: Hall, h1: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    token = token_of("h1")
    request = hall.request("h1").model_dump(mode="json")
    answers = [
        h1.post(REQUESTS, json={**request, "node": token}),
        h1.post(REQUESTS, json={**request, "id": token}),
        h1.post(REQUESTS, json={**request, token: token}),
        h1.post(REQUESTS, json=request),
        h1.get(f"{REQUESTS}/{token}"),
        h1.get(REQUESTS, headers={"Authorization": f"Bearer {token}!"}),
    ]

    assert [answer.status_code for answer in answers] == [422, 422, 422, 202, 422, 401]
    shown = "".join(answer.text for answer in answers)
    told = "".join(
        f"{vars(record)}"
        for record in caplog.records
        if not record.name.startswith("http")  # the client's own
    )
    for text in (shown, told):
        assert token not in text
        assert hash_of(token) not in text


@pytest.mark.parametrize(
    "name",
    [
        token_of("h1"),
        f"vm {token_of('h1')} 1",
        f"x{token_of('h1')}x",
        token_of("h2"),
    ],
)
@pytest.mark.parametrize("field", ["node", "leaving", "samples.guests"])
def test_a_name_with_a_token_is_neither_recorded_nor_logged_nor_answered(
    hall: Hall,
    h1: httpx.Client,
    caplog: pytest.LogCaptureFixture,
    field: str,
    name: str,
) -> None:
    caplog.set_level(logging.DEBUG)
    request = hall.request("h1", Verdict.OVERLOADED).model_dump(mode="json")
    samples = {**request["samples"], "guests": {name: [0.1]}}
    changes: dict[str, dict[str, object]] = {
        "node": {"node": name},
        "leaving": {"leaving": ["vm1", name]},
        "samples.guests": {"samples": samples},
    }

    answer = h1.post(REQUESTS, json={**request, **changes[field]})
    hall.cycle()

    assert answer.status_code == 422
    assert answer.json()["detail"] == (
        f"{field}: a name contains a token; replace this token"
    )
    assert hall.inbox.newest() == ()
    logged = [record for record in caplog.records if record.name == "opendrs"]
    assert not any("the-token-of" in f"{vars(record)}" for record in logged)


@pytest.mark.parametrize("form", ["table", "json"])
def test_a_guest_of_the_platform_that_is_named_like_a_token_is_masked_in_the_log(
    tmp_path: Path, vouched: Vouched, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    name = token_of("h3")
    origin = cluster({"h1": 0.95, "h2": 0.1}, {name: ("h1", 0.5), "vm2": ("h1", 0.45)})
    with (
        Hall(tmp_path, origin, Consolidate(limits=HASTY)) as hall,
        logged(form, "debug"),
        Server(vouched.settings, hall.desk),
    ):
        hall.ask("h2")
        hall.ask("h1", Verdict.OVERLOADED, [name])
        hall.cycle()

    text = capsys.readouterr().err
    assert "should leave" in text
    assert "[a secret]" in text
    assert name not in text


def test_a_token_in_a_wrong_place_is_masked_in_the_answer(
    hall: Hall, h1: httpx.Client
) -> None:
    token = token_of("h1")
    request = hall.request("h1").model_dump(mode="json")
    samples = {"interval": 300, "own": [], "guests": {token: ["much"]}}

    cut = "x" * 35 + " "  # only a part of the token would be shown after it
    answers = [
        h1.post(REQUESTS, json={**request, cut + token: 1}),
        h1.post(REQUESTS, json={**request, "samples": samples}),
    ]

    details = [answer.json()["detail"] for answer in answers]
    assert "Extra inputs" in details[0]
    assert "the-t" not in details[0]
    assert details[1].startswith('samples.guests."[a secret]": ')


def test_a_body_that_is_too_large_is_not_read(h1: httpx.Client) -> None:
    declared = h1.post(REQUESTS, content=b" " * (LARGEST_BODY + 1))
    chunks = (b" " * 65_536 for _ in range(LARGEST_BODY // 65_536 + 1))
    undeclared = h1.post(REQUESTS, content=chunks)

    assert (declared.status_code, undeclared.status_code) == (413, 413)
    assert declared.json()["detail"] == f"a request has at most {LARGEST_BODY} bytes"


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


def test_as_many_wrong_fields_as_fit_take_little_memory(h1: httpx.Client) -> None:
    fields = dict.fromkeys(map(str, range(350_000)), 0)
    body = json.dumps(fields, separators=(",", ":"))
    assert 0.8 * LARGEST_BODY < len(body) < LARGEST_BODY

    with at_most(50):
        answer = h1.post(REQUESTS, content=body)

    assert answer.status_code == 422


def test_a_request_of_the_largest_size_takes_little_memory(
    hall: Hall, h1: httpx.Client
) -> None:
    guests = {f"vm{number}": [12.34567] * 999 for number in range(400)}
    body = hall.request("h1", guests=guests).model_dump_json()
    assert 0.8 * LARGEST_BODY < len(body) < LARGEST_BODY

    with at_most(50):
        answer = h1.post(REQUESTS, content=body)

    assert answer.status_code == 202


def test_the_largest_request_is_taken(hall: Hall, h1: httpx.Client) -> None:
    guests = {f"guest-{number:05}": [1.25] * 30 for number in range(10_000)}

    body = hall.request("h1", guests=guests).model_dump_json()
    answer = h1.post(REQUESTS, content=body)

    assert len(body) < LARGEST_BODY
    assert answer.status_code == 202
    places = dict.fromkeys(map(GuestId, guests), NodeId("h1"))
    hall.inbox.place(places, hall.stage.clock.now())
    assert len(hall.inbox.histories(hall.stage.clock.now())) == 10_000


def test_a_record_that_fails_is_not_available_and_told(
    hall: Hall, h1: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    hall.store.__exit__(None, None, None)

    answer = post(h1, hall.request("h1"))

    hall.store.__enter__()
    assert answer.status_code == 503
    assert answer.json()["detail"] == "it cannot be kept now; send it again"
    assert answer.headers["Retry-After"] == "1"
    assert "is not open" in caplog.text
    assert post(h1, hall.request("h1")).status_code == 202


def wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until, "it did not come true"
        threading.Event().wait(0.01)


def test_a_fault_of_ours_is_answered_and_logged(
    hall: Hall,
    h1: httpx.Client,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hall.desk, "take", None)  # which cannot be called

    answer = post(h1, hall.request("h1"))

    assert answer.status_code == 500
    assert "bug in opendrs" in answer.json()["detail"]
    # It is logged after it is answered, which may take a moment.
    wait_until(lambda: "Exception in ASGI application" in caplog.text)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", REQUESTS, 405),
        ("DELETE", f"{REQUESTS}/{SOME_ID}", 405),
        ("GET", f"{REQUESTS}/17", 422),
        ("GET", "/v1/guests//samples", 422),
        ("POST", f"{REQUESTS}/", 404),
        ("GET", "/docs", 404),
    ],
)
def test_what_is_not_there_is_answered_in_the_same_form(
    h1: httpx.Client, method: str, path: str, status: int
) -> None:
    answer = h1.request(method, path)

    assert answer.status_code == status
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.json() == {"detail": answer.json()["detail"], "last_sequence": None}


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", REQUESTS, "POST"),
        ("PUT", REQUESTS, "POST"),
        ("POST", HEALTH, "GET"),
        ("DELETE", f"{REQUESTS}/{SOME_ID}", "GET"),
        ("PATCH", "/v1/guests/vm1/samples", "GET"),
    ],
)
def test_a_method_that_is_not_possible_is_answered_with_those_that_are(
    h1: httpx.Client, method: str, path: str, allowed: str
) -> None:
    answer = h1.request(method, path)

    assert (answer.status_code, answer.headers["Allow"]) == (405, allowed)
    assert answer.json() == {
        "detail": f"{method}: not possible here; use {allowed}",
        "last_sequence": None,
    }


def test_what_is_not_http_is_answered_in_the_same_form(
    port: int, vouched: Vouched
) -> None:
    with speak(port, b"no HTTP\r\n\r\n", vouched.trust) as peer:
        answer = to_its_end(peer)

    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    assert b"application/json" in head
    assert json.loads(body) == {
        "detail": "Invalid HTTP request received.",
        "last_sequence": None,
    }


def test_a_body_that_is_no_chunk_ends_the_request_without_a_traceback(
    hall: Hall, port: int, vouched: Vouched, caplog: pytest.LogCaptureFixture
) -> None:
    head = (
        f"POST {REQUESTS} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
        f"Authorization: Bearer {token_of('h1')}\r\n\r\n"
    ).encode()
    with speak(port, head, vouched.trust) as peer:
        peer.sendall(b"not a size\r\n")
        answer = to_its_end(peer)

    assert answer.startswith(b"HTTP/1.1 400")
    with vouched.client(port, token_of("h1")) as client:
        assert post(client, hall.request("h1")).status_code == 202
    assert "Traceback" not in caplog.text


def test_many_agents_at_once_are_all_heard(
    hall: Hall, port: int, vouched: Vouched
) -> None:
    def say(number: int) -> int:
        request = hall.request("h1", sequence=number)
        with vouched.client(port, token_of("h1")) as client:
            # One body of a node is taken at a time; the others come again.
            while (status := post(client, request).status_code) == 429:
                pass
        return status

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(say, range(40)))

    accepted = answers.count(202)
    assert set(answers) <= {202, 412}
    assert accepted >= 1
    assert hall.inbox.newest()[0].sequence == 39


def speak(port: int, text: bytes, trust: ssl.SSLContext) -> ssl.SSLSocket:
    raw = socket.create_connection(("127.0.0.1", port), timeout=20)
    spoken = trust.wrap_socket(raw, server_hostname="127.0.0.1")
    spoken.sendall(text)
    return spoken


def test_who_is_slow_is_cut_off_and_holds_up_nobody(
    hall: Hall,
    vouched: Vouched,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gate, "LONGEST_BODY", 1.0)
    monkeypatch.setattr(server, "LONGEST_CONNECTION", 2.5)
    head = (
        f"POST {REQUESTS} HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n"
        f"Authorization: Bearer {token_of('h1')}\r\n\r\n"
    ).encode()
    with Server(vouched.settings, hall.desk) as serving:
        port = serving.address[1]
        silent = speak(port, b"", vouched.trust)
        slow = speak(port, head, vouched.trust)

        with vouched.client(port, token_of("h2")) as client:
            assert post(client, hall.request("h2")).status_code == 202

        assert slow.recv(1000).startswith(b"HTTP/1.1 408")
        assert is_cut_off(silent)
        silent.close()
        slow.close()


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
    hall: Hall, port: int, vouched: Vouched
) -> None:
    head = (
        f"POST {REQUESTS} HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n"
        f"Authorization: Bearer {token_of('h1')}\r\n\r\n"
    ).encode()
    with speak(port, head, vouched.trust) as first:
        # Its second request is rejected as soon as the first one has arrived.
        with vouched.client(port, token_of("h1")) as client:
            wait_until(lambda: post(client, hall.request("h1")).status_code == 429)
            rejected = post(client, hall.request("h1"))
        with vouched.client(port, token_of("h2")) as client:
            other = post(client, hall.request("h2"))
        first.sendall(b"0123456789")
        assert first.recv(1000).startswith(b"HTTP/1.1 422")

    assert (rejected.status_code, other.status_code) == (429, 202)
    assert rejected.headers["Retry-After"] == "1"
    assert rejected.json()["detail"] == (
        "h1: another request is being processed; try again"
    )
    with vouched.client(port, token_of("h1")) as client:
        assert post(client, hall.request("h1")).status_code == 202


def test_bodies_take_so_much_memory_together_and_small_ones_always_have_place(
    hall: Hall, port: int, vouched: Vouched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body_limits, "MOST_BYTES", 0)
    large = {f"vm{number}": [1.0] * 1000 for number in range(100)}

    with vouched.client(port, token_of("h1")) as client:
        rejected = post(client, hall.request("h1", guests=large))
        small = post(client, hall.request("h1"))

    assert (rejected.status_code, small.status_code) == (503, 202)
    assert rejected.headers["Retry-After"] == "1"


def test_a_node_with_many_requests_in_progress_is_told_to_come_again(
    hall: Hall, vouched: Vouched
) -> None:
    head = (
        f"POST {REQUESTS} HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n"
        f"Authorization: Bearer {token_of('h1')}\r\n\r\n"
    ).encode()
    with Server(vouched.settings, hall.desk) as serving, ExitStack() as stack:
        port = serving.address[1]
        door = serving._socket.connections  # noqa: SLF001 - no request shows it
        for number in range(MOST_OF_NODE):
            client = ("192.0.2.1", number)
            ours, _ = map(stack.enter_context, socket.socketpair())
            assert door.admit(client, ours)
            assert door.begin(client, NodeId("h1"))

        with speak(port, head, vouched.trust) as one_more:
            answer = to_its_end(one_more)

    assert answer.startswith(b"HTTP/1.1 429")
    assert b"retry-after: 1" in answer.lower()


def test_a_body_that_is_packed_is_not_taken(hall: Hall, h1: httpx.Client) -> None:
    packed = gzip.compress(hall.request("h1").model_dump_json().encode())

    answer = h1.post(REQUESTS, content=packed, headers={"Content-Encoding": "gzip"})

    assert answer.status_code == 415
    assert answer.headers["Accept-Encoding"] == "identity"
    assert "send plain JSON" in answer.json()["detail"]
    assert hall.inbox.newest() == ()


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
def test_an_answer_to_what_was_not_read_ends_the_connection(
    port: int,
    vouched: Vouched,
    monkeypatch: pytest.MonkeyPatch,
    more: str,
    status: int,
) -> None:
    monkeypatch.setattr(gate, "LONGEST_BODY", 0.5)
    length = "" if "Length" in more else "Content-Length: 1000000\r\n"
    head = f"POST {REQUESTS} HTTP/1.1\r\nHost: x\r\n{length}{more}\r\n"

    with speak(port, head.format(token=token_of("h1")).encode(), vouched.trust) as peer:
        answer = to_its_end(peer)

    assert answer.startswith(f"HTTP/1.1 {status}".encode())
    assert b"connection: close" in answer.lower()


@pytest.mark.parametrize("path", [HEALTH, OPENAPI])
def test_the_connection_of_a_peer_without_a_token_ends_with_the_answer(
    stranger: httpx.Client, h1: httpx.Client, path: str
) -> None:
    assert stranger.get(path).headers["Connection"] == "close"
    assert "Connection" not in h1.get(path).headers


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_old_tls_is_not_spoken(
    port: int, vouched: Vouched, version: ssl.TLSVersion
) -> None:
    trust = vouched.trust
    trust.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    trust.maximum_version = version
    trust.set_ciphers("ALL:@SECLEVEL=0")

    with pytest.raises(OSError, match=r"(?i)version|protocol|EOF|alert"):
        speak(port, b"", trust)


def test_plain_http_is_not_spoken(port: int) -> None:
    with pytest.raises(httpx.HTTPError):
        httpx.get(f"http://127.0.0.1:{port}{HEALTH}", trust_env=False)


def test_an_address_in_use_is_told(hall: Hall, port: int, vouched: Vouched) -> None:
    taken = f"127.0.0.1:{port}"
    settings = vouched.settings
    object.__setattr__(settings, "listen", taken)

    with pytest.raises(ConfigurationError) as raised:
        Server(settings, hall.desk)

    assert str(raised.value) == (
        f"requests.listen: cannot listen on {taken}: somebody else does already"
    )


@pytest.mark.parametrize("listen", ["203.0.113.1:0", "no-such-host.invalid:0"])
def test_an_address_of_somebody_else_is_told(
    hall: Hall, vouched: Vouched, listen: str
) -> None:
    settings = vouched.settings
    object.__setattr__(settings, "listen", listen)

    with pytest.raises(ConfigurationError, match="cannot listen on"):
        Server(settings, hall.desk)


def test_it_tells_when_it_has_ended(hall: Hall, vouched: Vouched) -> None:
    with Server(vouched.settings, hall.desk) as serving:
        serving.require_alive()

    with pytest.raises(OpenDRSError, match="no longer taken"):
        serving.require_alive()


def test_it_ends_while_somebody_is_connected(hall: Hall, vouched: Vouched) -> None:
    with Server(vouched.settings, hall.desk) as serving:
        idle = speak(serving.address[1], b"", vouched.trust)

    assert is_cut_off(idle)
    with pytest.raises(OpenDRSError):
        serving.require_alive()
    idle.close()


def test_every_answer_is_described(stranger: httpx.Client) -> None:
    described = stranger.get(OPENAPI).json()["paths"]

    answers = described[REQUESTS]["post"]["responses"]
    assert set(answers) == {
        "200", "202", "400", "401", "403", "408", "409", "412", "413", "415", "422",
        "429", "500", "503",
    }  # fmt: skip
    examples = json.dumps(answers)
    assert "the last accepted of h1" in examples


def test_certificates_that_cannot_be_used_are_told(
    hall: Hall, vouched: Vouched, tmp_path: Path
) -> None:
    settings = vouched.settings
    garbage = tmp_path / "garbage.pem"
    garbage.write_text("nothing of that kind")
    other = Vouched(tmp_path).settings
    told = []
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
            Server(changed, hall.desk)
        told.append(str(raised.value).replace(str(tmp_path), "."))

    both = "requests.certificate, requests.key: "
    no_match = "the key is not that of the certificate"
    no_pem = "expected a certificate and its private key in PEM"
    assert told == [
        "requests.certificate: cannot read ./absent.pem: No such file or directory",
        "requests.key: cannot read .: Is a directory",
        f"{both}./garbage.pem and {settings.key} cannot be used: {no_pem}",
        f"{both}{settings.certificate} and ./garbage.pem cannot be used: {no_pem}",
        f"{both}{settings.certificate} and ./controller.key cannot be used: {no_match}",
        "requests.tokens: cannot read ./absent.toml: No such file or directory",
    ]
