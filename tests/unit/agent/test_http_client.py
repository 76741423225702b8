"""The HTTP client of the agent, against a server over real TLS."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from uuid import uuid4

import pytest
import trustme

from opendrs.agent import ControllerClient
from opendrs.agent.http_client import RequestRejectedError
from opendrs.cli.logs import log_to_stderr
from opendrs.config.api_schema import RequestBody, UsageSamples, request_path
from opendrs.config.settings import AgentSettings
from opendrs.controller.events import LogEventCode, log_event
from opendrs.errors import (
    ConfigurationError,
    PermissionDeniedError,
    PlatformError,
    PlatformUnavailableError,
    UnexpectedResponseError,
)
from opendrs.model import LoadState
from opendrs.ports import RequestState
from support.builders import NOON

TOKEN = "7f2a-s3cret"  # noqa: S105 - opens nothing
REQUEST = RequestBody(
    id=uuid4(),
    node="h1",
    sequence=4,
    taken_at=NOON,
    load_state=LoadState.OVERLOADED,
    evict=["vm1"],
    samples=UsageSamples(interval=300, guests={"vm1": [0.5]}, host_overhead=[0.1]),
)
QUEUED = {"id": str(REQUEST.id), "state": "queued"}


@dataclass
class FakeServer:
    """A controller with configured answers."""

    url: str
    answers: list[tuple[int, object]] = field(default_factory=list)
    retry_after: str | None = None
    requests: list[tuple[str, str, str, bytes]] = field(default_factory=list)
    delays: list[float] = field(default_factory=list)


@contextmanager
def serve(context: ssl.SSLContext) -> Iterator[FakeServer]:
    """Serve on a free port; every path is answered."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            token = self.headers.get("Authorization", "")
            fake_server.requests.append((self.command, self.path, token, body))
            status, content = fake_server.answers.pop(0)
            text = content if isinstance(content, str) else json.dumps(content)
            self.send_response(status)
            if fake_server.retry_after is not None:
                self.send_header("Retry-After", fake_server.retry_after)
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_PUT = _answer  # noqa: N815 - as http.server has it

        def log_message(self, *words: object) -> None:
            """Say nothing."""

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listening.socket = context.wrap_socket(listening.socket, server_side=True)
    fake_server = FakeServer(f"https://localhost:{listening.server_address[1]}")
    thread = Thread(target=listening.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield fake_server
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join()


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def server(authority: trustme.CA) -> Iterator[FakeServer]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    with serve(context) as found:
        yield found


@pytest.fixture
def settings(
    server: FakeServer, authority: trustme.CA, tmp_path: Path
) -> AgentSettings:
    token, ca = tmp_path / "token", tmp_path / "ca.pem"
    token.write_text(f"{TOKEN}\n")
    authority.cert_pem.write_to_path(str(ca))
    return AgentSettings(
        node="h1", controller=server.url, token_file=token, ca=ca, timeout=60
    )


@pytest.fixture
def client(settings: AgentSettings, server: FakeServer) -> Iterator[ControllerClient]:
    with ControllerClient(settings, server.delays.append) as found:
        yield found


def test_a_request_is_delivered_with_the_token(
    client: ControllerClient, server: FakeServer
) -> None:
    server.answers = [(202, QUEUED)]

    assert client.submit(REQUEST, 60).state is RequestState.QUEUED

    method, path, token, body = server.requests[0]
    assert (method, path, token) == ("PUT", request_path(REQUEST.id), f"Bearer {TOKEN}")
    assert RequestBody.model_validate_json(body) == REQUEST


def test_response_with_unknown_field_is_accepted(
    client: ControllerClient, server: FakeServer
) -> None:
    server.answers = [(202, {**QUEUED, "mood": "fine"})]

    assert client.submit(REQUEST, 60).id == REQUEST.id


def test_failing_controller_gets_same_request_again(
    client: ControllerClient, server: FakeServer
) -> None:
    server.answers = [(503, {"detail": "full"}), (502, "<html>"), (200, QUEUED)]

    client.submit(REQUEST, 60)

    assert len({body for *_, body in server.requests}) == 1
    assert len(server.delays) == 2


@pytest.mark.parametrize("status", [408, 429, 503])
def test_busy_controller_is_retried_after_retry_after(
    client: ControllerClient, server: FakeServer, status: int
) -> None:
    server.retry_after = "7"
    server.answers = [(status, {"detail": "busy"}), (202, QUEUED)]

    client.submit(REQUEST, 60)

    (pause,) = server.delays
    assert 7 <= pause <= 7 + 1  # and up to a second more, so that not all come at once


@pytest.mark.parametrize(
    "requested", ["9" * 400, "Sun, 22 Nov 2026 09:00:00 GMT", "-1"]
)
def test_retry_after_is_limited_to_max_delay(
    client: ControllerClient, server: FakeServer, requested: str
) -> None:
    server.retry_after = requested
    server.answers = [(503, {"detail": "busy"}), (202, QUEUED)]

    client.submit(REQUEST, 60)

    assert server.delays[0] <= 60 / 4 + 1


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (401, PermissionDeniedError),
        (403, PermissionDeniedError),
        (409, RequestRejectedError),
        (412, RequestRejectedError),
        (422, RequestRejectedError),
        (302, UnexpectedResponseError),
    ],
)
def test_rejected_request_is_not_retried(
    client: ControllerClient,
    server: FakeServer,
    status: int,
    error: type[PlatformError],
) -> None:
    server.answers = [(status, {"detail": "no, because"})]

    with pytest.raises(error, match=rf"response {status}: no, because"):
        client.submit(REQUEST, 60)

    assert server.delays == []


