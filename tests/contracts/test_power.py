"""Contract of all platforms with power actions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Event

import pytest

from opendrs.errors import PlatformError
from opendrs.model import NodeId, NodeState, PowerOff, PowerOn
from opendrs.ports import Platform, TaskId, TaskState, TaskStatus
from opendrs.power import PoweredPlatform, PowerState
from opendrs.simulation import SimulatedClock, SimulatedPlatform
from support.builders import cluster

BUSY, EMPTY, UNKNOWN_NODE = NodeId("h1"), NodeId("h2"), NodeId("h9")


@dataclass(frozen=True, kw_only=True)
class PoweredSetup:
    """Nodes h1 and h2, and a guest on h1.

    Attributes:
        platform: The platform under test.
        again: The same cluster, as another process gets to know it.
        wait: Lets so many seconds pass.
    """

    platform: Platform
    again: Callable[[], Platform]
    wait: Callable[[float], object]

    def wait_until_ended(self, task: TaskId) -> TaskStatus:
        for _ in range(2000):
            status = self.platform.status(task)
            if status.state is not TaskState.RUNNING:
                return status
            self.wait(1.0)
        pytest.fail(f"{task} does not end")

    def node_state(self, node: NodeId) -> NodeState:
        return self.platform.observe().nodes[node].state


class SimulatedPowerDriver:
    """The power of one node of a simulated cluster, as a driver has it."""

    off_confirm_time: float | None = None
    detached = False
    transition_timeout = 300.0

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


def simulated_platform() -> tuple[SimulatedPlatform, SimulatedClock]:
    clock = SimulatedClock()
    origin = cluster({"h1": 0.5, "h2": 0.0}, {"vm": ("h1", 0.4)})
    return SimulatedPlatform(origin, clock), clock


def simulated() -> PoweredSetup:
    platform, clock = simulated_platform()
    return PoweredSetup(platform=platform, again=lambda: platform, wait=clock.sleep)


def powered() -> PoweredSetup:
    simulation, clock = simulated_platform()
    sockets = {node: SimulatedPowerDriver(simulation, node) for node in (BUSY, EMPTY)}

    def platform() -> Platform:
        return PoweredPlatform(simulation, sockets.get)

    def wait(seconds: float) -> None:
        Event().wait(0.001)  # for the thread that asks the driver
        clock.sleep(seconds)

    return PoweredSetup(platform=platform(), again=platform, wait=wait)


@pytest.fixture(params=[simulated, powered])
def setup_under_test(request: pytest.FixtureRequest) -> PoweredSetup:
    setting: Callable[[], PoweredSetup] = request.param
    return setting()


def test_empty_node_powers_off_and_on(setup_under_test: PoweredSetup) -> None:
    off = setup_under_test.wait_until_ended(
        setup_under_test.platform.start(PowerOff(EMPTY))
    ).state
    state = setup_under_test.node_state(EMPTY)
    on = setup_under_test.wait_until_ended(
        setup_under_test.platform.start(PowerOn(EMPTY))
    ).state

    assert (off, state) == (TaskState.DONE, NodeState.OFFLINE)
    assert (on, setup_under_test.node_state(EMPTY)) == (
        TaskState.DONE,
        NodeState.ONLINE,
    )


def test_power_off_node_with_guests_fails(setup_under_test: PoweredSetup) -> None:
    try:
        ended = setup_under_test.wait_until_ended(
            setup_under_test.platform.start(PowerOff(BUSY))
        )
    except PlatformError as error:
        said = str(error)
    else:
        assert ended.state is TaskState.FAILED
        said = ended.detail

    assert "not empty" in said
    assert setup_under_test.node_state(BUSY) is NodeState.ONLINE


def test_power_action_unknown_node_fails(setup_under_test: PoweredSetup) -> None:
    for switch in (PowerOn(UNKNOWN_NODE), PowerOff(UNKNOWN_NODE)):
        try:
            ended = setup_under_test.wait_until_ended(
                setup_under_test.platform.start(switch)
            )
        except PlatformError:
            continue
        assert ended.state is TaskState.FAILED


def test_find_power_action_returns_its_task(setup_under_test: PoweredSetup) -> None:
    before = setup_under_test.platform.find(PowerOff(EMPTY))
    task = setup_under_test.platform.start(PowerOff(EMPTY))
    during = setup_under_test.again().find(PowerOff(EMPTY))
    setup_under_test.wait_until_ended(task)
    after = setup_under_test.again().find(PowerOff(EMPTY))

    assert {before, task, during} == {after}


def test_power_action_status_in_other_process_is_done(
    setup_under_test: PoweredSetup,
) -> None:
    task = setup_under_test.platform.start(PowerOff(EMPTY))
    setup_under_test.wait_until_ended(task)

    assert setup_under_test.again().status(task).state is TaskState.DONE


def test_find_starts_no_power_action(setup_under_test: PoweredSetup) -> None:
    setup_under_test.platform.find(PowerOff(EMPTY))
    setup_under_test.wait(1000.0)

    assert setup_under_test.node_state(EMPTY) is NodeState.ONLINE


def test_abort_done_power_action_changes_nothing(
    setup_under_test: PoweredSetup,
) -> None:
    task = setup_under_test.platform.start(PowerOff(EMPTY))
    setup_under_test.wait_until_ended(task)

    setup_under_test.platform.abort(task)

    assert setup_under_test.platform.status(task).state is TaskState.DONE
    assert setup_under_test.node_state(EMPTY) is NodeState.OFFLINE
