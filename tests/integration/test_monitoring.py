"""A controller process: scraped by a real Prometheus, and watched by a real socket."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest
import tomli_w
import yaml

from integration.libvirt_lab import eventually
from opendrs.cli.platforms import PLATFORMS
from opendrs.config.settings_reading import read_settings
from opendrs.model import GIB
from support import external_cluster
from support.builders import cluster
from support.external_cluster import ExternalCluster, opendrs_outside
from support.forked_program import ForkedProgram, run_forked
from support.howto_pages import HowToPage
from support.network import free_port

COMMAND = (sys.executable, external_cluster.__file__)
ADDRESS = "127.0.0.1:0"
TIMEOUT = 60.0  # seconds in which something responds, on a busy machine
MONITORING = Path(__file__).parents[2] / "docs/monitoring"
PROMETHEUS, PROMTOOL = shutil.which("prometheus"), shutil.which("promtool")
IMBALANCED = cluster(
    {"h1": 0.9, "h2": 0.1, "h3": 0.1},
    {f"vm{number}": ("h1", 0.15) for number in range(1, 6)},
)


class MonitoredProcess:
    """A process of `opendrs run`, with a service manager that receives datagrams.

    Args:
        place: The directory with the configuration.
        document: The configuration.
        watchdog: `WatchdogSec` of the unit, in seconds.
    """

    def __init__(
        self, place: Path, document: dict[str, Any], watchdog: float = 60
    ) -> None:
        self.place = place
        self.write(document)
        self._receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        name = f"opendrs-{uuid4()}"
        self._receiver.bind(f"\0{name}")
        self._receiver.settimeout(0)
        self.messages: list[list[str]] = []
        environment = {
            **os.environ,
            "NOTIFY_SOCKET": f"@{name}",
            "WATCHDOG_USEC": str(int(watchdog * 1e6)),
        }
        self._log = place / "log"
        with self._log.open("wb") as log:
            self.process = ForkedProgram(
                opendrs_outside,
                ("run", "opendrs.toml", "--no-serve", "--format", "json"),
                cwd=place,
                env=environment,
                stdout=log,
            )

    def write(self, document: dict[str, Any]) -> None:
        (self.place / "opendrs.toml").write_text(tomli_w.dumps(document))

    def events(self, name: str) -> list[dict[str, Any]]:
        lines = self._log.read_text().splitlines(keepends=True)
        events = [json.loads(line) for line in lines if line.startswith("{")]
        return [event for event in events if event.get("event") == name]

    def wait_for(self, name: str, count: int = 1) -> dict[str, Any]:
        """Return the last event of that name once *count* of them are logged."""
        eventually(lambda: len(self.events(name)) >= count, 60, f"{name} is logged")
        return self.events(name)[-1]

    def has_received(self, line: str, count: int = 1) -> bool:
        """Return True if the service manager received *count* messages with *line*."""
        while True:
            try:
                text = self._receiver.recv(65536).decode()
            except BlockingIOError:
                break
            self.messages.append(text.split("\n"))
        return sum(line in each for each in self.messages) >= count

    def has_status(self, text: str) -> bool:
        """Return True if the service manager received a status with *text*."""
        self.has_received("")
        lines = [line for each in self.messages for line in each]
        return any(line.startswith("STATUS=") and text in line for line in lines)

    def get(self, path: str) -> httpx2.Response:
        address = self.wait_for("metrics-listening")["address"]
        return httpx2.get(f"http://{address}{path}", timeout=TIMEOUT)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self._receiver.close()


@pytest.fixture
def external(tmp_path: Path) -> Iterator[ExternalCluster]:
    with ExternalCluster(IMBALANCED, tmp_path / "cluster", 20.0 * GIB) as running:
        yield running


Start = Callable[..., MonitoredProcess]


@pytest.fixture
def start(tmp_path: Path, external: ExternalCluster) -> Iterator[Start]:
    del external
    started: list[MonitoredProcess] = []

    def run(**tables: Any) -> MonitoredProcess:  # noqa: ANN401
        found = MonitoredProcess(tmp_path, document(**tables))
        started.append(found)
        return found

    yield run
    for each in started:
        each.end()


def document(**tables: Any) -> dict[str, Any]:  # noqa: ANN401
    return {
        "platform": {"away": {"kind": "external", "address": "cluster"}},
        "controller": {"interval": 1.0, "mode": "automatic"},
        "limits": {"cooldown": 600.0},
        "store": {"path": "record.sqlite"},
        "metrics": {"listen": "127.0.0.1:0"},
        **tables,
    }


@pytest.mark.skipif(
    PROMETHEUS is None or PROMTOOL is None, reason="prometheus is not installed"
)
def test_prometheus_scrapes_controller(start: Start, tmp_path: Path) -> None:
    # One alert is about cycles that are late: some seconds are not.
    running = start(controller={"interval": 25.0, "mode": "automatic"})
    running.wait_for("plan-executed")
    eventually(lambda: running.get("/ready").status_code == 200, 30, "it is ready")
    assert running.get("/health").json()["ok"]
    moves = len(running.events("step-finished"))
    assert moves > 0
    expected = {
        "up": [1.0],
        'opendrs_steps_total{action="live-migration",outcome="done"}': [moves],
        "opendrs_lease_held": [1.0],
        "opendrs_nodes{state='online'}": [3.0],
        "sum(opendrs_plans{state='done'}) >= bool 1": [1.0],
        "opendrs_plans{state='proposed'}": [0.0],
        "count(opendrs_node_load_ratio)": [6.0],
        "count({guest!=''})": [],
        **{expression: [] for expression in _alert_expressions()},
    }
    found: dict[str, list[float]] = {}

    def is_as_expected() -> bool:  # a scrape may be late
        found.update({expression: _query(url, expression) for expression in expected})
        return found == expected

    address = running.wait_for("metrics-listening")["address"]
    with _prometheus(tmp_path, address) as url, suppress(pytest.fail.Exception):
        eventually(is_as_expected, 20, "all are as expected")
    assert found == expected


def _alert_expressions() -> list[str]:
    """Return the expressions of the alerts."""
    text = (MONITORING / "opendrs-alerts.yml").read_text()
    (group,) = yaml.safe_load(text)["groups"]
    return [each["expr"] for each in group["rules"]]


class _prometheus:  # noqa: N801 - used as a function
    """Prometheus that scrapes *address*; enters with its URL."""

    def __init__(self, place: Path, address: str) -> None:
        job = {
            "job_name": "opendrs",
            "static_configs": [{"targets": [address]}],
            "scrape_interval": "2s",
            "scrape_timeout": "2s",
        }
        path = place / "prometheus.yml"  # JSON is YAML
        path.write_text(json.dumps({"scrape_configs": [job]}))
        self._port = free_port()
        self._command = [
            str(PROMETHEUS),
            f"--config.file={path}",
            f"--storage.tsdb.path={place / 'data'}",
            f"--web.listen-address=127.0.0.1:{self._port}",
        ]

    def __enter__(self) -> str:
        self._process = subprocess.Popen(  # noqa: S603 - a real Prometheus
            self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        url = f"http://127.0.0.1:{self._port}"
        eventually(lambda: _is_up(url), 60, "Prometheus responds")
        return url

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.wait()


def _is_up(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/-/ready", timeout=TIMEOUT).status_code == 200
    except httpx2.HTTPError:
        return False


def _query(url: str, expression: str) -> list[float]:
    parameters = {"query": expression}
    response = httpx2.get(f"{url}/api/v1/query", params=parameters, timeout=TIMEOUT)
    assert response.status_code == 200, response.text
    return [float(each["value"][1]) for each in response.json()["data"]["result"]]


def test_service_manager_is_notified_until_the_end(start: Start) -> None:
    running = start()
    eventually(lambda: running.has_received("READY=1"), 60, "it is ready")
    eventually(lambda: running.has_received("WATCHDOG=1", 3), 60, "it is alive")
    eventually(lambda: running.has_status("no steps"), 60, "a cycle without steps")

    running.process.send_signal(signal.SIGTERM)

    assert running.process.wait(60) == 0
    assert running.has_received("STOPPING=1")


def test_hanging_platform_stops_the_watchdog(
    start: Start, external: ExternalCluster
) -> None:
    running = start()
    running.wait_for("plan-executed")

    external.on_call = lambda _: time.sleep(3_600)  # noqa: TID251 - it hangs
    pause_until_silent(running)

    assert running.process.poll() is None
    assert running.get("/metrics").status_code == 200  # not blocked by the loop


def pause_until_silent(running: MonitoredProcess) -> None:
    """Return once no message arrives for three intervals."""
    for _ in range(20):
        running.has_received("")
        count = len(running.messages)
        time.sleep(3)  # noqa: TID251 - for another process
        running.has_received("")
        if len(running.messages) == count:
            return
    pytest.fail("the watchdog is still notified")


def test_interval_that_does_not_fit_the_watchdog_is_an_error(
    tmp_path: Path, external: ExternalCluster
) -> None:
    del external
    tables = document(controller={"interval": 40})
    running = MonitoredProcess(tmp_path, tables, watchdog=60)
    try:
        assert running.process.wait(60) == 2
    finally:
        running.end()
    assert not (tmp_path / "record.sqlite").exists()


def rows(running: MonitoredProcess, event: str) -> list[dict[str, Any]]:
    running.process.send_signal(signal.SIGHUP)
    running.wait_for(event)
    return running.events(event)


def test_reload_uses_new_configuration(start: Start) -> None:
    running = start(
        controller={"interval": 25.0, "mode": "automatic"}, metrics={"listen": ADDRESS}
    )
    running.wait_for("plan-executed")
    rules = [{"kind": "anti-affinity", "guests": ["vm1", "vm2"], "name": "apart"}]
    changes = {"controller": {"interval": 0.5, "mode": "automatic"}, "rules": rules}
    changes |= {"policy": {"name": "auto-rebalance", "auto-rebalance": {"hold": 2}}}
    running.write(document(**changes, metrics={"listen": ADDRESS}))

    (loaded,) = rows(running, "configuration-loaded")

    assert sorted(loaded["changed"]) == ["controller", "policy", "policy.name", "rules"]
    eventually(
        lambda: running.events("decision-made")[-1]["policy"] == "auto-rebalance",
        60,
        "the new policy decides",
    )
    assert running.has_status("auto-rebalance")


def test_mode_of_a_new_configuration_is_logged(start: Start) -> None:
    running = start(
        controller={"interval": 0.5, "mode": "automatic"}, metrics={"listen": ADDRESS}
    )
    running.wait_for("plan-executed")
    changes = {"controller": {"interval": 0.5, "mode": "advise"}}
    running.write(document(**changes, metrics={"listen": ADDRESS}))

    rows(running, "configuration-loaded")

    assert running.wait_for("mode-changed")["mode"] == "advise"


@pytest.mark.parametrize(
    ("changes", "problems"),
    [
        (
            {"controller": {"interval": -1}, "polcy": {}},
            ["controller.interval", "polcy"],
        ),
        ({"store": {"path": "other.sqlite"}}, ["store: changed; restart"]),
        ({"metrics": {"listen": "127.0.0.1:1"}}, ["metrics: changed; restart"]),
        (
            {"rules": [{"kind": "pin", "guests": ["vm1", "absent"]}]},
            ['rules[0].guests: unknown guest "absent"'],
        ),
        (
            {"controller": {"interval": 31, "mode": "automatic"}},
            ["at most half of WatchdogSec"],
        ),
    ],
)
def test_reload_of_invalid_configuration_changes_nothing(
    start: Start, changes: dict[str, Any], problems: list[str]
) -> None:
    running = start(controller={"interval": 0.5, "mode": "automatic"})
    running.wait_for("plan-executed")
    running.write(
        document(**{"controller": {"interval": 0.5, "mode": "automatic"}, **changes})
    )

    (rejected,) = rows(running, "configuration-rejected")

    assert len(rejected["problems"]) == len(problems)
    for line, problem in zip(sorted(rejected["problems"]), problems, strict=True):
        assert problem in line
    cycles = _cycles(running)
    eventually(lambda: _cycles(running) > cycles, 30, "cycles continue")
    assert running.events("configuration-loaded") == []


def _cycles(running: MonitoredProcess) -> float:
    lines = running.get("/metrics").text.splitlines()
    name = 'opendrs_cycles_total{result="finished"} '
    return next(float(line[len(name) :]) for line in lines if line.startswith(name))


def test_standby_is_alive_and_shows_no_lease(
    start: Start, tmp_path: Path, postgresql_url: str
) -> None:
    store = {"url": postgresql_url, "lease_time": 120.0}
    leader = start(store=store)
    leader.wait_for("decision-made")
    (tmp_path / "log").rename(tmp_path / "leader.log")
    standby = start(store=store)
    standby.wait_for("controller-standby")

    eventually(lambda: standby.has_received("WATCHDOG=1", 5), 60, "it is alive")

    assert standby.has_status("standby: ")
    assert standby.get("/health").status_code == 200
    assert standby.get("/ready").status_code == 503
    assert "\nopendrs_lease_held 0.0\n" in standby.get("/metrics").text

    def status() -> subprocess.CompletedProcess[str]:
        words = ("status", "away", "--format", "json")
        return run_forked(opendrs_outside, words, cwd=tmp_path)

    eventually(lambda: status().returncode == 0, 60, "a cycle has ended")
    assert json.loads(status().stdout)["holder"]["pid"] == leader.process.pid


@pytest.mark.skipif(
    PROMTOOL is None or shutil.which("systemd-analyze") is None,
    reason="promtool or systemd-analyze is not installed",
)
def test_howto_commands_check_and_show(start: Start, tmp_path: Path) -> None:
    page = HowToPage("monitoring.md")
    running = start()
    running.wait_for("plan-executed")
    eventually(lambda: running.get("/ready").status_code == 200, 30, "it is ready")
    address = running.wait_for("metrics-listening")["address"]

    def run(command: str, *changes: tuple[str, str]) -> None:
        for before, after in changes:
            assert before in command
            command = command.replace(before, after)
        done = subprocess.run(  # noqa: S603 - a command of the page
            shlex.split(command),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)

    unit = tmp_path / "opendrs.service"
    text, report, timer = page.blocks("ini")
    unit.write_text(text.replace("/usr/bin/opendrs", "/bin/true"))
    weekly = tmp_path / "opendrs-report.timer"
    weekly.write_text(timer)
    weekly.with_suffix(".service").write_text(
        report.replace("/usr/bin/opendrs", "/bin/true")
    )
    program = shlex.join(COMMAND)
    page.run(
        {
            "systemd-analyze verify": lambda line: run(
                line, ("/etc/systemd/system/opendrs.service", str(unit))
            ),
            "opendrs status": lambda line: run(
                line,
                ("opendrs status lab", f"{program} status away"),
                ("/etc/opendrs/", f"{tmp_path}/"),
            ),
            "curl": lambda line: run(line, ("127.0.0.1:9180", address)),
            "opendrs report": lambda line: run(
                line,
                ("opendrs report lab", f"{program} report away"),
                ("/etc/opendrs/", f"{tmp_path}/"),
            ),
        }
    )
    run(f"systemd-analyze verify {weekly}")
    exposure = ["systemd-analyze", "security", "--offline=true", "--threshold=15"]
    run(shlex.join([*exposure, str(unit)]))
    for block in page.blocks("yaml"):
        text = block.replace("/etc/prometheus/", f"{MONITORING}/")
        (tmp_path / "prometheus.yml").write_text(text)
        run(f"{PROMTOOL} check config {tmp_path / 'prometheus.yml'}")
    for block in page.blocks("toml"):
        (tmp_path / "part.toml").write_text(block)
        read_settings(tmp_path / "part.toml", PLATFORMS)