def test_stale_sequence_error_has_last_sequence(
    client: ControllerClient, server: FakeServer
) -> None:
    server.answers = [(412, {"detail": "not above 7", "last_sequence": 7})]

    with pytest.raises(RequestRejectedError) as raised:
        client.submit(REQUEST, 60)

    assert raised.value.last_sequence == 7


@pytest.mark.parametrize("answer", ["<html>", {}, {"id": "1", "state": "great"}])
def test_unexpected_response_is_an_error(
    client: ControllerClient, server: FakeServer, answer: object
) -> None:
    server.answers = [(200, answer)]

    with pytest.raises(UnexpectedResponseError, match="is not that of a controller"):
        client.submit(REQUEST, 60)


def test_unreachable_controller_times_out(
    settings: AgentSettings, server: FakeServer
) -> None:
    del server
    away = AgentSettings(
        node="h1",
        controller="https://localhost:1",
        token_file=settings.token_file,
        ca=settings.ca,
    )

    with (
        ControllerClient(away, lambda _: None) as client,
        pytest.raises(PlatformUnavailableError, match=r"localhost:1 unreachable"),
    ):
        client.submit(REQUEST, 0.2)


def test_certificate_of_other_authority_is_not_trusted(
    settings: AgentSettings, server: FakeServer, tmp_path: Path
) -> None:
    other = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(str(other))
    untrusted = AgentSettings(
        node="h1",
        controller=settings.controller,
        token_file=settings.token_file,
        ca=other,
    )

    with (
        ControllerClient(untrusted, lambda _: None) as client,
        pytest.raises(PlatformUnavailableError, match=r"(?i)certificate"),
    ):
        client.submit(REQUEST, 0.2)

    assert server.requests == []


def test_get_samples_requests_path_of_guest(
    client: ControllerClient, server: FakeServer
) -> None:
    samples = {"interval": 300.0, "taken_at": NOON.isoformat(), "samples": [0.1]}
    server.answers = [(200, samples)]

    found = client.get_samples("a guest/1")

    assert server.requests[0][1] == "/api/v1/guests/a%20guest%2F1/samples"
    assert found is not None
    assert found.samples == [0.1]


def test_unknown_guest_and_request_return_none(
    client: ControllerClient, server: FakeServer
) -> None:
    server.answers = [(404, {"detail": "no"}), (404, {"detail": "no"})]

    assert client.get_samples("vm1") is None
    assert client.get_status(REQUEST) is None


def test_get_status_requests_path_of_id(
    client: ControllerClient, server: FakeServer
) -> None:
    server.answers = [(200, {**QUEUED, "state": "done"})]

    found = client.get_status(REQUEST)

    assert server.requests[0][1] == request_path(REQUEST.id)
    assert found is not None
    assert found.state is RequestState.DONE


@pytest.mark.parametrize("text", ["", "two words", "a\nb", "\x00", "x" * 5000])
def test_invalid_token_file_is_rejected_without_content(
    settings: AgentSettings, text: str
) -> None:
    settings.token_file.write_text(text)

    with pytest.raises(ConfigurationError, match=r"agent\.token_file") as raised:
        ControllerClient(settings, lambda _: None)

    assert not text.strip() or text not in str(raised.value)


def test_token_is_read_from_systemd_credential(
    settings: AgentSettings,
    server: FakeServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    settings.token_file.rename(credentials / settings.token_file.name)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(credentials))
    server.answers = [(200, {**QUEUED, "state": "done"})]

    with ControllerClient(settings, lambda _: None) as client:
        found = client.get_status(REQUEST)

    assert found is not None


def test_a_token_file_that_is_not_there_is_named(settings: AgentSettings) -> None:
    settings.token_file.unlink()

    with pytest.raises(ConfigurationError, match="token: No such file"):
        ControllerClient(settings, lambda _: None)


@pytest.mark.parametrize("text", [None, "nonsense"])
def test_invalid_ca_file_error_names_file(
    settings: AgentSettings, text: str | None
) -> None:
    assert settings.ca is not None
    settings.ca.unlink()
    if text is not None:
        settings.ca.write_text(text)

    with pytest.raises(ConfigurationError, match=r"agent\.ca: .*ca\.pem"):
        ControllerClient(settings, lambda _: None)


def test_no_error_shows_the_token(client: ControllerClient, server: FakeServer) -> None:
    server.answers = [(422, {"detail": "sequence: no"})]

    with pytest.raises(RequestRejectedError) as raised:
        client.submit(REQUEST, 60)

    shown = f"{raised.value!r} {raised.value.__context__!r} {raised.value.__cause__!r}"
    assert TOKEN not in shown


@pytest.mark.parametrize("form", ["text", "json"])
def test_the_token_is_masked_in_the_log_of_the_agent(
    client: ControllerClient,
    server: FakeServer,
    capsys: pytest.CaptureFixture[str],
    form: str,
) -> None:
    server.answers = [(422, {"detail": f"Authorization: Bearer {TOKEN}"})]

    with log_to_stderr(form, "info"):
        try:
            client.submit(REQUEST, 60)
        except RequestRejectedError as error:
            log_event(LogEventCode.REQUEST_REJECTED, str(error), guest=f"vm-{TOKEN}")

    text = capsys.readouterr().err
    assert "Authorization: Bearer [a secret]" in text
    assert TOKEN not in text
