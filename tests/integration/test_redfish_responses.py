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
from opendrs.power import PowerState, RedfishSettings
from opendrs.power.redfish import RedfishDriver

RESET = "#ComputerSystem.Reset"
TARGET = "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset"


class OddController(ThreadingHTTPServer):
    """Gives one answer to every question, and keeps what was asked."""

    status = 200
    body: bytes = b"{}"
    headers: dict[str, str]
    delay = 0.0
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), RequestHandler)
        self.ended = Event()
        self.headers = {}
        self.requests: list[tuple[str, str, bytes]] = []

    def handle_error(self, *_: object) -> None:
        """Say nothing of those who hang up before the end."""

    def respond(self, reported: object, status: int = 200) -> None:
        """Answer *reported*, as JSON, from now on."""
        self.body, self.status = json.dumps(reported).encode(), status


class RequestHandler(BaseHTTPRequestHandler):
    """One question, and the answer."""

    server: OddController

    def do_GET(self) -> None:
        """Answer."""
        length = int(self.headers.get("Content-Length", 0))
        self.server.requests.append((self.command, self.path, self.rfile.read(length)))
        self.server.ended.wait(self.server.delay)
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
def odd_controller(tmp_path: Path) -> Iterator[tuple[OddController, RedfishDriver]]:
    """Yield a server, and a driver that asks it."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    (tmp_path / "password").write_text("s3cr3t")
    with serving(authority) as server:
        yield server, driver_of(server, tmp_path)


def driver_of(
    server: OddController,
    directory: Path,
    system: str | None = "1",
    timeout: float = 60.0,
) -> RedfishDriver:
    """Return a driver that asks *server*, with what is in *directory*."""
    settings = RedfishSettings(
        url=f"https://localhost:{server.server_port}",
        user="opendrs",
        password_file=directory / "password",
        ca=directory / "ca.pem",
        system=system,
        timeout=timeout,
    )
    return RedfishDriver(NodeId("h1"), settings)


@contextmanager
def serving(authority: trustme.CA) -> Iterator[OddController]:
    server = OddController()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.ended.set()
        server.shutdown()
        server.server_close()
        thread.join()


def resettable(**action: object) -> dict[str, object]:
    return {"PowerState": "On", "Actions": {RESET: {"target": TARGET, **action}}}


@pytest.mark.parametrize("reported", ["PoweringOn", "PoweringOff", "Paused", None, 3])
def test_transitional_state_is_unknown(
    odd_controller: tuple[OddController, RedfishDriver], reported: object
) -> None:
    server, driver = odd_controller
    server.respond({"PowerState": reported})

    assert driver.state() is PowerState.UNKNOWN


def test_first_offered_reset_type_is_used(
    odd_controller: tuple[OddController, RedfishDriver],
) -> None:
    server, driver = odd_controller
    server.respond(resettable(**{"ResetType@Redfish.AllowableValues": ["ForceOn"]}))

    driver.on()

    method, path, body = server.requests[-1]
    assert (method, path) == ("POST", TARGET)
    assert json.loads(body) == {"ResetType": "ForceOn"}


def test_default_reset_type_is_used(
    odd_controller: tuple[OddController, RedfishDriver],
) -> None:
    server, driver = odd_controller
    server.respond(resettable())

    driver.off()

    assert json.loads(server.requests[-1][2]) == {"ResetType": "GracefulShutdown"}


def test_reset_type_that_is_not_offered_is_not_sent(
    odd_controller: tuple[OddController, RedfishDriver],
) -> None:
    server, driver = odd_controller
    server.respond(resettable(**{"ResetType@Redfish.AllowableValues": ["ForceOff"]}))

    with pytest.raises(UnsupportedError, match="not supported: GracefulShutdown"):
        driver.off()

    assert [method for method, _, _ in server.requests] == ["GET"]


@pytest.mark.parametrize(
    "target", ["https://elsewhere/reset", "//elsewhere/reset", "reset", "", None]
)
def test_the_password_is_sent_nowhere_else(
    odd_controller: tuple[OddController, RedfishDriver], target: object
) -> None:
    server, driver = odd_controller
    server.respond(resettable(target=target))

    with pytest.raises(UnexpectedResponseError):
        driver.on()

    assert [method for method, _, _ in server.requests] == ["GET"]


def test_redirects_are_not_followed(
    odd_controller: tuple[OddController, RedfishDriver],
) -> None:
    server, driver = odd_controller
    server.respond({}, status=301)
    server.headers["Location"] = "https://elsewhere/redfish/v1/Systems/1"

    with pytest.raises(UnexpectedResponseError, match="redirect"):
        driver.state()


PLACES = {
    "control": "/redfish/v1/\x01",
    "long": f"/{'x' * 70_000}",
    "surrogate": "/\ud800",
    "line": "/x\n",
    "delete": "/\x7f",
}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_invalid_target_path_is_reported(
    odd_controller: tuple[OddController, RedfishDriver], tmp_path: Path, place: str
) -> None:
    server, driver = odd_controller
    alone = driver_of(server, tmp_path, system=None)
    server.respond({**resettable(target=place), "Members": [{"@odata.id": place}]})

    for ask in (alone.state, driver.on):
        with pytest.raises(PlatformError, match="h1: management controller"):
            ask()


def test_unlimited_response_is_rejected(
    odd_controller: tuple[OddController, RedfishDriver],
) -> None:
    server, driver = odd_controller
    server.body = b'{"PowerState": "' + b"x" * (2 << 20)

    with pytest.raises(UnexpectedResponseError, match="response too long"):
        driver.state()


def test_no_proxy_is_used(
    odd_controller: tuple[OddController, RedfishDriver], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, driver = odd_controller
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    server.respond({"PowerState": "On"})

    assert driver.state() is PowerState.ON


DEEP = b"[" * 100_000


def test_unreadable_error_body_is_a_platform_error(
    odd_controller: tuple[OddController, RedfishDriver],
) -> None:
    server, driver = odd_controller
    server.body, server.status = DEEP, 409

    with pytest.raises(PlatformError, match=r"request rejected \(status 409\)$"):
        driver.on()


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"\xff", b"", DEEP], ids="abcde")
def test_unexpected_response_is_reported(
    odd_controller: tuple[OddController, RedfishDriver], body: bytes
) -> None:
    server, driver = odd_controller
    server.body = body

    for ask in (driver.state, driver.on):
        with pytest.raises(UnexpectedResponseError, match="h1: management controller"):
            ask()


def test_busy_controller_is_unavailable(
    odd_controller: tuple[OddController, RedfishDriver],
) -> None:
    server, driver = odd_controller
    server.respond({"error": {"message": "starting\nup"}}, status=503)

    with pytest.raises(PlatformUnavailableError, match=r"status 503: starting up\)"):
        driver.state()


def test_error_message_of_the_controller_is_reported(
    odd_controller: tuple[OddController, RedfishDriver],
) -> None:
    server, driver = odd_controller
    info = [{"Message": "The system is locked. " + "x" * 500}]
    server.respond({"error": {"@Message.ExtendedInfo": info}}, status=409)

    with pytest.raises(PlatformError, match=r"The system is locked\.") as raised:
        driver.on()

    assert len(str(raised.value)) < 300


def test_unresponsive_controller_times_out(
    odd_controller: tuple[OddController, RedfishDriver], tmp_path: Path
) -> None:
    server, _ = odd_controller
    driver = driver_of(server, tmp_path, timeout=0.5)
    server.delay = 1000.0

    with pytest.raises(PlatformUnavailableError, match=r"timeout after 0\.5 s"):
        driver.state()
