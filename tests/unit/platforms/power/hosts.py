"""Hosts that can be switched: a small world, its platform, and its drivers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from threading import Event

import pytest

from builders import cluster
from opendrs.errors import PlatformError, PlatformUnavailableError, UnsupportedError
from opendrs.model import Action, Node, NodeId, NodeState, Snapshot
from opendrs.platforms.power import Powered, PowerState
from opendrs.ports import TaskId, TaskState, TaskStatus

H1, H2, H3 = NodeId("h1"), NodeId("h2"), NodeId("h3")


class Hosts:
    """A platform on which a host without power does not answer, as in libvirt."""

    name = "hosts"

    def __init__(self, seen: Snapshot) -> None:
        self.seen = seen
        self.dark: set[NodeId] = set()
        self.reachable = True
        self.asked: list[str] = []

    def observe(self) -> Snapshot:
        """Return what the hosts that answer show."""
        if not self.reachable:
            raise PlatformUnavailableError("no host of hosts answers")
        nodes = {
            name: Node(id=name) if name in self.dark else node
            for name, node in self.seen.nodes.items()
        }
        guests = {
            name: guest
            for name, guest in self.seen.guests.items()
            if guest.node not in self.dark
        }
        return replace(self.seen, nodes=nodes, guests=guests)

    def start(self, action: Action) -> TaskId:
        """Take note of it."""
        self.asked.append(f"start {type(action).__name__}")
        raise UnsupportedError("not here")

    def find(self, action: Action) -> TaskId:
        """Take note of it."""
        self.asked.append(f"find {type(action).__name__}")
        return TaskId("a task of the hosts")

    def status(self, task: TaskId) -> TaskStatus:
        """Take note of it."""
        self.asked.append(f"status {task}")
        return TaskStatus(TaskState.LOST)

    def abort(self, task: TaskId) -> None:
        """Take note of it."""
        self.asked.append(f"abort {task}")


class Socket:
    """The driver of one host, which may be slow, mute, or out of order."""

    detached = False

    def __init__(self, hosts: Hosts, node: NodeId) -> None:
        self._hosts, self._node = hosts, node
        self.silence: float | None = None
        self.patience = 300.0
        self.asked: list[str] = []
        self.follows = True
        self.complaint: PlatformError | None = None
        self.mute: PlatformError | None = None
        self.shows: PowerState | None = None
        self.gate = Event()
        self.gate.set()

    def on(self) -> None:
        """Switch the host on."""
        self._switch("on")
        if self.follows:
            self._hosts.dark.discard(self._node)

    def off(self) -> None:
        """Switch the host off."""
        self._switch("off")
        if self.follows:
            self._hosts.dark.add(self._node)

    def state(self) -> PowerState:
        """Return whether it is on."""
        if self.mute is not None:
            raise self.mute
        if self.silence is not None:
            return PowerState.UNKNOWN
        if self.shows is not None:
            return self.shows
        return PowerState.OFF if self._node in self._hosts.dark else PowerState.ON

    def _switch(self, way: str) -> None:
        self.asked.append(way)
        self.gate.wait()
        if self.complaint is not None:
            raise self.complaint


class Rack:
    """Three hosts of which h2 is empty, their sockets, and a clock."""

    def __init__(self) -> None:
        loads = {"h1": 0.5, "h2": 0.0, "h3": 0.1}
        self.hosts = Hosts(cluster(loads, {"vm1": ("h1", 0.5), "vm3": ("h3", 0.1)}))
        self.sockets = {node: Socket(self.hosts, node) for node in (H1, H2)}
        self.time = 0.0
        self.platform = self.again()

    def again(self) -> Powered:
        """Return the same rack, as another process gets to know it."""
        return Powered(self.hosts, self.sockets.get, lambda: self.time)

    def state(self, node: NodeId) -> NodeState:
        """Return how *node* is seen."""
        return self.platform.observe().nodes[node].state

    def settled(self, task: TaskId, platform: Powered | None = None) -> TaskStatus:
        """Return how *task* stands once its driver was asked."""
        return settled(platform or self.platform, task)


def settled(platform: Powered, task: TaskId) -> TaskStatus:
    """Return how *task* stands once its driver was asked."""
    pause = Event()
    for _ in range(500):
        status = platform.status(task)
        if not status.detail.endswith("is being asked"):
            return status
        pause.wait(0.01)
    pytest.fail(f"the driver is still asked for {task}")


def within_a_moment(holds: Callable[[], bool]) -> None:
    """Wait until *holds*."""
    pause = Event()
    for _ in range(500):
        if holds():
            return
        pause.wait(0.01)
    pytest.fail("it does not come to that")
