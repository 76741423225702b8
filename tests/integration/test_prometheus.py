"""Load from a real Prometheus that scrapes metrics in the formats of the exporters."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from opendrs.cli.online_check import check_online
from opendrs.cli.platforms import PLATFORMS, connect_platform
from opendrs.config.settings_reading import read_settings
from opendrs.config.snapshot_writing import snapshot_document
from opendrs.errors import (
    PlatformError,
    PlatformUnavailableError,
    UnexpectedResponseError,
)
from opendrs.model import GIB, Guest, Node, NodeId, Snapshot, Usage
from opendrs.platforms.prometheus import MeasuredPlatform, PrometheusSettings
from opendrs.platforms.prometheus.client import PrometheusClient
from opendrs.platforms.prometheus.reading import values_of
from opendrs.platforms.prometheus.settings import EXPORTERS, LoadQueries, Measure
from opendrs.policies.balance import Balance
from opendrs.simulation import SimulatedClock, SimulatedPlatform
from support import command_cluster
from support.builders import cluster
from support.howto_pages import HowToPage
from support.network import free_port
from support.pve_cluster import PveCluster, PveGuest, PveNode
from support.pve_double import TOKEN_VARIABLE
from support.pve_fixtures import PVE_MARKS, Serve, platform_of, serve
from support.terminal import RunOpendrs
from unit.cli.conftest import opendrs

__all__ = ["opendrs", "serve"]  # fixtures

SCRAPE_INTERVAL = 0.5  # seconds
TIMEOUT = 120.0  # seconds until all is measured, on a busy machine
WINDOW = 5.0  # seconds
TOLERANCE = 0.25  # of rates, relative
pause = threading.Event().wait
A, B = NodeId("pve1"), NodeId("pve2")
LOAD = {"pve1": 8.0, "pve2": 1.0, "vm:101": 3.0, "vm:102": 4.0}  # busy cores
UUIDS = {
    "vm:101": "3abbc260-0deb-4b58-b59e-f814b8066fcb",
    "vm:102": "86fb2389-0de3-4eb5-ab7e-6fb7fad6616a",
}
MEMORY = {"pve1": 60, "pve2": 20, "vm:101": 10, "vm:102": 20}  # GiB


def with_double(test: Callable[..., None]) -> Callable[..., None]:
    """Mark a test that uses the double of Proxmox VE."""
    for mark in PVE_MARKS:
        test = mark(test)
    return test


class Exporter:
    """HTTP server with metrics, as an exporter prints them.

    Attributes:
        silent: True to respond with an error.
        excluded: Nodes and guests that have no metrics.
    """

    def __init__(self) -> None:
        self.silent = False
        self.excluded: set[str] = set()
        exporter, started = self, time.monotonic()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                text = exporter.metrics(time.monotonic() - started).encode()
                self.send_response(500 if exporter.silent else 200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                del format, args

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def metrics(self, elapsed: float) -> str:
        lines: list[str] = []
        for name in LOAD:
            if name not in self.excluded:
                lines += _pve_metrics(name) + _libvirt_metrics(name, elapsed)
        return "\n".join(lines) + "\n"


def _pve_metrics(name: str) -> list[str]:
    kind, _, number = name.partition(":")
    label = f'{{id="qemu/{number}"}}' if kind == "vm" else f'{{id="node/{name}"}}'
    return [
        f"pve_cpu_usage_ratio{label} {LOAD[name] / 10}",
        f"pve_cpu_usage_limit{label} 10",
        f"pve_memory_usage_bytes{label} {MEMORY[name] * GIB}",
    ]


def _libvirt_metrics(name: str, elapsed: float) -> list[str]:
    if ":" not in name:
        return []
    domain = f'{{domain="{name}"}}'
    identity = f'instance_name="{name}",instance_id="{UUIDS[name]}"'
    info = f'{{domain="{name}",{identity}}}'
    return [
        f"libvirt_domain_info_cpu_time_seconds_total{domain} {LOAD[name] * elapsed}",
        f"libvirt_domain_info_memory_usage_bytes{domain} {MEMORY[name] * GIB}",
        f"libvirt_domain_openstack_info{info} 1",
    ]


class NodeExporter(Exporter):
    """Exporter of one node, in the format of node_exporter."""

    def __init__(self, name: str) -> None:
        self._name = name
        super().__init__()

    def metrics(self, elapsed: float) -> str:
        busy, used = LOAD[self._name] * elapsed, MEMORY[self._name]
        return "\n".join(
            [
                f'node_uname_info{{nodename="{self._name}"}} 1',
                f'node_cpu_seconds_total{{cpu="0",mode="idle"}} {elapsed}',
                f'node_cpu_seconds_total{{cpu="0",mode="user"}} {busy / 4}',
                f'node_cpu_seconds_total{{cpu="1",mode="system"}} {busy * 3 / 4}',
                f"node_memory_MemTotal_bytes {100 * GIB}",
                f"node_memory_MemAvailable_bytes {(100 - used) * GIB}",
                "",
            ]
        )


@dataclass(frozen=True)
class Monitoring:
    """A Prometheus server, and what it scrapes."""

    url: str
    process: subprocess.Popen[bytes]
    cluster: Exporter
    nodes: dict[NodeId, NodeExporter]

    def settings(self, **changes: Any) -> PrometheusSettings:  # noqa: ANN401
        return replace(
            PrometheusSettings(
                url=self.url,
                exporters=("pve",),
                window=WINDOW,
                max_age=60.0,
                timeout=60.0,
            ),
            **changes,
        )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitoring]:
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("prometheus is not installed (Debian package prometheus)")
    directory = tmp_path_factory.mktemp("prometheus")
    exporter = Exporter()
    nodes = {name: NodeExporter(name) for name in (A, B)}
    port = free_port()
    process = _start(program, directory, port, exporter, nodes)
    monitoring = Monitoring(f"http://127.0.0.1:{port}", process, exporter, nodes)
    try:
        _wait_until_measured(monitoring)
        yield monitoring
    finally:
        process.kill()
        process.wait()
        for each in (exporter, *nodes.values()):
            each.close()


def _start(
    program: str,
    directory: Path,
    port: int,
    exporter: Exporter,
    nodes: dict[NodeId, NodeExporter],
) -> subprocess.Popen[bytes]:
    jobs = [
        {"job_name": "cluster", "static_configs": [_target(exporter)]},
        {"job_name": "node", "static_configs": [_target(n) for n in nodes.values()]},
    ]
    interval = f"{SCRAPE_INTERVAL * 1000:.0f}ms"
    configuration = {
        "global": {"scrape_interval": interval, "scrape_timeout": interval},
        "scrape_configs": jobs,
    }
    path = directory / "prometheus.yml"  # JSON is YAML
    path.write_text(json.dumps(configuration), encoding="utf-8")
    return subprocess.Popen(  # noqa: S603 - the server under test
        [
            program,
            f"--config.file={path}",
            f"--storage.tsdb.path={directory / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _target(exporter: Exporter) -> dict[str, list[str]]:
    return {"targets": [f"127.0.0.1:{exporter.port}"]}


def _wait_until_measured(monitoring: Monitoring) -> None:
    for exporters in [("pve",), ("node", "libvirt")]:
        _measured_snapshot(monitoring, exporters)


def _measured_snapshot(monitoring: Monitoring, exporters: tuple[str, ...]) -> Snapshot:
    """Return a snapshot when all rates are near those of the exporters.

    A rate over a window that samples cover in part is too low: in the beginning, and
    on a busy machine where scrapes are late.
    """
    platform = measured(monitoring.settings(exporters=exporters))
    deadline = time.monotonic() + TIMEOUT
    found: dict[str, float | None] = {}
    while time.monotonic() < deadline:
        assert monitoring.process.poll() is None
        with suppress(PlatformUnavailableError, UnexpectedResponseError):
            snapshot = platform.observe()
            found = {each.id: each.usage.cpu for each in _parts(snapshot)}
            if found == pytest.approx(LOAD, rel=TOLERANCE):
                return snapshot
        pause(SCRAPE_INTERVAL)
    pytest.fail(f"the rates are {found} after {TIMEOUT:g} s")


def after_a_scrape(check: Callable[[], None]) -> None:
    """Call *check* until it passes.

    A scrape that is too late on a busy machine hides all series until the next one.
    """
    deadline = time.monotonic() + TIMEOUT
    while True:
        try:
            check()
        except (AssertionError, PlatformError, pytest.fail.Exception):
            if time.monotonic() > deadline:
                raise
            pause(SCRAPE_INTERVAL)
        else:
            return


def _parts(snapshot: Snapshot) -> list[Node | Guest]:
    return [*snapshot.nodes.values(), *snapshot.guests.values()]


def origin() -> Snapshot:
    return cluster(
        nodes={"pve1": 0.8, "pve2": 0.1},
        guests={"vm:101": ("pve1", 0.3), "vm:102": ("pve1", 0.4)},
    )


def measured(settings: PrometheusSettings) -> MeasuredPlatform:
    platform = SimulatedPlatform(origin(), SimulatedClock())
    return MeasuredPlatform(platform, settings)


@pytest.mark.parametrize("exporters", [("pve",), ("node", "libvirt"), ("pve", "node")])
def test_exporters_give_load_of_nodes_and_guests(
    server: Monitoring, exporters: tuple[str, ...]
) -> None:
    snapshot = _measured_snapshot(server, exporters)

    assert {each.id: each.usage.memory for each in _parts(snapshot)} == {
        name: memory * GIB for name, memory in MEMORY.items()
    }


def test_own_queries_give_further_loads(server: Monitoring) -> None:
    def query(label: str, name: str, pattern: str) -> str:
        series = f'pve_memory_usage_bytes{{id=~"{pattern}"}}'
        return f'label_replace({series}, "{label}", "{name}", "id", "{pattern}")'

    loads = {
        "pages": LoadQueries(
            node=query("node", "$1", "node/(.+)"),
            guest=query("guest", "vm:$1", "qemu/(.+)"),
            capacity=100.0 * GIB,
        )
    }

    def observe() -> None:
        snapshot = measured(server.settings(exporters=(), loads=loads)).observe()
        for each in _parts(snapshot):
            assert each.loads == {"pages": MEMORY[each.id] * GIB}
        for node in snapshot.nodes.values():
            assert node.load_capacities == {"pages": 100 * GIB}

    after_a_scrape(observe)


def test_openstack_queries_name_guests_by_name_and_uuid(server: Monitoring) -> None:
    settings = server.settings(exporters=("openstack",))
    expected = {"vm:101/3abbc260": 3.0, "vm:102/86fb2389": 4.0}
    with PrometheusClient("test", settings) as client:

        def cores() -> dict[str, float]:
            series = client.query(settings.promql[Measure.GUEST_CPU])
            return dict(values_of(Measure.GUEST_CPU, series))

        # On a busy machine a scrape can be late, and the rate too low for a moment.
        deadline = time.monotonic() + TIMEOUT
        while cores() != pytest.approx(expected, rel=TOLERANCE):
            assert time.monotonic() < deadline, cores()
            pause(SCRAPE_INTERVAL)


@pytest.mark.parametrize(
    ("exporter", "measure"),
    [(name, measure) for name, each in EXPORTERS.items() for measure in each],
)
def test_server_accepts_ready_made_query(
    server: Monitoring, exporter: str, measure: Measure
) -> None:
    settings = server.settings(exporters=(exporter,))

    with PrometheusClient("test", settings) as client:

        def query() -> None:
            assert values_of(measure, client.query(settings.promql[measure]))

        after_a_scrape(query)


def test_load_of_prometheus_gives_plan_of_own_load(server: Monitoring) -> None:
    own = cluster(
        nodes={"pve1": 0.8, "pve2": 0.1},
        guests={"vm:101": ("pve1", 0.3), "vm:102": ("pve1", 0.4)},
    )
    usages = {name: Usage(LOAD[name], MEMORY[name] * GIB) for name in LOAD}
    own = replace(
        own,
        nodes={n: replace(e, usage=usages[n]) for n, e in own.nodes.items()},
        guests={n: replace(e, usage=usages[n]) for n, e in own.guests.items()},
    )

    decisions = [
        Balance().decide(snapshot, None)
        for snapshot in (own, _measured_snapshot(server, ("pve",)))
    ]

    assert decisions[0].plan == decisions[1].plan
    assert [step.action.guest for step in decisions[0].plan.steps] == ["vm:102"]  # type: ignore[union-attr]


def proxmox_cluster() -> PveCluster:
    """Return a cluster of Proxmox VE that measures what the exporters measure."""
    found = PveCluster("9.2.11")
    for name, cores in LOAD.items():
        figures = {"cpu": cores / 10, "maxcpu": 10, "mem": MEMORY[name] * GIB}
        kind, _, number = name.partition(":")
        found.add(
            PveGuest(int(number), name, A, **figures, maxmem=32 * GIB)  # type: ignore[arg-type]
            if kind == "vm"
            else PveNode(name, **figures, maxmem=100 * GIB)  # type: ignore[arg-type]
        )
    return found


@with_double
def test_load_of_prometheus_gives_plan_of_proxmox(
    server: Monitoring, serve: Serve
) -> None:
    running = serve(proxmox_cluster())
    own = platform_of(running, load_window=0, guest_ids="id")
    source = MeasuredPlatform(
        platform_of(running, load_window=0, guest_ids="id"), server.settings()
    )

    decision = Balance().decide(own.observe(), None)

    def decide() -> None:
        assert Balance().decide(source.observe(), None).plan == decision.plan

    after_a_scrape(decide)
    assert [step.action.guest for step in decision.plan.steps] == ["vm:102"]  # type: ignore[union-attr]


@with_double
def test_howto_commands_check_and_show_the_load(
    server: Monitoring, serve: Serve, opendrs: RunOpendrs
) -> None:
    running = serve(proxmox_cluster())
    page = HowToPage("prometheus.md")
    first, own_query, further = (tomllib.loads(block) for block in page.blocks("toml"))
    load = first["platform"]["lab"]["load"]
    assert load.pop("url").startswith("https:")
    assert load.pop("token_file")
    load |= {"url": server.url, "window": WINDOW}
    table: dict[str, Any] = {"kind": "proxmox", "guest_ids": "id"}
    table |= {"hosts": [running.servers[0].host], "token_env": TOKEN_VARIABLE}
    table |= {"fingerprints": [running.certificate.fingerprint], "load": load}
    Path("opendrs.toml").write_text(tomli_w.dumps({"platform": {"lab": table}}))
    outputs: list[str] = []

    def run(command: str) -> None:
        def execute() -> None:
            result = opendrs(*command.split()[1:])
            assert result.status == 0, (command, result.out, result.err)
            outputs.append(result.out)

        after_a_scrape(execute)

    page.run({"opendrs check": run, "opendrs show": run})

    assert all("pve1" in output or "lab" in output for output in outputs)
    queries = own_query["platform"]["lab"]["load"]["queries"]
    loads = further["platform"]["lab"]["load"]["loads"]
    settings = server.settings(
        exporters=(),
        queries=queries,
        loads={name: LoadQueries(**table) for name, table in loads.items()},
    )
    with PrometheusClient("test", settings) as client:
        for measure, query in settings.promql.items():
            assert values_of(measure, client.query(query)) == {}  # no such metric


def test_missing_series_makes_node_unknown(server: Monitoring) -> None:
    server.cluster.excluded.add("pve2")
    try:
        platform = measured(server.settings(window=2.0))

        def observe() -> None:
            snapshot = platform.observe()
            assert snapshot.nodes[A].usage.resources is not None
            assert snapshot.nodes[B].usage == Usage()

        after_a_scrape(observe)
    finally:
        server.cluster.excluded.clear()
        _wait_until_measured(server)


def test_stale_samples_make_load_unknown(server: Monitoring) -> None:
    snapshot = measured(server.settings(max_age=0.000_001)).observe()

    assert {each.usage for each in snapshot.nodes.values()} == {Usage()}
    assert {each.usage for each in snapshot.guests.values()} == {Usage()}


def test_measure_without_query_keeps_load_of_platform(server: Monitoring) -> None:
    node_only = server.settings(exporters=("node",))

    snapshot = measured(node_only).observe()

    assert snapshot.guests == origin().guests


@pytest.mark.parametrize(
    ("query", "error", "message"),
    [
        ("pve_cpu_usage_ratio", UnexpectedResponseError, "no label node"),
        ("sum(", PlatformError, "query rejected: .*parse error"),
        ("vector(1) or pve_up", UnexpectedResponseError, "no label node"),
        ("scalar(vector(1))", UnexpectedResponseError, "expected an instant vector"),
        (
            'label_replace(pve_cpu_usage_ratio, "node", "a", "", "")',
            UnexpectedResponseError,
            "two series for node a",
        ),
        (
            'label_replace(vector(1), "node", "pve9", "", "")',
            UnexpectedResponseError,
            "no series is about a node of the cluster; found pve9",
        ),
    ],
)
def test_unusable_query_raises_error(
    server: Monitoring, query: str, error: type[PlatformError], message: str
) -> None:
    platform = measured(server.settings(queries={"node_cpu": query}))

    def observe() -> None:
        with pytest.raises(error, match=message):
            platform.observe()

    after_a_scrape(observe)


def test_frozen_server_is_unavailable_after_timeout(server: Monitoring) -> None:
    platform = measured(server.settings(timeout=0.3))
    server.process.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(PlatformUnavailableError, match=r"timeout after 0\.3 s"):
            platform.observe()
    finally:
        server.process.send_signal(signal.SIGCONT)


def test_unreachable_server_is_unavailable() -> None:
    settings = PrometheusSettings(
        url=f"http://127.0.0.1:{free_port()}", exporters=("pve",)
    )

    with pytest.raises(PlatformUnavailableError, match="unreachable"):
        measured(settings).observe()


def test_configured_load_source_is_checked_and_used(
    server: Monitoring, tmp_path: Path
) -> None:
    state, config = tmp_path / "state.json", tmp_path / "opendrs.toml"
    command_cluster.create(state, snapshot_document(origin()), {})
    program = json.dumps([*command_cluster.command(state), "snapshot"])
    config.write_text(
        f'[platform.lab]\nkind = "command"\nsnapshot_command = {program}\n'
        f'[platform.lab.load]\nurl = "{server.url}"\nexporters = ["pve"]\n'
        f"window = {WINDOW}\ntimeout = 60\n"
    )
    settings = read_settings(config, PLATFORMS)

    def observe() -> None:
        snapshot = connect_platform(settings.connection("lab")).observe()
        (check,) = check_online(settings.platforms)
        assert snapshot.nodes[A].usage.cpu == pytest.approx(LOAD["pve1"], rel=TOLERANCE)
        assert check.check.ok

    after_a_scrape(observe)
