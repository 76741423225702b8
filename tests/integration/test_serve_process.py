"""The process of the dashboard beside a controller: started, killed, started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
import tomli_w

from integration.libvirt_lab import BUSY, eventually
from opendrs.config import snapshot_document
from support import command_cluster
from support.builders import cluster
from support.network import free_port

CLUSTER = cluster({"a": 0.6, "b": 0.2}, {"one": ("a", 0.3), "two": ("a", 0.3)})
TIMEOUT = 20.0  # seconds on an idle machine


def configure(directory: Path) -> int:
    """Write a configuration to *directory*; return the port of its dashboard."""
    port = free_port()
    state = directory / "cluster.json"
    command_cluster.create(state, snapshot_document(CLUSTER), {})
    program = command_cluster.command(state)
    document = {
        "platform": {
            "lab": {"kind": "command", "snapshot_command": [*program, "snapshot"]}
        },
        "store": {"path": "store.sqlite"},
        "web": {"listen": f"127.0.0.1:{port}"},
    }
    (directory / "opendrs.toml").write_text(tomli_w.dumps(document))
    return port


def start(directory: Path, *words: str) -> subprocess.Popen[bytes]:
    """Start `opendrs WORDS`, which logs to `WORD.log`."""
    with (directory / f"{words[0]}.log").open("wb") as log:
        return subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-m", "opendrs", *words],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


def responds(port: int, within: float = 5.0) -> bool:
    """Return True if a server responds in *within* seconds."""
    try:
        url = f"http://127.0.0.1:{port}/api/v1/health"
        return httpx2.get(url, timeout=within).status_code == 200
    except httpx2.TransportError:
        return False


class DemoProcess:
    """A process of `opendrs demo --serve`.

    Args:
        directory: Its working directory.
        options: Further options.
    """

    def __init__(self, directory: Path, *options: str) -> None:
        self._log = directory / "log"
        self.port = free_port()
        document = {"web": {"listen": f"127.0.0.1:{self.port}"}}
        (directory / "opendrs.toml").write_text(tomli_w.dumps(document))
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(  # noqa: S603 - our own command
                [sys.executable, "-m", "opendrs", "demo", "--serve", *options],
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "TMPDIR": str(directory)},
            )

    def log(self) -> str:
        """Return what it has printed and logged."""
        return self._log.read_text()

    def children(self) -> list[int]:
        """Return the ids of its child processes."""
        pid = self.process.pid
        path = Path(f"/proc/{pid}/task/{pid}/children")
        return [int(each) for each in path.read_text().split()]

    def is_serving(self) -> bool:
        """Return True if the server responds."""
        return responds(self.port)

    def await_serving(self) -> None:
        """Wait until the server responds."""
        eventually(self.is_serving, TIMEOUT, "the server responds")


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[DemoProcess]:
    running = DemoProcess(tmp_path)
    yield running
    running.process.kill()
    running.process.wait()


def test_demo_runs_the_policy_with_its_settings(tmp_path: Path) -> None:
    options = ("--policy", "threshold-rebalance", "--set", "threshold=0.99")
    demo = DemoProcess(tmp_path, *options)
    try:
        eventually(lambda: "threshold-rebalance: " in demo.log(), TIMEOUT, "a decision")
    finally:
        demo.process.kill()
        demo.process.wait()

    assert "the threshold 99%" in demo.log()


def test_plan_of_the_demo_is_approved_and_executed(demo: DemoProcess) -> None:
    eventually(lambda: "#login=" in demo.log(), TIMEOUT, "the link is printed")
    eventually(lambda: " proposed: " in demo.log(), TIMEOUT, "a plan is proposed")
    link = next(word for word in demo.log().split() if "#login=" in word)
    address, _, code = link.partition("#login=")
    with httpx2.Client(
        base_url=f"{address}api/v1/",
        headers={"Sec-Fetch-Site": "same-origin"},
        timeout=120,
    ) as client:
        assert client.put("session", json={"token": code}).json()["role"] == "admin"

        def shown() -> bool:
            return bool(client.get("state").json()["open_plans"])

        eventually(shown, TIMEOUT, "the state shows the plan")
        assert client.get("state").json()["controller"]["running"]

        def approved() -> bool:  # a later cycle may have proposed another plan
            shown = client.get("state").json()["plan"]
            plan = client.get(f"plans/{shown['id']}")
            response = client.put(
                f"plans/{plan.json()['id']}/approval",
                json={"steps": [plan.json()["steps"][0]["id"]]},
                headers={"If-Match": plan.headers["etag"]},
            )
            return response.status_code == 200

        eventually(approved, TIMEOUT, "a plan is approved")

        def progress() -> bool:
            return bool(client.get("state").json()["progress"])

        eventually(lambda: ": started; " in demo.log(), TIMEOUT, "a step is started")
        eventually(progress, TIMEOUT, "the state shows the progress")
        codes = [each["code"] for each in client.get("log").json()["events"]]
        assert {"controller-started", "plan-proposed", "step-started"} <= set(codes)

    demo.process.send_signal(signal.SIGINT)
    assert demo.process.wait(BUSY * TIMEOUT) == 0
    assert "controller stopped" in demo.log()
    assert not demo.is_serving()


def test_link_of_the_demo_can_be_used_when_it_is_printed(demo: DemoProcess) -> None:
    eventually(lambda: "#login=" in demo.log(), TIMEOUT, "the link is printed")

    assert responds(demo.port, within=60.0)


def test_killed_server_is_started_again(demo: DemoProcess) -> None:
    demo.await_serving()
    (child,) = demo.children()
    os.kill(child, signal.SIGKILL)

    eventually(lambda: "opendrs serve ended: -9" in demo.log(), TIMEOUT, "it is logged")
    demo.await_serving()

    assert demo.children() != [child]
    assert demo.process.poll() is None


def test_server_ends_with_a_killed_controller(demo: DemoProcess) -> None:
    demo.await_serving()
    demo.process.kill()

    eventually(lambda: not demo.is_serving(), TIMEOUT, "the server ends")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stopped_server_ends_with_status_0(tmp_path: Path, number: int) -> None:
    port = configure(tmp_path)
    server = start(tmp_path, "serve", "opendrs.toml")
    try:
        eventually(lambda: responds(port), TIMEOUT, "the server responds")
        server.send_signal(number)

        assert server.wait(BUSY * TIMEOUT) == 0
    finally:
        server.kill()
        server.wait()


@pytest.mark.parametrize("number", range(3))
def test_server_and_controller_start_together(tmp_path: Path, number: int) -> None:
    del number
    port = configure(tmp_path)
    words = ("serve", "opendrs.toml"), ("run", "opendrs.toml", "--no-serve")
    processes = [start(tmp_path, *each) for each in words]
    try:
        log = tmp_path / "run.log"
        eventually(lambda: responds(port), TIMEOUT, "the server responds")
        eventually(lambda: "cycle" in log.read_text(), TIMEOUT, "a cycle is logged")

        assert [each.poll() for each in processes] == [None, None]
    finally:
        for each in processes:
            each.kill()
            each.wait()
