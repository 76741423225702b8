"""Two controllers over one PostgreSQL database: one acts, the other takes over."""

from __future__ import annotations

import json
import signal
import tomllib
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest
import tomli_w

from integration.libvirt_lab import eventually
from opendrs.controller import SystemClock
from opendrs.model import GIB
from support.builders import cluster
from support.external_cluster import (
    AFTER,
    BEFORE,
    CallMoment,
    ExternalCluster,
    opendrs_outside,
)
from support.forked_program import ForkedProgram
from support.postgresql_server import PostgresqlServer

IMBALANCED = cluster(
    {"h1": 0.9, "h2": 0.1, "h3": 0.1},
    {f"vm{number}": ("h1", 0.15) for number in range(1, 6)},
)
SPEED = 20.0 * GIB  # bytes per second: a guest migrates in one to two seconds
LEASE_TIME = 10.0  # seconds; a slow machine renews it in time
CLOCK = SystemClock()


class RunningController:
    """A process of `opendrs run`, with its log."""

    def __init__(self, place: Path, name: str) -> None:
        self._log = place / f"{name}.log"
        with self._log.open("wb") as log:
            self.process = ForkedProgram(
                opendrs_outside,
                (
                    *("run", "opendrs.toml", "--no-serve"),
                    *("--format", "json", "--level", "debug"),
                ),
                cwd=place,
                stdout=log,
            )

    def events(self, name: str) -> list[dict[str, object]]:
        """Return the logged events of that name."""
        lines = self._log.read_text().splitlines(keepends=True)
        events = [json.loads(line) for line in lines if line.startswith("{")]
        return [event for event in events if event.get("event") == name]

    def wait_for(self, name: str) -> None:
        """Wait until an event of that name is logged."""
        eventually(lambda: bool(self.events(name)), 120, f"{name} is logged")

    def text(self) -> str:
        return self._log.read_text()


@pytest.fixture
def external(tmp_path: Path, postgresql_url: str) -> Iterator[ExternalCluster]:
    document = {
        "platform": {"away": {"kind": "external", "address": "cluster"}},
        "controller": {"interval": 1.0, "mode": "automatic"},
        "limits": {"cooldown": 600.0},
        "store": {"url": postgresql_url, "lease_time": LEASE_TIME},
    }
    (tmp_path / "opendrs.toml").write_text(tomli_w.dumps(document))
    with ExternalCluster(IMBALANCED, tmp_path / "cluster", SPEED) as running:
        yield running


@pytest.fixture
def controllers() -> Iterator[list[RunningController]]:
    started: list[RunningController] = []
    yield started
    for one in started:
        one.process.send_signal(signal.SIGCONT)
        one.process.kill()
        one.process.wait()


def start(place: Path, controllers: list[RunningController]) -> RunningController:
    started = RunningController(place, f"controller{len(controllers)}")
    controllers.append(started)
    return started


@pytest.mark.parametrize("loss", [signal.SIGKILL, signal.SIGSTOP])
def test_standby_takes_over_and_starts_nothing_twice(
    tmp_path: Path,
    external: ExternalCluster,
    controllers: list[RunningController],
    loss: signal.Signals,
) -> None:
    def strike(now: CallMoment) -> None:
        if now == ("start", AFTER):
            external.on_call = lambda _: None
            leader.process.send_signal(loss)
            if loss is signal.SIGKILL:
                raise EOFError

    external.on_call = strike
    leader = start(tmp_path, controllers)
    leader.wait_for("controller-started")
    follower = start(tmp_path, controllers)

    follower.wait_for("recovery-started")
    follower.wait_for("step-finished")
    leader.process.send_signal(signal.SIGCONT)

    assert leader.process.wait(120) == (
        -signal.SIGKILL if loss == signal.SIGKILL else 3
    )
    assert set(external.starts.values()) == {1}
    follower.process.terminate()
    assert follower.process.wait(120) == 0
    assert set(external.starts.values()) == {1}
    if loss is signal.SIGSTOP:
        assert "lease of this process has expired" in leader.text()


def test_standby_waits_and_stops_on_request(
    tmp_path: Path, external: ExternalCluster, controllers: list[RunningController]
) -> None:
    leader = start(tmp_path, controllers)
    leader.wait_for("decision-made")
    follower = start(tmp_path, controllers)

    follower.wait_for("controller-standby")
    follower.process.terminate()

    assert follower.process.wait(120) == 0
    assert not follower.events("controller-started")
    assert leader.process.poll() is None
    assert external.starts


def test_ended_leader_is_followed_at_once(
    tmp_path: Path, external: ExternalCluster, controllers: list[RunningController]
) -> None:
    leader = start(tmp_path, controllers)
    leader.wait_for("controller-started")
    follower = start(tmp_path, controllers)
    follower.wait_for("controller-standby")

    leader.process.terminate()

    assert leader.process.wait(120) == 0
    follower.wait_for("decision-made")
    assert set(external.starts.values()) == {1}


def watch_starts(external: ExternalCluster) -> list[float]:
    """Return a list that receives the time of each start."""
    times: list[float] = []

    def note(now: CallMoment) -> None:
        if now == ("start", BEFORE):
            times.append(monotonic())

    external.on_call = note
    return times


def decides_again(place: Path, controllers: list[RunningController]) -> None:
    """Wait until a controller decides; restart those that end with 3.

    A service manager does that.
    """
    before = {one: len(one.events("decision-made")) for one in controllers}

    def has_decided() -> bool:
        for one in controllers[-2:]:
            if len(one.events("decision-made")) > before.get(one, 0):
                return True
            if one.process.poll() is not None:
                assert one.process.returncode == 3, one.text()
                controllers.remove(one)
                start(place, controllers)
        return False

    eventually(has_decided, 120, "a controller decides")


@pytest.fixture
def slow(tmp_path: Path, external: ExternalCluster) -> ExternalCluster:
    """Return the cluster with one migration at a time, so that steps wait."""
    path = tmp_path / "opendrs.toml"
    document = tomllib.loads(path.read_text())
    document["limits"]["max_parallel_migrations"] = 1
    path.write_text(tomli_w.dumps(document))
    return external


@pytest.mark.slow
def test_server_frozen_for_a_minute_starts_nothing_twice(
    tmp_path: Path,
    slow: ExternalCluster,
    controllers: list[RunningController],
    postgresql_server: PostgresqlServer,
) -> None:
    times = watch_starts(slow)
    start(tmp_path, controllers).wait_for("step-started")
    start(tmp_path, controllers).wait_for("controller-standby")

    with postgresql_server.frozen():
        frozen_at = monotonic()
        CLOCK.sleep(60.0)
        thawed_at = monotonic()
    decides_again(tmp_path, controllers)

    assert not [at for at in times if frozen_at + LEASE_TIME < at < thawed_at]
    assert set(slow.starts.values()) == {1}


def test_restart_of_the_server_starts_nothing_twice(
    tmp_path: Path,
    slow: ExternalCluster,
    controllers: list[RunningController],
    postgresql_server: PostgresqlServer,
) -> None:
    times = watch_starts(slow)
    start(tmp_path, controllers).wait_for("step-started")
    start(tmp_path, controllers).wait_for("controller-standby")

    with postgresql_server.stopped():
        stopped_at = monotonic()
        CLOCK.sleep(2 * LEASE_TIME)
        started_at = monotonic()
    decides_again(tmp_path, controllers)

    assert not [at for at in times if stopped_at + LEASE_TIME < at < started_at]
    assert set(slow.starts.values()) == {1}
