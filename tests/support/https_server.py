"""HTTPS server on loopback with a certificate of its own, answering by a function."""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from urllib.parse import parse_qsl, urlsplit

import trustme


@dataclass(frozen=True)
class Request:
    """A request as the server received it; headers have lower-case names."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...]
    headers: Mapping[str, str]
    body: bytes

    @property
    def form(self) -> tuple[tuple[str, str], ...]:
        return tuple(parse_qsl(self.body.decode(), keep_blank_values=True))


@dataclass(frozen=True)
class Answer:
    """An answer.

    Attributes:
        content_length: The length that is announced, if it is not that of the body.
        delay: Seconds before the answer.
        headers: All headers, repeated ones too; None for content type and length. The
            connection is closed if one of them says so.
    """

    status: int
    reason: str
    body: bytes = b""
    content_type: str = "application/json;charset=UTF-8"
    content_length: int | None = None
    delay: float = 0.0
    headers: tuple[tuple[str, str], ...] | None = None

    @property
    def all_headers(self) -> tuple[tuple[str, str], ...]:
        """Return the headers as they are sent."""
        if self.headers is not None:
            return self.headers
        length = len(self.body) if self.content_length is None else self.content_length
        return ("Content-Type", self.content_type), ("Content-Length", str(length))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 120
    wbufsize = 1 << 16
    disable_nagle_algorithm = True

    def _serve(self) -> None:
        server = self.server
        assert isinstance(server, _Server)
        length = int(self.headers.get("Content-Length") or 0)
        parts = urlsplit(self.path)
        request = Request(
            self.command,
            parts.path,
            tuple(parse_qsl(parts.query, keep_blank_values=True)),
            {name.lower(): value for name, value in self.headers.items()},
            self.rfile.read(length),
        )
        server.requests.append(request)
        answer = server.respond(request)
        if answer.delay and server.stopping.wait(answer.delay):
            self.close_connection = True
            return
        ends = False
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.all_headers:
            self.send_header(name, value)
            closes = name == "Connection" and value == "close"
            wrong = name == "Content-Length" and value != str(len(answer.body))
            ends = ends or closes or wrong
        self.end_headers()
        self.wfile.write(answer.body)
        self.close_connection = self.close_connection or ends

    do_GET = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815 - http.server's

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Write nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    respond: Callable[[Request], Answer]
    context: ssl.SSLContext
    requests: list[Request]
    stopping: Event

    def finish_request(self, request: object, client_address: object) -> None:
        try:
            with self.context.wrap_socket(request, server_side=True) as connection:  # type: ignore[arg-type]
                super().finish_request(connection, client_address)
        except OSError:
            pass  # the client did not trust the certificate, or has gone

    def shutdown_request(self, request: object) -> None:
        request.close()  # type: ignore[attr-defined]

    def handle_error(self, request: object, client_address: object) -> None:
        """Write nothing about connections that the client closed."""


@dataclass(frozen=True)
class Certificate:
    """A certificate for 127.0.0.1 and its authority."""

    authority: trustme.CA = field(default_factory=trustme.CA)
    leaf: trustme.LeafCert = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "leaf", self.authority.issue_cert("127.0.0.1"))

    @property
    def fingerprint(self) -> str:
        der = ssl.PEM_cert_to_DER_cert(self.leaf.cert_chain_pems[0].bytes().decode())
        digest = hashlib.sha256(der).hexdigest().upper()
        return ":".join(digest[i : i + 2] for i in range(0, len(digest), 2))

    def write_authority(self, path: Path) -> Path:
        self.authority.cert_pem.write_to_path(path)
        return path


@dataclass(frozen=True)
class HttpsServer:
    """A running server.

    Attributes:
        host: Its address as `HOST:PORT`.
        requests: The requests so far.
    """

    host: str
    requests: list[Request]
    _server: _Server

    @property
    def port(self) -> int:
        return int(self.host.partition(":")[2])

    def replace(self, respond: Callable[[Request], Answer]) -> None:
        """Answer by *respond* from now on."""
        self._server.respond = respond

    def present(self, certificate: Certificate) -> None:
        """Use another certificate for new connections."""
        self._server.context = _context(certificate)


@contextmanager
def https_server(
    respond: Callable[[Request], Answer], certificate: Certificate, port: int = 0
) -> Iterator[HttpsServer]:
    """Run a server on loopback that answers by *respond*."""
    server = _Server(("127.0.0.1", port), _Handler)
    server.respond = respond
    server.context = _context(certificate)
    server.requests = []
    server.stopping = Event()
    thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        address = f"127.0.0.1:{server.server_address[1]}"
        yield HttpsServer(address, server.requests, server)
    finally:
        server.stopping.set()
        server.shutdown()
        server.server_close()
        thread.join()


def _context(certificate: Certificate) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.leaf.configure_cert(context)
    return context
