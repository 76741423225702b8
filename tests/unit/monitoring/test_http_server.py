"""Server of metrics and health checks, with real connections."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import httpx2
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from opendrs.config.monitoring_settings import MetricsSettings
from opendrs.controller import SystemClock
from opendrs.errors import ConfigurationError
from opendrs.monitoring import http_server
from opendrs.monitoring.health import HealthMonitor
from opendrs.monitoring.http_server import MAX_CONNECTIONS, MonitoringServer
from support.monitored_controller import LOPSIDED
from support.simulated_cluster import SimulatedCluster

SETTINGS = MetricsSettings(listen="127.0.0.1:0")
TIMEOUT = 120.0  # seconds in which the server does something, on a busy machine


class CountingCollector(Collector):
    """Collector that counts how often metrics are formatted."""

    def __init__(self) -> None:
        self.collections = 0

    def collect(self) -> Iterator[GaugeMetricFamily]:
        self.collections += 1
        yield GaugeMetricFamily("x", "help", value=self.collections)


class ServerSetup:
    """A running server."""

    def __init__(self) -> None:
        self.clock = SystemClock()
        self.health = HealthMonitor(self.clock, 3)
        self.registry = CollectorRegistry()
        self.collector = CountingCollector()
        self.registry.register(self.collector)
        self.collector.collections = 0
        self.server = MonitoringServer(SETTINGS, self.registry, self.health, self.clock)

    def get(self, path: str, method: str = "GET") -> httpx2.Response:
        url = f"http://{self.server.address}{path}"
        return httpx2.request(method, url, timeout=TIMEOUT)

    def connect(self) -> socket.socket:
        host, _, port = self.server.address.rpartition(":")
        return socket.create_connection((host, int(port)), timeout=TIMEOUT)


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Iterator[ServerSetup]:
    monkeypatch.setattr(http_server, "CONNECTION_TIMEOUT", TIMEOUT)
    handler = http_server._MonitoringHandler  # noqa: SLF001 - a busy machine
    monkeypatch.setattr(handler, "timeout", TIMEOUT)
    found = ServerSetup()
    with found.server:
        yield found


def test_metrics_are_served_as_text(running: ServerSetup) -> None:
    response = running.get("/metrics")

    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "\nx 1.0\n" in response.text


def test_status_paths_follow_the_health(running: ServerSetup) -> None:
    before = [running.get(path).status_code for path in ("/health", "/ready")]
    running.health.lease_acquired(SimulatedCluster(LOPSIDED).store)
    running.health._record_progress()  # noqa: SLF001 - as a finished cycle does
    after = [running.get(path) for path in ("/health", "/ready")]

    assert before == [200, 503]
    assert [each.status_code for each in after] == [200, 200]
    assert [each.json()["ok"] for each in after] == [True, True]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "OPTIONS", "X"])
def test_other_methods_are_rejected(running: ServerSetup, method: str) -> None:
    response = running.get("/metrics", method)

    assert response.status_code == 405
    assert response.headers["allow"] == "GET"


def test_unknown_path_is_not_found(running: ServerSetup) -> None:
    response = running.get("/secrets?token=hidden")

    assert response.status_code == 404
    assert "hidden" not in response.text


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /metrics HTTP/9.9\r\n\r\n",
        b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 200 + b"\r\n",
        b"",
    ],
)
def test_malformed_request_is_answered_or_closed(
    running: ServerSetup, request_bytes: bytes
) -> None:
    with running.connect() as connection:
        connection.sendall(request_bytes)
        connection.shutdown(socket.SHUT_WR)
        try:
            answer = connection.recv(65536)
        except ConnectionResetError:
            answer = b""

    assert b"opendrs" not in request_bytes
    assert not answer or b" 4" in answer or b" 5" in answer or b"malformed" in answer
    assert running.get("/metrics").status_code == 200


def test_excess_connections_are_closed(running: ServerSetup) -> None:
    with ExitStack() as stack:
        for _ in range(MAX_CONNECTIONS):
            stack.enter_context(running.connect())
        _wait_for_connections(running, MAX_CONNECTIONS)
        excess = stack.enter_context(running.connect())
        assert excess.recv(1) == b""

    _wait_for_connections(running, 0)
    assert running.get("/metrics").status_code == 200


def test_slow_connection_is_closed(
    running: ServerSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "CONNECTION_TIMEOUT", 0.5)
    started = time.monotonic()
    with running.connect() as connection:
        while _is_open(connection):
            assert time.monotonic() - started < TIMEOUT
            time.sleep(0.05)  # noqa: TID251 - a slow client


def test_metrics_are_formatted_once_in_a_second(running: ServerSetup) -> None:
    started = time.monotonic()
    for _ in range(20):
        running.get("/metrics")
    elapsed = time.monotonic() - started

    assert running.collector.collections <= elapsed + 1


def test_end_of_server_closes_connections() -> None:
    found = ServerSetup()
    with found.server:
        connection = found.connect()
        _wait_for_connections(found, 1)

    assert connection.recv(1) == b""
    connection.close()


def test_address_in_use_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        registry, clock = CollectorRegistry(), SystemClock()

        with pytest.raises(ConfigurationError, match=r"metrics\.listen: .* in use"):
            MonitoringServer(
                MetricsSettings(listen=listen),
                registry,
                HealthMonitor(clock, 3),
                clock,
            )


def _is_open(connection: socket.socket) -> bool:
    """Return False once the server has closed *connection*; send one more byte."""
    try:
        connection.sendall(b"A")
    except OSError:
        return False
    return True


def _wait_for_connections(running: ServerSetup, count: int) -> None:
    deadlines = running.server._server._deadlines  # noqa: SLF001 - not visible outside
    end = time.monotonic() + TIMEOUT
    while len(deadlines) != count:
        assert time.monotonic() < end, len(deadlines)
        time.sleep(0.01)  # noqa: TID251 - for another thread
