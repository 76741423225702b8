"""The interface over TLS: who is let in, and what is answered."""

from __future__ import annotations

import json
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from hall import Hall
from opendrs.controller.requests import gate, server
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

    assert [answer.status_code for answer in answers] == [403, 422, 422, 202, 422, 401]
    shown = "".join(answer.text for answer in answers[1:])
    told = "".join(
        f"{vars(record)}"
        for record in caplog.records
        if not record.name.startswith("http")  # the client's own
    )
    # Whoever calls his node like his token is told that it is not his node.
    for text in (shown, told):
        assert token not in text
        assert hash_of(token) not in text


def test_a_body_that_is_too_large_is_not_read(h1: httpx.Client) -> None:
    declared = h1.post(REQUESTS, content=b" " * (LARGEST_BODY + 1))
    chunks = (b" " * 65_536 for _ in range(LARGEST_BODY // 65_536 + 1))
    undeclared = h1.post(REQUESTS, content=chunks)

    assert (declared.status_code, undeclared.status_code) == (413, 413)
    assert declared.json()["detail"] == f"a request has at most {LARGEST_BODY} bytes"


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
    assert isinstance(answer.json()["detail"], str)


def test_many_agents_at_once_are_all_heard(
    hall: Hall, port: int, vouched: Vouched
) -> None:
    def say(number: int) -> int:
        with vouched.client(port, token_of("h1")) as client:
            return post(client, hall.request("h1", sequence=number)).status_code

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

        with vouched.client(port, token_of("h1")) as client:
            assert post(client, hall.request("h1")).status_code == 202

        assert slow.recv(1000).startswith(b"HTTP/1.1 408")
        assert is_cut_off(silent)
        silent.close()
        slow.close()


def is_cut_off(spoken: ssl.SSLSocket) -> bool:
    """Return whether the other side ends it rather than wait for ever."""
    try:
        return not spoken.recv(1)
    except (ConnectionError, ssl.SSLError):
        return True


def test_too_many_at_once_are_told_to_come_again(
    hall: Hall, vouched: Vouched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 3)
    with Server(vouched.settings, hall.desk) as serving:
        port = serving.address[1]
        idle = [speak(port, b"", vouched.trust) for _ in range(3)]

        with vouched.client(port, token_of("h1")) as client:
            refused = post(client, hall.request("h1"))

        for one in idle:
            one.close()
    assert refused.status_code == 503


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
        "200", "202", "400", "401", "403", "408", "409", "412", "413", "422", "503",
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
