"""Timeouts of power actions, dropped actions, and guests that may still migrate."""

from __future__ import annotations

from threading import Event

import pytest

from opendrs.errors import PlatformError, PlatformUnavailableError, UnsupportedError
from opendrs.model import (
    ColdMigration,
    GuestId,
    LiveMigration,
    NodeState,
    PowerOff,
    PowerOn,
    Snapshot,
)
from opendrs.ports import MAX_POWER_OFF_DELAY, TaskState
from support.power_hosts import H1, H2, H3, PowerTestCluster, wait_until

OFF, ON = PowerOff(H2), PowerOn(H2)
ONLINE = LiveMigration(GuestId("vm1"), H1, H2)


@pytest.fixture
def power_cluster() -> PowerTestCluster:
    return PowerTestCluster()


def unaffected_cluster(power_cluster: PowerTestCluster) -> None:
    """Let the driver of h2 say yes, and h2 do nothing."""
    power_cluster.drivers[H2].takes_effect = False


def blocking_observation(power_cluster: PowerTestCluster) -> Event:
    """Let every look at the hosts take until the event that is returned."""
    seen, go_on = power_cluster.hosts.observe, Event()

    def observe() -> Snapshot:
        go_on.wait()
        return seen()

    power_cluster.hosts.observe = observe  # type: ignore[method-assign]
    return go_on


def test_power_on_fails_after_the_transition_timeout(
    power_cluster: PowerTestCluster,
) -> None:
    power_cluster.hosts.powered_off.add(H2)
    unaffected_cluster(power_cluster)
    task = power_cluster.platform.start(ON)
    power_cluster.wait_for_request(task)
    power_cluster.time = 299.0
    before = power_cluster.platform.status(task)
    power_cluster.time = 300.0
    after = power_cluster.platform.status(task)

    assert before.state is TaskState.RUNNING
    assert after.state is TaskState.FAILED
    assert after.detail == "h2: timeout after 300 s; h2: power is off"


def test_late_power_on_is_done(power_cluster: PowerTestCluster) -> None:
    power_cluster.hosts.powered_off.add(H2)
    unaffected_cluster(power_cluster)
    task = power_cluster.platform.start(ON)
    power_cluster.wait_for_request(task)
    power_cluster.hosts.powered_off.discard(H2)
    power_cluster.time = 1000.0

    assert power_cluster.platform.status(task).state is TaskState.DONE


def test_each_start_has_its_own_timeout(power_cluster: PowerTestCluster) -> None:
    power_cluster.hosts.powered_off.add(H2)
    unaffected_cluster(power_cluster)
    power_cluster.wait_for_request(power_cluster.platform.start(ON))
    power_cluster.time = 1000.0
    task = power_cluster.platform.start(ON)

    assert power_cluster.wait_for_request(task).state is TaskState.RUNNING


def test_unconfirmable_action_fails_after_the_timeout(
    power_cluster: PowerTestCluster,
) -> None:
    unaffected_cluster(power_cluster)
    task = power_cluster.platform.start(OFF)
    power_cluster.wait_for_request(task)
    power_cluster.drivers[H2].state_error = PlatformUnavailableError(
        "the controller is dead"
    )
    power_cluster.time = 300.0

    status = power_cluster.platform.status(task)

    assert status.state is TaskState.FAILED
    assert status.detail == (
        "h2: timeout after 300 s; current state unknown: the controller is dead"
    )


def test_action_of_another_process_has_the_same_timeout(
    power_cluster: PowerTestCluster,
) -> None:
    other = power_cluster.restart()
    task = other.find(OFF)
    first = other.status(task)
    power_cluster.time = 300.0

    assert first.state is TaskState.RUNNING
    assert other.status(task).state is TaskState.FAILED
    assert power_cluster.drivers[H2].requests == []


@pytest.mark.parametrize("reachable", [True, False])
def test_power_on_of_another_process_is_requested_again(
    power_cluster: PowerTestCluster, *, reachable: bool
) -> None:
    power_cluster.hosts.powered_off.add(H2)
    power_cluster.hosts.reachable = reachable
    power_cluster.drivers[
        H2
    ].off_confirm_time = 60.0  # so that the hosts must be looked at
    other = power_cluster.restart()
    task = other.find(ON)
    if reachable:
        assert other.status(task).state is TaskState.RUNNING
    else:
        with pytest.raises(PlatformUnavailableError):
            other.status(task)
    wait_until(lambda: power_cluster.drivers[H2].requests == ["on"])
    power_cluster.hosts.reachable = True

    assert power_cluster.wait_for_request(task, other).state is TaskState.DONE
    assert power_cluster.drivers[H2].requests == ["on"]


def test_aborted_action_is_not_requested_again(power_cluster: PowerTestCluster) -> None:
    power_cluster.hosts.powered_off.add(H2)
    other = power_cluster.restart()
    task = other.find(ON)
    other.abort(task)

    assert other.status(task).state is TaskState.FAILED
    assert power_cluster.drivers[H2].requests == []


