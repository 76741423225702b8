"""Management controllers that do not answer as they should, on a real socket."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread

import pytest
import trustme

from opendrs.errors import (
    PlatformError,
    PlatformUnavailableError,
    UnexpectedResponseError,
    UnsupportedError,
)
from opendrs.model import NodeId
from opendrs.platforms.power import PowerState, RedfishSettings
from opendrs.platforms.power.redfish import RedfishDriver

RESET = "#ComputerSystem.Reset"
TARGET = "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset"


class Odd(ThreadingHTTPServer):
    """Gives one answer to every question, and keeps what was asked."""

    status = 200
    body: bytes = b"{}"
    headers: dict[str, str]
    delay = 0.0

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.headers = {}
        self.asked: list[tuple[str, str, bytes]] = []

    def handle_error(self, *_: object) -> None:
        """Say nothing of those who hang up before the end."""

    def says(self, told: object, status: int = 200) -> None:
        """Answer *told*, as JSON, from now on."""
        self.body, self.status = json.dumps(told).encode(), status


class Answer(BaseHTTPRequestHandler):
    """One question, and the answer."""

    server: Odd

    def do_GET(self) -> None:
        """Answer."""
        length = int(self.headers.get("Content-Length", 0))
        self.server.asked.append((self.command, self.path, self.rfile.read(length)))
        Event().wait(self.server.delay)
        self.send_response(self.server.status)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    do_POST = do_GET  # noqa: N815 -- the library wants this name

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def odd(tmp_path: Path) -> Iterator[tuple[Odd, RedfishDriver]]:
    """Yield a server, and a driver that asks it."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    (tmp_path / "password").write_text("s3cr3t")
    with serving(authority) as server:
        yield server, driver_of(server, tmp_path)


def driver_of(server: Odd, directory: Path, system: str | None = "1") -> RedfishDriver:
    """Return a driver that asks *server*, with what is in *directory*."""
    settings = RedfishSettings(
        url=f"https://localhost:{server.server_port}",
        user="opendrs",
        password_file=directory / "password",
        ca=directory / "ca.pem",
        system=system,
        timeout=0.5,
    )
    return RedfishDriver(NodeId("h1"), settings)


@contextmanager
def serving(authority: trustme.CA) -> Iterator[Odd]:
    server = Odd()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def resettable(**action: object) -> dict[str, object]:
    return {"PowerState": "On", "Actions": {RESET: {"target": TARGET, **action}}}


@pytest.mark.parametrize("told", ["PoweringOn", "PoweringOff", "Paused", None, 3])
def test_a_state_between_on_and_off_is_unknown(
    odd: tuple[Odd, RedfishDriver], told: object
) -> None:
    server, driver = odd
    server.says({"PowerState": told})

    assert driver.state() is PowerState.UNKNOWN


def test_the_first_way_that_is_offered_is_taken(odd: tuple[Odd, RedfishDriver]) -> None:
    server, driver = odd
    server.says(resettable(**{"ResetType@Redfish.AllowableValues": ["ForceOn"]}))

    driver.on()

    method, path, body = server.asked[-1]
    assert (method, path) == ("POST", TARGET)
    assert json.loads(body) == {"ResetType": "ForceOn"}


def test_where_nothing_is_said_of_ways_the_usual_one_is_taken(
    odd: tuple[Odd, RedfishDriver],
) -> None:
    server, driver = odd
    server.says(resettable())

    driver.off()

    assert json.loads(server.asked[-1][2]) == {"ResetType": "GracefulShutdown"}


def test_a_way_that_is_not_offered_is_not_tried(
    odd: tuple[Odd, RedfishDriver],
) -> None:
    server, driver = odd
    server.says(resettable(**{"ResetType@Redfish.AllowableValues": ["ForceOff"]}))

    with pytest.raises(UnsupportedError, match="does not offer GracefulShutdown"):
        driver.off()

    assert [method for method, _, _ in server.asked] == ["GET"]


@pytest.mark.parametrize(
    "target", ["https://elsewhere/reset", "//elsewhere/reset", "reset", "", None]
)
def test_the_password_is_sent_nowhere_else(
    odd: tuple[Odd, RedfishDriver], target: object
) -> None:
    server, driver = odd
    server.says(resettable(target=target))

    with pytest.raises(UnexpectedResponseError):
        driver.on()

    assert [method for method, _, _ in server.asked] == ["GET"]


def test_nobody_is_followed_elsewhere(odd: tuple[Odd, RedfishDriver]) -> None:
    server, driver = odd
    server.says({}, status=301)
    server.headers["Location"] = "https://elsewhere/redfish/v1/Systems/1"

    with pytest.raises(UnexpectedResponseError, match="sends elsewhere"):
        driver.state()


PLACES = {
    "control": "/redfish/v1/\x01",
    "long": f"/{'x' * 70_000}",
    "surrogate": "/\ud800",
    "line": "/x\n",
    "delete": "/\x7f",
}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_a_place_that_cannot_be_is_told(
    odd: tuple[Odd, RedfishDriver], tmp_path: Path, place: str
) -> None:
    server, driver = odd
    alone = driver_of(server, tmp_path, system=None)
    server.says({**resettable(target=place), "Members": [{"@odata.id": place}]})

    for ask in (alone.state, driver.on):
        with pytest.raises(PlatformError, match="controller of h1"):
            ask()


def test_an_answer_without_an_end_is_not_kept(odd: tuple[Odd, RedfishDriver]) -> None:
    server, driver = odd
    server.body = b'{"PowerState": "' + b"x" * (2 << 20)

    with pytest.raises(UnexpectedResponseError, match="answers without an end"):
        driver.state()


def test_no_proxy_is_used(
    odd: tuple[Odd, RedfishDriver], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, driver = odd
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    server.says({"PowerState": "On"})

    assert driver.state() is PowerState.ON


DEEP = b"[" * 100_000


def test_a_refusal_that_cannot_be_read_is_one_all_the_same(
    odd: tuple[Odd, RedfishDriver],
) -> None:
    server, driver = odd
    server.body, server.status = DEEP, 409

    with pytest.raises(PlatformError, match=r"refuses \(status 409\)$"):
        driver.on()


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"\xff", b"", DEEP], ids="abcde")
def test_an_answer_in_another_form_is_told(
    odd: tuple[Odd, RedfishDriver], body: bytes
) -> None:
    server, driver = odd
    server.body = body

    for ask in (driver.state, driver.on):
        with pytest.raises(UnexpectedResponseError, match="controller of h1"):
            ask()


def test_a_controller_that_is_busy_may_be_asked_again(
    odd: tuple[Odd, RedfishDriver],
) -> None:
    server, driver = odd
    server.says({"error": {"message": "starting\nup"}}, status=503)

    with pytest.raises(PlatformUnavailableError, match=r"status 503: starting up\)"):
        driver.state()


def test_a_refusal_is_told_in_its_own_words(odd: tuple[Odd, RedfishDriver]) -> None:
    server, driver = odd
    info = [{"Message": "The system is locked. " + "x" * 500}]
    server.says({"error": {"@Message.ExtendedInfo": info}}, status=409)

    with pytest.raises(PlatformError, match=r"The system is locked\.") as raised:
        driver.on()

    assert len(str(raised.value)) < 300


def test_a_controller_that_does_not_answer_is_not_waited_for(
    odd: tuple[Odd, RedfishDriver],
) -> None:
    server, driver = odd
    server.delay = 1.0

    with pytest.raises(PlatformUnavailableError, match=r"not answer within 0\.5 s"):
        driver.state()
