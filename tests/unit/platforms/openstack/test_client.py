"""Requests of the client, against a server on this machine."""

from __future__ import annotations

import importlib.util
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from pathlib import Path
from typing import Any

import pytest

from opendrs.errors import (
    ConfigurationError,
    PermissionDeniedError,
    PlatformError,
    PlatformUnavailableError,
    UnexpectedResponseError,
)
from opendrs.platforms.openstack import client as client_module
from opendrs.platforms.openstack.client import (
    ConflictError,
    NotFoundError,
    OpenStackClient,
)
from opendrs.platforms.openstack.settings import OpenStackSettings
from opendrs.transport.secrets import credential_path

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("openstack") is None,
    reason="openstacksdk is not installed",
)

TOKEN = "s3cret-token"  # noqa: S105 - of the test
Answer = tuple[int, object]


class Cloud:
    """HTTP server that answers as Nova.

    Attributes:
        answers: Status and body by path; text is sent as it is.
        requests: Requests in the order of their arrival.
        version: Newest microversion.
        discovery_delay: Seconds before the response to discovery.
        byte_delay: Seconds before each byte of other responses.
    """

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.requests: list[tuple[str, str, str | None]] = []
        self.version = "2.96"
        self.discovery_delay = self.byte_delay = 0.0
        self.ended = threading.Event()
        cloud = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                path = self.path.partition("?")[0]
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                status, body = cloud.answers.get(path, (200, cloud.discovery()))
                if path.rstrip("/") == "/v2.1":
                    cloud.ended.wait(cloud.discovery_delay)
                else:
                    version = self.headers.get("OpenStack-API-Version")
                    cloud.requests.append((self.command, self.path, version))
                text = body if isinstance(body, str) else json.dumps(body)
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                if status == 302:
                    self.send_header("Location", "/v2.1/elsewhere")
                self.end_headers()
                with suppress(OSError):  # the client has closed the connection
                    cloud.write(self.wfile, text.encode(), path)

            do_GET = do_POST = do_DELETE = _answer  # noqa: N815 - of http.server

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                del format, args

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(
            target=self.server.serve_forever, args=(0.02,), daemon=True
        ).start()

    def write(self, file: BufferedIOBase, content: bytes, path: str) -> None:
        if not self.byte_delay or path.rstrip("/") == "/v2.1":
            file.write(content)
            return
        for byte in content:
            if self.ended.wait(self.byte_delay):
                return
            file.write(bytes([byte]))

    def discovery(self) -> object:
        link = {"rel": "self", "href": f"{self.url}/v2.1/"}
        return {
            "version": {
                "id": "v2.1",
                "status": "CURRENT",
                "version": self.version,
                "min_version": "2.1",
                "links": [link],
            }
        }


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    served = Cloud()
    try:
        yield served
    finally:
        served.ended.set()
        served.server.shutdown()
        served.server.server_close()


@pytest.fixture
def connect(cloud: Cloud, tmp_path: Path) -> Callable[..., OpenStackClient]:
    """Return a function that creates a client; a user has set retries."""
    path = tmp_path / "clouds.yaml"
    path.write_text(f"""\
clouds:
  lab:
    auth_type: admin_token
    auth: {{endpoint: '{cloud.url}/v2.1', token: {TOKEN}}}
    compute_endpoint_override: {cloud.url}/v2.1
    placement_endpoint_override: {cloud.url}/placement
    compute_status_code_retries: 2
""")

    def create(**changes: Any) -> OpenStackClient:  # noqa: ANN401
        plain = {"cloud": "lab", "clouds_file": path, "timeout": 60.0}
        return OpenStackClient("prod", OpenStackSettings(**{**plain, **changes}))

    return create


Connect = Callable[..., OpenStackClient]


@pytest.mark.parametrize(
    ("newest", "used"), [("2.96", "2.96"), ("2.200", "2.96"), ("2.90", "2.79")]
)
def test_client_uses_newest_known_microversion(
    cloud: Cloud, connect: Connect, newest: str, used: str
) -> None:
    cloud.version = newest
    cloud.answers["/v2.1/servers"] = 200, {"servers": []}

    connect().get("/servers")

    assert cloud.requests == [("GET", "/v2.1/servers", f"compute {used}")]


def test_client_rejects_nova_that_is_too_old(cloud: Cloud, connect: Connect) -> None:
    cloud.version = "2.60"

    with pytest.raises(UnexpectedResponseError, match=r"2\.79"):
        connect().get("/servers")


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, PlatformError),
        (403, PermissionDeniedError),
        (404, NotFoundError),
        (409, ConflictError),
        (429, PlatformUnavailableError),
        (500, PlatformUnavailableError),
        (503, PlatformUnavailableError),
        (302, PlatformError),
    ],
)
def test_error_status_is_error_with_message_of_nova(
    cloud: Cloud, connect: Connect, status: int, error: type[PlatformError]
) -> None:
    body = {"fault": {"code": status, "message": "No valid\nhost"}}
    cloud.answers["/v2.1/servers/1/action"] = status, body

    with pytest.raises(error, match="No valid host") as caught:
        connect().post("/servers/1/action", {})

    assert TOKEN not in str(caught.value)
    assert len(cloud.requests) == 1  # nothing that changes is sent twice