@pytest.mark.parametrize("switch", [OFF, ON])
@pytest.mark.parametrize("detached", [True, False])
def test_aborted_request_is_not_sent(
    power_cluster: PowerTestCluster, switch: PowerOff | PowerOn, *, detached: bool
) -> None:
    if isinstance(switch, PowerOn):
        power_cluster.hosts.powered_off.add(H2)
    power_cluster.drivers[H2].detached = detached
    go_on = blocking_observation(power_cluster)
    task = power_cluster.platform.start(switch)

    power_cluster.platform.abort(task)
    go_on.set()
    status = power_cluster.wait_for_request(task)

    assert status.state is TaskState.FAILED
    assert status.detail.startswith("h2: cancelled before the request; ")
    assert power_cluster.drivers[H2].requests == []


def test_pending_aborted_action_is_not_restarted(
    power_cluster: PowerTestCluster,
) -> None:
    go_on = blocking_observation(power_cluster)
    task = power_cluster.platform.start(OFF)
    power_cluster.platform.abort(task)

    with pytest.raises(
        PlatformError, match="a cancelled power request is still in progress"
    ):
        power_cluster.platform.start(OFF)
    go_on.set()
    power_cluster.wait_for_request(task)
    assert (
        power_cluster.wait_for_request(power_cluster.platform.start(OFF)).state
        is TaskState.DONE
    )


@pytest.mark.parametrize("move", [ONLINE, ColdMigration(GuestId("vm1"), H1, H2)])
def test_migration_to_node_with_pending_power_off_is_rejected(
    power_cluster: PowerTestCluster, move: LiveMigration | ColdMigration
) -> None:
    power_cluster.drivers[H2].gate.clear()
    power_cluster.platform.start(OFF)

    with pytest.raises(PlatformError, match="h2: a power-off was requested"):
        power_cluster.platform.start(move)
    assert power_cluster.hosts.requests == []
    power_cluster.drivers[H2].gate.set()


def test_migration_to_node_with_possible_power_off_is_rejected(
    power_cluster: PowerTestCluster,
) -> None:
    unaffected_cluster(power_cluster)
    task = power_cluster.platform.start(OFF)
    power_cluster.wait_for_request(task)
    power_cluster.platform.abort(task)
    power_cluster.time = MAX_POWER_OFF_DELAY - 1

    with pytest.raises(PlatformError, match="h2: a power-off was requested"):
        power_cluster.platform.start(ONLINE)


def assert_migration_starts(power_cluster: PowerTestCluster) -> bool:
    """Return whether the other platform is asked for a move to h2."""
    with pytest.raises(UnsupportedError, match="not here"):
        power_cluster.platform.start(ONLINE)
    return power_cluster.hosts.requests == ["start LiveMigration"]


def test_target_is_accepted_after_the_power_off_delay(
    power_cluster: PowerTestCluster,
) -> None:
    unaffected_cluster(power_cluster)
    power_cluster.wait_for_request(power_cluster.platform.start(OFF))
    power_cluster.time = MAX_POWER_OFF_DELAY

    assert assert_migration_starts(power_cluster)


def test_target_without_power_off_request_is_accepted(
    power_cluster: PowerTestCluster,
) -> None:
    go_on = blocking_observation(power_cluster)
    task = power_cluster.platform.start(OFF)
    power_cluster.platform.abort(task)
    go_on.set()
    power_cluster.wait_for_request(task)

    assert assert_migration_starts(power_cluster)


def test_target_after_power_cycle_is_accepted(power_cluster: PowerTestCluster) -> None:
    power_cluster.wait_for_request(power_cluster.platform.start(OFF))
    power_cluster.hosts.powered_off.discard(H2)

    assert assert_migration_starts(power_cluster)


def test_target_after_late_power_cycle_is_accepted(
    power_cluster: PowerTestCluster,
) -> None:
    unaffected_cluster(power_cluster)
    task = power_cluster.platform.start(OFF)
    power_cluster.wait_for_request(task)
    power_cluster.platform.abort(task)
    power_cluster.hosts.powered_off.add(H2)
    powered_off = power_cluster.state(H2)
    power_cluster.hosts.powered_off.discard(H2)

    assert powered_off is NodeState.OFFLINE
    assert assert_migration_starts(power_cluster)


def test_target_after_power_on_is_accepted(power_cluster: PowerTestCluster) -> None:
    unaffected_cluster(power_cluster)
    power_cluster.wait_for_request(power_cluster.platform.start(OFF))
    power_cluster.wait_for_request(power_cluster.platform.start(ON))

    assert assert_migration_starts(power_cluster)


def test_migrations_between_other_nodes_are_accepted(
    power_cluster: PowerTestCluster,
) -> None:
    power_cluster.drivers[H2].gate.clear()
    power_cluster.platform.start(OFF)

    with pytest.raises(UnsupportedError, match="not here"):
        power_cluster.platform.start(LiveMigration(GuestId("vm1"), H1, H3))
    power_cluster.drivers[H2].gate.set()
