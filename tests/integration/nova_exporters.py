"""Exporters of a cloud, and a real Prometheus that scrapes them.

Nova's simulated hypervisors have no load. The guests here are given one, and the load
of a host is the sum over the guests that Nova has there.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx2
import pytest

from integration.nova_lab import HOSTS, NovaLab
from opendrs.model import GIB, GuestId
from support.network import free_port

INTERVAL = 0.5  # seconds between scrapes
WINDOW = 4.0  # seconds
NODE_MEMORY = 8  # GiB, of the simulated hypervisors


class CloudExporter:
    """Metrics in the formats of node_exporter and prometheus-libvirt-exporter.

    Args:
        lab: The cloud.
        load: Busy cores by guest; each also uses half as many GiB.
    """

    def __init__(self, lab: NovaLab, load: Mapping[GuestId, float]) -> None:
        self._lab, self._load = lab, load
        self._seconds: dict[str, float] = dict.fromkeys((*HOSTS, *load), 0.0)  # of CPU
        self._uuids = {guest: lab.uuid(guest) for guest in load}
        self._lock = threading.Lock()
        self._hosts: dict[GuestId, str] = {}
        self._counted_at = time.monotonic()
        self._ended = threading.Event()
        self._count()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.port = self._server.server_address[1]
        self._threads = [
            threading.Thread(target=self._server.serve_forever, daemon=True),
            threading.Thread(target=self._keep_counting, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()
        for thread in self._threads:
            thread.join()

    def _keep_counting(self) -> None:
        while not self._ended.wait(INTERVAL):
            self._count()

    def _count(self) -> None:
        servers = self._lab.compute.servers(all_projects=True)
        host_of = {each.id: str(each.compute_host) for each in servers}
        with self._lock:
            now = time.monotonic()
            elapsed, self._counted_at = now - self._counted_at, now
            for guest, uuid in self._uuids.items():
                self._hosts[guest] = host_of[uuid]
                for name in (guest, host_of[uuid]):
                    self._seconds[name] += self._load[guest] * elapsed

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        exporter = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                text = exporter.metrics(self.path.removeprefix("/")).encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                del format, args

        return Handler

    def metrics(self, target: str) -> str:
        """Return the metrics of a host, or of all guests for the target `guests`."""
        with self._lock:
            lines = self._guests() if target == "guests" else self._host(target)
        return "\n".join([*lines, ""])

    def _host(self, host: str) -> list[str]:
        here = [guest for guest, node in self._hosts.items() if node == host]
        used = sum(self._load[guest] for guest in here) / 2
        return [
            f'node_uname_info{{nodename="{host}"}} 1',
            f'node_cpu_seconds_total{{cpu="0",mode="user"}} {self._seconds[host]}',
            f"node_memory_MemTotal_bytes {NODE_MEMORY * GIB}",
            f"node_memory_MemAvailable_bytes {(NODE_MEMORY - used) * GIB}",
        ]

    def _guests(self) -> list[str]:
        lines: list[str] = []
        prefix = "libvirt_domain"
        for guest, uuid in self._uuids.items():
            seconds, memory = self._seconds[guest], self._load[guest] / 2 * GIB
            label = f'domain="instance-{uuid[:8]}"'
            info = f'{label},instance_name="{guest.rpartition("/")[0]}"'
            lines += [
                f'{prefix}_openstack_info{{{info},instance_id="{uuid}"}} 1',
                f"{prefix}_info_cpu_time_seconds_total{{{label}}} {seconds}",
                f"{prefix}_info_memory_usage_bytes{{{label}}} {memory}",
            ]
        return lines


@contextmanager
def monitored(
    lab: NovaLab, load: Mapping[GuestId, float], directory: Path
) -> Iterator[str]:
    """Yield the URL of a Prometheus that has measured *load* over a whole window."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("prometheus is not installed (Debian package prometheus)")
    exporter, port = CloudExporter(lab, load), free_port()
    jobs = [
        {
            "job_name": name,
            "metrics_path": f"/{name}",
            "static_configs": [
                {
                    "targets": [f"127.0.0.1:{exporter.port}"],
                    "labels": {"instance": name},
                }
            ],
        }
        for name in (*HOSTS, "guests")
    ]
    interval = f"{INTERVAL * 1000:.0f}ms"
    limits = {"scrape_interval": interval, "scrape_timeout": interval}
    configuration = directory / "prometheus.yml"  # JSON is YAML
    configuration.write_text(json.dumps({"global": limits, "scrape_configs": jobs}))
    process = subprocess.Popen(  # noqa: S603 - a real server
        [
            program,
            f"--config.file={configuration}",
            f"--storage.tsdb.path={directory / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        _wait_for_window(url)
        yield url
    finally:
        process.kill()
        process.wait()
        exporter.close()


def _wait_for_window(url: str) -> None:
    query = f"count_over_time(libvirt_domain_openstack_info[{WINDOW:.0f}s])"
    until = time.monotonic() + 60
    while time.monotonic() < until:
        threading.Event().wait(INTERVAL)
        try:
            answer = httpx2.get(f"{url}/api/v1/query", params={"query": query})
            series = answer.json()["data"]["result"]
        except (httpx2.HTTPError, ValueError, KeyError):
            continue
        if series and all(float(each["value"][1]) >= 6 for each in series):
            return
    pytest.fail("Prometheus has no samples after 60 s")
