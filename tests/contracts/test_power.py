"""What every platform whose nodes can be switched keeps to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Event

import pytest

from builders import cluster
from opendrs.errors import PlatformError
from opendrs.model import NodeId, NodeState, PowerOff, PowerOn
from opendrs.platforms.power import Powered, PowerState
from opendrs.ports import Platform, TaskId, TaskState, TaskStatus
from opendrs.sim.clock import SimulatedClock
from opendrs.sim.platform import SimulatedPlatform

BUSY, EMPTY, STRANGER = NodeId("h1"), NodeId("h2"), NodeId("h9")


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Nodes h1 and h2, and a guest on h1.

    Attributes:
        platform: The platform under test.
        again: The same cluster, as another process gets to know it.
        wait: Lets so many seconds pass.
    """

    platform: Platform
    again: Callable[[], Platform]
    wait: Callable[[float], object]

    def ended(self, task: TaskId) -> TaskStatus:
        for _ in range(2000):
            status = self.platform.status(task)
            if status.state is not TaskState.RUNNING:
                return status
            self.wait(1.0)
        pytest.fail(f"{task} does not end")

    def state(self, node: NodeId) -> NodeState:
        return self.platform.observe().nodes[node].state


class SimulatedSocket:
    """The power of one node of a simulated cluster, as a driver has it."""

    silence: float | None = None
    detached = False
    patience = 300.0

    def __init__(self, world: SimulatedPlatform, node: NodeId) -> None:
        self._world, self._node = world, node

    def on(self) -> None:
        """Switch it on."""
        self._world.start(PowerOn(self._node))

    def off(self) -> None:
        """Switch it off."""
        self._world.start(PowerOff(self._node))

    def state(self) -> PowerState:
        """Return whether it is on."""
        online = self._world.observe().nodes[self._node].online
        return PowerState.ON if online else PowerState.OFF


def world() -> tuple[SimulatedPlatform, SimulatedClock]:
    clock = SimulatedClock()
    origin = cluster({"h1": 0.5, "h2": 0.0}, {"vm": ("h1", 0.4)})
    return SimulatedPlatform(origin, clock), clock


def simulated() -> Stage:
    platform, clock = world()
    return Stage(platform=platform, again=lambda: platform, wait=clock.sleep)


def powered() -> Stage:
    simulation, clock = world()
    sockets = {node: SimulatedSocket(simulation, node) for node in (BUSY, EMPTY)}

    def platform() -> Platform:
        return Powered(simulation, sockets.get)

    def wait(seconds: float) -> None:
        Event().wait(0.001)  # for the thread that asks the driver
        clock.sleep(seconds)

    return Stage(platform=platform(), again=platform, wait=wait)


@pytest.fixture(params=[simulated, powered])
def stage(request: pytest.FixtureRequest) -> Stage:
    setting: Callable[[], Stage] = request.param
    return setting()


def test_an_empty_node_sleeps_and_wakes(stage: Stage) -> None:
    off = stage.ended(stage.platform.start(PowerOff(EMPTY))).state
    asleep = stage.state(EMPTY)
    on = stage.ended(stage.platform.start(PowerOn(EMPTY))).state

    assert (off, asleep) == (TaskState.DONE, NodeState.OFFLINE)
    assert (on, stage.state(EMPTY)) == (TaskState.DONE, NodeState.ONLINE)


def test_a_node_that_is_not_empty_stays_on(stage: Stage) -> None:
    try:
        ended = stage.ended(stage.platform.start(PowerOff(BUSY)))
    except PlatformError as error:
        said = str(error)
    else:
        assert ended.state is TaskState.FAILED
        said = ended.detail

    assert "not empty" in said
    assert stage.state(BUSY) is NodeState.ONLINE


def test_a_node_it_does_not_know_is_not_switched(stage: Stage) -> None:
    for switch in (PowerOn(STRANGER), PowerOff(STRANGER)):
        try:
            ended = stage.ended(stage.platform.start(switch))
        except PlatformError:
            continue
        assert ended.state is TaskState.FAILED


def test_a_switch_is_found_again_by_its_action(stage: Stage) -> None:
    before = stage.platform.find(PowerOff(EMPTY))
    task = stage.platform.start(PowerOff(EMPTY))
    during = stage.again().find(PowerOff(EMPTY))
    stage.ended(task)
    after = stage.again().find(PowerOff(EMPTY))

    assert {before, task, during} == {after}


def test_another_process_sees_the_end_of_a_switch(stage: Stage) -> None:
    task = stage.platform.start(PowerOff(EMPTY))
    stage.ended(task)

    assert stage.again().status(task).state is TaskState.DONE


def test_finding_switches_nothing(stage: Stage) -> None:
    stage.platform.find(PowerOff(EMPTY))
    stage.wait(1000.0)

    assert stage.state(EMPTY) is NodeState.ONLINE


def test_to_give_up_what_is_done_changes_nothing(stage: Stage) -> None:
    task = stage.platform.start(PowerOff(EMPTY))
    stage.ended(task)

    stage.platform.abort(task)

    assert stage.platform.status(task).state is TaskState.DONE
    assert stage.state(EMPTY) is NodeState.OFFLINE
