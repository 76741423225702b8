"""Hosts that can be switched: a small world, its platform, and its drivers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from threading import Event

import pytest

from opendrs.errors import PlatformError, PlatformUnavailableError, UnsupportedError
from opendrs.model import Action, Node, NodeId, NodeState, Snapshot
from opendrs.ports import TaskId, TaskState, TaskStatus
from opendrs.power import PoweredPlatform, PowerState
from support.builders import cluster

H1, H2, H3 = NodeId("h1"), NodeId("h2"), NodeId("h3")
POLLS = 6_000  # of 0.01 s, on a busy machine


class FakeHosts:
    """A platform on which a host without power does not answer, as in libvirt."""

    name = "hosts"

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.powered_off: set[NodeId] = set()
        self.reachable = True
        self.requests: list[str] = []

    def observe(self) -> Snapshot:
        """Return what the hosts that answer show."""
        if not self.reachable:
            raise PlatformUnavailableError("no host of hosts answers")
        nodes = {
            name: Node(id=name) if name in self.powered_off else node
            for name, node in self.snapshot.nodes.items()
        }
        guests = {
            name: guest
            for name, guest in self.snapshot.guests.items()
            if guest.node not in self.powered_off
        }
        return replace(self.snapshot, nodes=nodes, guests=guests)

    def start(self, action: Action) -> TaskId:
        """Record the call."""
        self.requests.append(f"start {type(action).__name__}")
        raise UnsupportedError("not here")

    def find(self, action: Action) -> TaskId:
        """Record the call."""
        self.requests.append(f"find {type(action).__name__}")
        return TaskId("a task of the hosts")

    def status(self, task: TaskId) -> TaskStatus:
        """Record the call."""
        self.requests.append(f"status {task}")
        return TaskStatus(TaskState.LOST)

    def abort(self, task: TaskId) -> None:
        """Record the call."""
        self.requests.append(f"abort {task}")


class FakePowerDriver:
    """The driver of one host, which may be slow, mute, or out of order."""

    detached = False

    def __init__(self, hosts: FakeHosts, node: NodeId) -> None:
        self._hosts, self._node = hosts, node
        self.off_confirm_time: float | None = None
        self.transition_timeout = 300.0
        self.requests: list[str] = []
        self.takes_effect = True
        self.request_error: PlatformError | None = None
        self.state_error: PlatformError | None = None
        self.reported_state: PowerState | None = None
        self.gate = Event()
        self.gate.set()

    def on(self) -> None:
        """Switch the host on."""
        self._request("on")
        if self.takes_effect:
            self._hosts.powered_off.discard(self._node)

    def off(self) -> None:
        """Switch the host off."""
        self._request("off")
        if self.takes_effect:
            self._hosts.powered_off.add(self._node)

    def state(self) -> PowerState:
        """Return whether it is on."""
        if self.state_error is not None:
            raise self.state_error
        if self.off_confirm_time is not None:
            return PowerState.UNKNOWN
        if self.reported_state is not None:
            return self.reported_state
        return (
            PowerState.OFF if self._node in self._hosts.powered_off else PowerState.ON
        )

    def _request(self, action: str) -> None:
        self.requests.append(action)
        self.gate.wait()
        if self.request_error is not None:
            raise self.request_error


class PowerTestCluster:
    """Three hosts of which h2 is empty, their sockets, and a clock."""

    def __init__(self) -> None:
        loads = {"h1": 0.5, "h2": 0.0, "h3": 0.1}
        self.hosts = FakeHosts(cluster(loads, {"vm1": ("h1", 0.5), "vm3": ("h3", 0.1)}))
        self.drivers = {node: FakePowerDriver(self.hosts, node) for node in (H1, H2)}
        self.time = 0.0
        self.platform = self.restart()

    def restart(self) -> PoweredPlatform:
        """Return the same rack, as another process gets to know it."""
        return PoweredPlatform(self.hosts, self.drivers.get, lambda: self.time)

    def state(self, node: NodeId) -> NodeState:
        """Return the observed state of *node*."""
        return self.platform.observe().nodes[node].state

    def wait_for_request(
        self, task: TaskId, platform: PoweredPlatform | None = None
    ) -> TaskStatus:
        """Return the status of *task* once its driver has answered."""
        return wait_for_request(platform or self.platform, task)


def wait_for_request(platform: PoweredPlatform, task: TaskId) -> TaskStatus:
    """Return the status of *task* once its driver has answered."""
    pause = Event()
    for _ in range(POLLS):
        status = platform.status(task)
        if not status.detail.endswith("power request in progress"):
            return status
        pause.wait(0.01)
    pytest.fail(f"the driver is still asked for {task}")


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until *condition*."""
    pause = Event()
    for _ in range(POLLS):
        if condition():
            return
        pause.wait(0.01)
    pytest.fail("it does not come to that")
