"""HTTP server for metrics and health checks, with limits on every resource.

It runs in threads of the controller and shares nothing with the cycle but values that
are replaced as a whole. At most `MAX_CONNECTIONS` clients are served at the same time,
none for longer than `CONNECTION_TIMEOUT`, and metrics are formatted at most once in
`CACHE_TIME`, so that requests cannot occupy the controller.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import BaseServer, ThreadingMixIn
from types import TracebackType
from typing import Any, Self, cast

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from opendrs.config.monitoring_settings import MetricsSettings
from opendrs.monitoring.health import HealthMonitor, HealthStatus
from opendrs.ports import Clock
from opendrs.transport.listening import listening_socket, socket_address

MAX_CONNECTIONS = 8  # served at the same time; others are closed
CONNECTION_TIMEOUT = 10.0  # seconds from the connection to the end of the response
CACHE_TIME = 1.0  # seconds in which the same text is sent
_POLL_INTERVAL = 0.5  # seconds between two checks of the age of connections
_JSON = "application/json"
_TEXT = "text/plain; charset=utf-8"


class MonitoringServer:
    """Server of `/metrics`, `/health` and `/ready`; used in a `with` statement.

    Args:
        settings: The address.
        registry: The metrics.
        health: The health checks.
        clock: The time.

    Raises:
        ConfigurationError: The address cannot be used.
    """

    def __init__(
        self,
        settings: MetricsSettings,
        registry: CollectorRegistry,
        health: HealthMonitor,
        clock: Clock,
    ) -> None:
        listening = listening_socket("metrics", settings.listen, settings.address)
        self._server = _LimitedServer(
            listening, _CachedMetrics(registry, clock), health, clock
        )
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            args=(_POLL_INTERVAL,),
            name="metrics",
            daemon=True,
        )

    @property
    def address(self) -> str:
        """Return the address and the port, as in a URL."""
        return socket_address(self._server.socket)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


class _CachedMetrics:
    """Formatted metrics, kept for a short time."""

    def __init__(self, registry: CollectorRegistry, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock
        self._lock = threading.Lock()
        self._formatted_at: float | None = None
        self._text = b""

    def format(self) -> bytes:
        """Return the metrics in the text format."""
        with self._lock:
            now = self._clock.monotonic()
            if self._formatted_at is None or now - self._formatted_at >= CACHE_TIME:
                self._text = generate_latest(self._registry)
                self._formatted_at = now
            return self._text


class _LimitedServer(ThreadingMixIn, BaseServer):
    """Server with a limited number of connections of a limited duration."""

    daemon_threads = True
    block_on_close = False

    def __init__(
        self,
        listening: socket.socket,
        metrics: _CachedMetrics,
        health: HealthMonitor,
        clock: Clock,
    ) -> None:
        super().__init__(listening.getsockname(), _MonitoringHandler)
        self.socket = listening
        self.metrics = metrics
        self.health = health
        self._clock = clock
        self._pause = threading.Event()
        self._lock = threading.Lock()
        self._deadlines: dict[socket.socket, float] = {}

    def fileno(self) -> int:
        """Return the file descriptor of the listening socket."""
        return self.socket.fileno()

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection.

        Raises:
            OSError: No file descriptor is left. The next attempt is delayed.
        """
        try:
            return self.socket.accept()
        except OSError:
            self._pause.wait(_POLL_INTERVAL)
            raise

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ANN401 - as declared
        """Return False, so that the connection is closed, if too many are open."""
        del client_address
        with self._lock:
            if len(self._deadlines) >= MAX_CONNECTIONS:
                return False
            self._deadlines[request] = self._clock.monotonic() + CONNECTION_TIMEOUT
            return True

    def service_actions(self) -> None:
        """Shut down connections that exceed their time; called repeatedly."""
        now = self._clock.monotonic()
        with self._lock:
            for connection, deadline in self._deadlines.items():
                if now > deadline:
                    with suppress(OSError):
                        connection.shutdown(socket.SHUT_RDWR)

    def shutdown_request(self, request: Any) -> None:  # noqa: ANN401 - as declared
        """Close a connection."""
        with suppress(OSError):
            request.shutdown(socket.SHUT_WR)
        self.close_request(request)

    def close_request(self, request: Any) -> None:  # noqa: ANN401 - as declared
        """Close a connection, which another one may replace."""
        with self._lock:
            self._deadlines.pop(request, None)
        request.close()

    def server_close(self) -> None:
        """Close the listening socket and all connections."""
        self.socket.close()
        with self._lock:
            for connection in self._deadlines:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as declared
        """Ignore the error of a connection, such as its early end by the client."""


class _MonitoringHandler(BaseHTTPRequestHandler):
    """Handler of one connection with one request."""

    timeout = CONNECTION_TIMEOUT
    server_version = "opendrs"
    sys_version = ""

    def parse_request(self) -> bool:
        """Return True if the request is valid and can be processed."""
        if not super().parse_request():
            return False
        if self.command != "GET":
            status = HTTPStatus.METHOD_NOT_ALLOWED
            self._respond(status, b"only GET is supported\n", _TEXT, allow=True)
            return False
        return True

    def do_GET(self) -> None:
        """Respond to a request."""
        server = cast("_LimitedServer", self.server)
        routes: dict[str, Callable[[], None]] = {
            "/metrics": self._respond_metrics,
            "/health": lambda: self._respond_status(server.health.liveness),
            "/ready": lambda: self._respond_status(server.health.readiness),
        }
        respond = routes.get(self.path.partition("?")[0])
        if respond is None:
            paths = ", ".join(routes)
            text = f"unknown path; expected one of {paths}\n"
            self._respond(HTTPStatus.NOT_FOUND, text.encode(), _TEXT)
        else:
            respond()

    def _respond_metrics(self) -> None:
        server = cast("_LimitedServer", self.server)
        text = server.metrics.format()
        self._respond(HTTPStatus.OK, text, CONTENT_TYPE_PLAIN_0_0_4)

    def _respond_status(self, status: HealthStatus) -> None:
        code = HTTPStatus.OK if status.ok else HTTPStatus.SERVICE_UNAVAILABLE
        text = json.dumps({"ok": status.ok, "detail": status.detail})
        self._respond(code, f"{text}\n".encode(), _JSON)

    def _respond(
        self, status: HTTPStatus, body: bytes, content_type: str, *, allow: bool = False
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        if allow:
            self.send_header("Allow", "GET")
        self.end_headers()
        self.wfile.write(body)

    def send_error(
        self, code: int, message: str | None = None, explain: str | None = None
    ) -> None:
        """Respond that a request is malformed, without its content."""
        del message, explain
        self._respond(HTTPStatus(code), b"malformed request\n", _TEXT)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as declared
        """Log nothing: every client could fill the log."""
