"""Notifications to systemd, received by real sockets."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from opendrs.errors import ConfigurationError, PlatformUnavailableError
from opendrs.monitoring.service_manager import (
    STEP_INTERVAL,
    NotifySocket,
    ServiceManagerNotifier,
    check_watchdog,
    watchdog_time,
)
from support.monitored_controller import LOPSIDED, MonitoredController
from support.simulated_cluster import SimulatedCluster


class ServiceManager:
    """Receiver of notifications.

    Args:
        address: Its address, as in `NOTIFY_SOCKET`.
    """

    def __init__(self, address: str) -> None:
        self.environment = {"NOTIFY_SOCKET": address}
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(address.replace("@", "\0", 1))
        self._socket.settimeout(0)

    def messages(self) -> list[list[str]]:
        """Return the lines of each message since the last call."""
        found = []
        while True:
            try:
                found.append(self._socket.recv(65536).decode().split("\n"))
            except BlockingIOError:
                return found

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServiceManager]:
    is_path = request.param == "path"
    found = ServiceManager(str(tmp_path / "notify") if is_path else f"@{uuid4()}")
    yield found
    found.close()


def controller_of(
    manager: ServiceManager,
) -> tuple[SimulatedCluster, MonitoredController]:
    simulation = SimulatedCluster(LOPSIDED)
    target = NotifySocket(manager.environment)
    notifier = ServiceManagerNotifier(target, simulation.cancellation, simulation.clock)
    return simulation, MonitoredController(notifier, simulation=simulation)


def feeds(messages: list[list[str]]) -> int:
    return sum("WATCHDOG=1" in message for message in messages)


def test_configured_controller_is_ready(manager: ServiceManager) -> None:
    controller_of(manager)

    (message,) = manager.messages()

    assert "READY=1" in message
    assert any(line.startswith("STATUS=active: policy balance") for line in message)


def test_finished_cycle_feeds_the_watchdog(manager: ServiceManager) -> None:
    _, setup = controller_of(manager)
    manager.messages()

    setup.controller.run_once()

    last = manager.messages()[-1]
    assert last[0] == "WATCHDOG=1"
    assert last[1].startswith("STATUS=active: balance: 2 steps: ")


def test_running_steps_feed_the_watchdog(manager: ServiceManager) -> None:
    simulation, setup = controller_of(manager)
    manager.messages()

    setup.controller.run_once()

    feeding = feeds(manager.messages())
    assert 2 <= feeding <= simulation.elapsed / STEP_INTERVAL + 2


def test_unreachable_platform_during_a_plan_feeds_the_watchdog(
    manager: ServiceManager,
) -> None:
    simulation, setup = controller_of(manager)
    platform, outage = simulation.simulated_platform, 50.0  # the timeout is 60 s
    platform.schedule_fault(2.0, platform.disconnect)
    platform.schedule_fault(outage, platform.reconnect)
    manager.messages()

    setup.controller.run_once()

    assert simulation.elapsed > outage
    assert feeds(manager.messages()) >= outage / STEP_INTERVAL


def test_waiting_loop_does_not_feed_the_watchdog(manager: ServiceManager) -> None:
    _, setup = controller_of(manager)
    manager.messages()

    for _ in range(10):
        setup.observers.loop_polled()

    assert manager.messages() == []


def test_waiting_standby_is_ready_and_feeds_the_watchdog(
    manager: ServiceManager,
) -> None:
    simulation = SimulatedCluster(LOPSIDED)
    target = NotifySocket(manager.environment)
    notifier = ServiceManagerNotifier(target, simulation.cancellation, simulation.clock)

    notifier.standby_started("locked by other\nREADY=0")
    notifier.loop_polled()

    first, second = manager.messages()
    assert first == [
        "READY=1",
        "WATCHDOG=1",
        r"STATUS=standby: locked by other\nREADY=0",
    ]
    assert second == ["WATCHDOG=1"]


def test_unreachable_cluster_feeds_the_watchdog(manager: ServiceManager) -> None:
    simulation, setup = controller_of(manager)
    simulation.simulated_platform.disconnect()
    manager.messages()

    with pytest.raises(PlatformUnavailableError):
        setup.controller.run_once()

    ((feed, status),) = manager.messages()
    assert feed == "WATCHDOG=1"
    assert status.startswith("STATUS=cluster unreachable: ")


def test_stop_is_reported_once(manager: ServiceManager) -> None:
    simulation, setup = controller_of(manager)
    manager.messages()
    simulation.cancellation.cancel()

    setup.observers.loop_polled()
    setup.observers.stopping()

    ((first, _),) = manager.messages()
    assert first == "STOPPING=1"


@pytest.mark.parametrize("address", ["", "vsock:2:1234", "/does/not/exist", "relative"])
def test_unusable_socket_is_ignored(address: str) -> None:
    NotifySocket({"NOTIFY_SOCKET": address}).send("READY=1")


def test_full_socket_does_not_block(manager: ServiceManager) -> None:
    target = NotifySocket(manager.environment)

    for _ in range(2_000):
        target.send("WATCHDOG=1")

    assert 0 < feeds(manager.messages()) < 2_000


@pytest.mark.parametrize(
    ("environment", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "90000000"}, 90),
        ({"WATCHDOG_USEC": "90000000", "WATCHDOG_PID": str(os.getpid())}, 90),
        ({"WATCHDOG_USEC": "90000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "x"}, None),
    ],
)
def test_watchdog_time_is_that_of_the_unit(
    environment: dict[str, str], seconds: float | None
) -> None:
    assert watchdog_time(environment) == seconds


def test_watchdog_shorter_than_two_intervals_is_an_error() -> None:
    environment = {"WATCHDOG_USEC": "600000000"}

    check_watchdog(environment, 300)
    with pytest.raises(ConfigurationError, match=r"at most half of WatchdogSec"):
        check_watchdog(environment, 301)