def test_reads_are_retried(cloud: Cloud, connect: Connect) -> None:
    cloud.answers["/v2.1/servers"] = 503, "busy"

    with pytest.raises(PlatformUnavailableError):
        connect().get("/servers")

    assert len(cloud.requests) == client_module.ATTEMPTS


@pytest.mark.parametrize("body", ["", "<html>", '{"servers": [', "[" * 100_000])
def test_response_that_is_no_json_is_unexpected(
    cloud: Cloud, connect: Connect, body: str
) -> None:
    cloud.answers["/v2.1/servers"] = 200, body

    with pytest.raises(UnexpectedResponseError):
        connect().get("/servers")


@pytest.mark.parametrize("body", [[], {}, {"servers": None}, {"servers": {}}])
def test_list_of_other_form_is_unexpected(
    cloud: Cloud, connect: Connect, body: object
) -> None:
    cloud.answers["/v2.1/servers"] = 200, body

    with pytest.raises(UnexpectedResponseError):
        connect().get_list("/servers", "servers")


def test_response_over_the_limit_is_unexpected(
    cloud: Cloud, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "MAX_BODY_SIZE", 1000)
    cloud.answers["/v2.1/servers"] = 200, {"servers": ["x" * 2000]}

    with pytest.raises(UnexpectedResponseError, match="too long"):
        connect().get("/servers")


def until_available(call: Callable[[], object]) -> int:
    """Repeat *call* until a busy machine is fast enough; return how often it was."""
    for attempt in range(1, 60):
        with suppress(PlatformUnavailableError):
            call()
            return attempt
    pytest.fail("it is not available")


def test_response_that_is_sent_slowly_is_unavailable_after_timeout(
    cloud: Cloud, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "ATTEMPTS", 1)
    client = connect(timeout=1.0)
    cloud.answers["/v2.1/servers"] = 200, {"servers": ["x" * 2000]}
    until_available(lambda: client.get("/servers"))
    cloud.byte_delay = 0.1

    with pytest.raises(PlatformUnavailableError, match="timeout after 1 s"):
        client.get("/servers")


def test_request_is_not_sent_after_its_timeout(cloud: Cloud, connect: Connect) -> None:
    cloud.discovery_delay = 0.8  # of each of its requests
    client = connect(timeout=1.0)

    with pytest.raises(PlatformUnavailableError):
        client.post("/servers/1/action", {})
    cloud.discovery_delay = 0.0
    cloud.ended.wait(2.0)

    assert cloud.requests == []
    # The connection was made meanwhile.
    attempts = until_available(lambda: client.post("/servers/1/action", {}))
    assert 1 <= len(cloud.requests) <= attempts


def test_list_is_read_page_by_page(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = iter(
        [
            {"servers": [{"id": "a"}], "servers_links": [{"rel": "next"}]},
            {"servers": [{"id": "b"}]},
        ]
    )
    client = connect()
    seen: list[dict[str, object]] = []

    def get(_: str, **parameters: object) -> object:
        seen.append(parameters)
        return next(pages)

    monkeypatch.setattr(client, "get", get)

    found = client.get_list("/servers", "servers", all_tenants=1)

    assert [each["id"] for each in found] == ["a", "b"]
    assert [each.get("marker") for each in seen] == [None, "a"]


@pytest.mark.parametrize("by_offset", [True, False])
def test_list_that_does_not_end_is_unexpected(
    cloud: Cloud, connect: Connect, *, by_offset: bool
) -> None:
    body = {"servers": [{"id": "a"}], "servers_links": [{"rel": "next"}]}
    cloud.answers["/v2.1/servers"] = 200, body

    with pytest.raises(UnexpectedResponseError, match="same page twice"):
        connect().get_list("/servers", "servers", by_offset=by_offset)

    assert len(cloud.requests) == 2


def test_list_has_a_limit_of_pages(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "MAX_PAGES", 3)
    pages = iter(range(10))
    client = connect()
    monkeypatch.setattr(client, "get", lambda *_, **__: {"groups": [next(pages)]})

    with pytest.raises(UnexpectedResponseError, match="more than 3 pages"):
        client.get_list("/groups", "groups", by_offset=True)


def test_unreachable_cloud_is_unavailable(cloud: Cloud, connect: Connect) -> None:
    cloud.server.shutdown()
    cloud.server.server_close()

    with pytest.raises(PlatformUnavailableError):
        connect(timeout=0.5).get("/servers")


@pytest.mark.parametrize(
    "changes", [{"cloud": "other"}, {"clouds_file": Path("/missing/clouds.yaml")}]
)
def test_unknown_cloud_or_file_is_configuration_error(
    connect: Connect, changes: dict[str, Any]
) -> None:
    with pytest.raises(ConfigurationError):
        connect(**changes).get("/servers")


def test_clouds_file_is_found_among_credentials_of_systemd(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "clouds.yaml").write_text("clouds: {}\n")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))

    found = credential_path(Path("/missing/clouds.yaml"))

    assert found == tmp_path / "clouds.yaml"


def test_token_is_not_in_the_representation(connect: Connect) -> None:
    client = connect()

    assert TOKEN not in repr(client)
    assert client.identity().text == "by token"
