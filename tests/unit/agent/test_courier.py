"""The courier, against a server over real TLS."""

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

from builders import NOON
from opendrs.agent import Courier
from opendrs.agent.controller import RefusedError
from opendrs.cli.logs import logged
from opendrs.controller.requests.wire import (
    Request,
    RequestState,
    Samples,
    Verdict,
)
from opendrs.controller.settings import AgentSettings
from opendrs.controller.telling import tell
from opendrs.errors import (
    ConfigurationError,
    PermissionDeniedError,
    PlatformError,
    PlatformUnavailableError,
    UnexpectedResponseError,
)

TOKEN = "7f2a-s3cret"  # noqa: S105 - opens nothing
REQUEST = Request(
    id=uuid4(),
    node="h1",
    sequence=4,
    taken_at=NOON,
    verdict=Verdict.OVERLOADED,
    leaving=["vm1"],
    samples=Samples(interval=300, guests={"vm1": [0.5]}, own=[0.1]),
)
QUEUED = {"id": str(REQUEST.id), "state": "queued"}


@dataclass
class Server:
    """A controller that answers what it is told to."""

    url: str
    answers: list[tuple[int, object]] = field(default_factory=list)
    retry_after: str | None = None
    asked: list[tuple[str, str, str, bytes]] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)


@contextmanager
def serving(context: ssl.SSLContext) -> Iterator[Server]:
    """Serve on a free port; a path that begins with /v1 is answered."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            token = self.headers.get("Authorization", "")
            told.asked.append((self.command, self.path, token, body))
            status, content = told.answers.pop(0)
            text = content if isinstance(content, str) else json.dumps(content)
            self.send_response(status)
            if told.retry_after is not None:
                self.send_header("Retry-After", told.retry_after)
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_POST = _answer  # noqa: N815 - as http.server has it

        def log_message(self, *words: object) -> None:
            """Say nothing."""

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listening.socket = context.wrap_socket(listening.socket, server_side=True)
    told = Server(f"https://localhost:{listening.server_address[1]}")
    thread = Thread(target=listening.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield told
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join()


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def server(authority: trustme.CA) -> Iterator[Server]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    with serving(context) as found:
        yield found


@pytest.fixture
def settings(server: Server, authority: trustme.CA, tmp_path: Path) -> AgentSettings:
    token, ca = tmp_path / "token", tmp_path / "ca.pem"
    token.write_text(f"{TOKEN}\n")
    authority.cert_pem.write_to_path(str(ca))
    return AgentSettings(
        node="h1", controller=server.url, token_file=token, ca=ca, timeout=5
    )


@pytest.fixture
def courier(settings: AgentSettings, server: Server) -> Iterator[Courier]:
    with Courier(settings, server.waits.append) as found:
        yield found


def test_a_request_is_delivered_with_the_token(
    courier: Courier, server: Server
) -> None:
    server.answers = [(202, QUEUED)]

    assert courier.deliver(REQUEST, 60).state is RequestState.QUEUED

    method, path, token, body = server.asked[0]
    assert (method, path, token) == ("POST", "/v1/requests", f"Bearer {TOKEN}")
    assert Request.model_validate_json(body) == REQUEST


def test_what_is_not_known_of_an_answer_is_passed_over(
    courier: Courier, server: Server
) -> None:
    server.answers = [(202, {**QUEUED, "mood": "fine"})]

    assert courier.deliver(REQUEST, 60).id == REQUEST.id


def test_a_controller_that_fails_is_asked_again_with_the_same_request(
    courier: Courier, server: Server
) -> None:
    server.answers = [(503, {"detail": "full"}), (502, "<html>"), (200, QUEUED)]

    courier.deliver(REQUEST, 60)

    assert len({body for *_, body in server.asked}) == 1
    assert len(server.waits) == 2


@pytest.mark.parametrize("status", [408, 429, 503])
def test_a_controller_that_is_busy_gets_the_request_when_it_asks_for_it(
    courier: Courier, server: Server, status: int
) -> None:
    server.retry_after = "7"
    server.answers = [(status, {"detail": "busy"}), (202, QUEUED)]

    courier.deliver(REQUEST, 60)

    (pause,) = server.waits
    assert 7 <= pause <= 7 + 1  # and up to a second more, so that not all come at once


@pytest.mark.parametrize("asked", ["9" * 400, "Sun, 22 Nov 2026 09:00:00 GMT", "-1"])
def test_a_controller_cannot_ask_for_more_than_the_longest_pause(
    courier: Courier, server: Server, asked: str
) -> None:
    server.retry_after = asked
    server.answers = [(503, {"detail": "busy"}), (202, QUEUED)]

    courier.deliver(REQUEST, 60)

    assert server.waits[0] <= 60 / 4 + 1


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (401, PermissionDeniedError),
        (403, PermissionDeniedError),
        (409, RefusedError),
        (412, RefusedError),
        (422, RefusedError),
        (302, UnexpectedResponseError),
    ],
)
def test_who_says_no_is_not_asked_again(
    courier: Courier, server: Server, status: int, error: type[PlatformError]
) -> None:
    server.answers = [(status, {"detail": "no, because"})]

    with pytest.raises(error, match=rf"answered {status}: no, because"):
        courier.deliver(REQUEST, 60)

    assert server.waits == []


def test_who_comes_too_late_is_told_which_number_was_the_last(
    courier: Courier, server: Server
) -> None:
    server.answers = [(412, {"detail": "not above 7", "last_sequence": 7})]

    with pytest.raises(RefusedError) as refused:
        courier.deliver(REQUEST, 60)

    assert refused.value.last_sequence == 7


@pytest.mark.parametrize("answer", ["<html>", {}, {"id": "1", "state": "great"}])
def test_what_is_no_controller_is_told(
    courier: Courier, server: Server, answer: object
) -> None:
    server.answers = [(200, answer)]

    with pytest.raises(UnexpectedResponseError, match="not as a controller does"):
        courier.deliver(REQUEST, 60)


def test_a_controller_that_is_not_there_is_given_up(
    settings: AgentSettings, server: Server
) -> None:
    del server
    away = AgentSettings(
        node="h1",
        controller="https://localhost:1",
        token_file=settings.token_file,
        ca=settings.ca,
    )

    with (
        Courier(away, lambda _: None) as courier,
        pytest.raises(PlatformUnavailableError, match=r"localhost:1 cannot be reached"),
    ):
        courier.deliver(REQUEST, 0.2)


def test_who_is_vouched_for_by_somebody_else_is_not_trusted(
    settings: AgentSettings, server: Server, tmp_path: Path
) -> None:
    other = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(str(other))
    stranger = AgentSettings(
        node="h1",
        controller=settings.controller,
        token_file=settings.token_file,
        ca=other,
    )

    with (
        Courier(stranger, lambda _: None) as courier,
        pytest.raises(PlatformUnavailableError, match=r"(?i)certificate"),
    ):
        courier.deliver(REQUEST, 0.2)

    assert server.asked == []


def test_samples_of_a_guest_are_asked_for_by_name(
    courier: Courier, server: Server
) -> None:
    told = {"interval": 300.0, "taken_at": NOON.isoformat(), "samples": [0.1]}
    server.answers = [(200, told)]

    found = courier.samples("a guest/1")

    assert server.asked[0][1] == "/v1/guests/a%20guest%2F1/samples"
    assert found is not None
    assert found.samples == [0.1]


def test_nobody_may_know_a_guest_or_a_request(courier: Courier, server: Server) -> None:
    server.answers = [(404, {"detail": "no"}), (404, {"detail": "no"})]

    assert courier.samples("vm1") is None
    assert courier.standing(REQUEST) is None


def test_what_became_of_a_request_is_asked_for_by_its_id(
    courier: Courier, server: Server
) -> None:
    server.answers = [(200, {**QUEUED, "state": "done"})]

    found = courier.standing(REQUEST)

    assert server.asked[0][1] == f"/v1/requests/{REQUEST.id}"
    assert found is not None
    assert found.state is RequestState.DONE


@pytest.mark.parametrize("text", ["", "two words", "a\nb", "\x00", "x" * 5000])
def test_a_file_that_holds_no_token_is_refused_without_being_shown(
    settings: AgentSettings, text: str
) -> None:
    settings.token_file.write_text(text)

    with pytest.raises(ConfigurationError, match=r"agent\.token_file") as raised:
        Courier(settings, lambda _: None)

    assert not text.strip() or text not in str(raised.value)


def test_a_token_file_that_is_not_there_is_named(settings: AgentSettings) -> None:
    settings.token_file.unlink()

    with pytest.raises(ConfigurationError, match="token: No such file"):
        Courier(settings, lambda _: None)


@pytest.mark.parametrize("text", [None, "nonsense"])
def test_what_is_no_certificate_is_named(
    settings: AgentSettings, text: str | None
) -> None:
    assert settings.ca is not None
    settings.ca.unlink()
    if text is not None:
        settings.ca.write_text(text)

    with pytest.raises(ConfigurationError, match=r"agent\.ca: .*ca\.pem"):
        Courier(settings, lambda _: None)


def test_no_error_shows_the_token(courier: Courier, server: Server) -> None:
    server.answers = [(422, {"detail": "sequence: no"})]

    with pytest.raises(RefusedError) as raised:
        courier.deliver(REQUEST, 60)

    shown = f"{raised.value!r} {raised.value.__context__!r} {raised.value.__cause__!r}"
    assert TOKEN not in shown


@pytest.mark.parametrize("form", ["table", "json"])
def test_the_token_is_masked_in_the_log_of_the_agent(
    courier: Courier, server: Server, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    server.answers = [(422, {"detail": f"Authorization: Bearer {TOKEN}"})]

    with logged(form, "info"):
        try:
            courier.deliver(REQUEST, 60)
        except RefusedError as error:
            tell("not-taken", str(error), guest=f"vm-{TOKEN}")

    text = capsys.readouterr().err
    assert "Authorization: Bearer [a secret]" in text
    assert TOKEN not in text
