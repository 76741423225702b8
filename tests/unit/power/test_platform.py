"""A platform with power: what is asked of drivers, and what is believed."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from opendrs.errors import PlatformError, PlatformUnavailableError, UnsupportedError
from opendrs.model import (
    Guest,
    GuestId,
    GuestState,
    LiveMigration,
    Node,
    NodeState,
    PowerOff,
    PowerOn,
)
from opendrs.ports import TaskId, TaskState
from opendrs.power import PowerState
from support.builders import guest
from support.power_hosts import H1, H2, H3, PowerTestCluster, wait_until

OFF, ON = PowerOff(H2), PowerOn(H2)


@pytest.fixture
def power_cluster() -> PowerTestCluster:
    return PowerTestCluster()


def test_empty_node_is_powered_off_and_on(power_cluster: PowerTestCluster) -> None:
    off = power_cluster.wait_for_request(power_cluster.platform.start(OFF))
    powered_off = power_cluster.state(H2)
    on = power_cluster.wait_for_request(power_cluster.platform.start(ON))

    assert off.state is TaskState.DONE
    assert off.detail == "h2: power is off"
    assert powered_off is NodeState.OFFLINE
    assert on.state is TaskState.DONE
    assert power_cluster.state(H2) is NodeState.ONLINE


def test_start_returns_before_the_driver(power_cluster: PowerTestCluster) -> None:
    power_cluster.drivers[H2].gate.clear()

    task = power_cluster.platform.start(OFF)

    assert power_cluster.platform.status(task).state is TaskState.RUNNING
    assert power_cluster.platform.status(task).detail == "h2: power request in progress"
    power_cluster.drivers[H2].gate.set()
    assert power_cluster.wait_for_request(task).state is TaskState.DONE


def test_repeated_start_sends_one_request(power_cluster: PowerTestCluster) -> None:
    power_cluster.drivers[H2].gate.clear()
    tasks = {power_cluster.platform.start(OFF), power_cluster.platform.start(OFF)}
    power_cluster.drivers[H2].gate.set()
    (task,) = tasks
    power_cluster.wait_for_request(task)
    again = power_cluster.wait_for_request(power_cluster.platform.start(OFF))

    assert again.state is TaskState.DONE
    assert power_cluster.drivers[H2].requests == ["off"]


def test_online_node_is_not_powered_on(power_cluster: PowerTestCluster) -> None:
    assert (
        power_cluster.wait_for_request(power_cluster.platform.start(ON)).state
        is TaskState.DONE
    )
    assert power_cluster.drivers[H2].requests == []


def test_opposite_of_pending_action_is_rejected(
    power_cluster: PowerTestCluster,
) -> None:
    power_cluster.drivers[H2].gate.clear()
    power_cluster.platform.start(OFF)
    wait_until(lambda: power_cluster.drivers[H2].requests == ["off"])

    with pytest.raises(
        PlatformError, match="h2: the opposite power action is in progress"
    ):
        power_cluster.platform.start(ON)
    power_cluster.drivers[H2].gate.set()


def test_accepted_request_is_not_done(power_cluster: PowerTestCluster) -> None:
    power_cluster.drivers[H2].takes_effect = False

    status = power_cluster.wait_for_request(power_cluster.platform.start(OFF))

    assert status.state is TaskState.RUNNING
    assert status.detail == "h2: power is on"
    assert power_cluster.state(H2) is NodeState.ONLINE


def test_powered_node_is_not_online(power_cluster: PowerTestCluster) -> None:
    power_cluster.hosts.powered_off.add(H2)
    power_cluster.drivers[H2].takes_effect = False
    task = power_cluster.platform.start(ON)
    still_off = power_cluster.wait_for_request(task)
    power_cluster.drivers[H2].reported_state = PowerState.ON

    booting = power_cluster.wait_for_request(task)

    assert still_off.detail == "h2: power is off"
    assert booting.state is TaskState.RUNNING
    assert booting.detail == "h2: state is unknown"


def test_driver_error_is_a_failure(power_cluster: PowerTestCluster) -> None:
    power_cluster.drivers[H2].request_error = PlatformError("the fuse is blown")
    power_cluster.drivers[H2].takes_effect = False

    status = power_cluster.wait_for_request(power_cluster.platform.start(OFF))

    assert status.state is TaskState.FAILED
    assert status.detail == "the fuse is blown; h2: power is on"


def test_driver_error_with_confirmed_state_is_done(
    power_cluster: PowerTestCluster,
) -> None:
    socket = power_cluster.drivers[H2]
    socket.request_error = PlatformError("Connection to h2 closed by remote host.")
    task = power_cluster.platform.start(OFF)
    wait_until(lambda: socket.requests == ["off"])
    power_cluster.hosts.powered_off.add(H2)

    assert power_cluster.wait_for_request(task).state is TaskState.DONE


def test_detached_off_command_may_fail(power_cluster: PowerTestCluster) -> None:
    socket = power_cluster.drivers[H2]
    socket.detached, socket.request_error = True, PlatformError("Broken pipe")
    task = power_cluster.platform.start(OFF)
    waiting = power_cluster.wait_for_request(task)
    power_cluster.hosts.powered_off.add(H2)

    assert waiting.state is TaskState.RUNNING
    assert power_cluster.wait_for_request(task).state is TaskState.DONE


def test_detached_on_command_must_not_fail(power_cluster: PowerTestCluster) -> None:
    power_cluster.hosts.powered_off.add(H2)
    socket = power_cluster.drivers[H2]
    socket.detached, socket.request_error = True, PlatformError("no such interface")

    assert (
        power_cluster.wait_for_request(power_cluster.platform.start(ON)).state
        is TaskState.FAILED
    )


@pytest.mark.parametrize(
    "somebody",
    [
        guest("vm", "h2", 0.1),
        guest("vm", "h2", 0.0, state=GuestState.STOPPED),
        guest("vm", "h2", 0.0, state=GuestState.UNKNOWN),
        guest("vm", "h1", 0.1, migrating_to=H2),
    ],
    ids=["runs", "is stopped", "is unknown", "arrives"],
)
def test_a_node_that_is_not_empty_stays_on(
    power_cluster: PowerTestCluster, somebody: Guest
) -> None:
    seen = power_cluster.hosts.snapshot
    power_cluster.hosts.snapshot = replace(
        seen, guests={**seen.guests, GuestId("vm"): somebody}
    )

    status = power_cluster.wait_for_request(power_cluster.platform.start(OFF))

    assert status.state is TaskState.FAILED
    assert status.detail.startswith("h2: not powered off: not empty: vm")
    assert power_cluster.drivers[H2].requests == []


def test_unreachable_node_stays_on(power_cluster: PowerTestCluster) -> None:
    seen = power_cluster.hosts.snapshot
    silent = replace(seen, nodes={**seen.nodes, H2: Node(id=H2)})
    power_cluster.hosts.snapshot = silent

    status = power_cluster.wait_for_request(power_cluster.platform.start(OFF))

    assert status.state is TaskState.FAILED
    assert "h2: not powered off: its state is unknown" in status.detail
    assert power_cluster.drivers[H2].requests == []


def test_unreachable_cluster_powers_off_no_node(
    power_cluster: PowerTestCluster,
) -> None:
    power_cluster.hosts.reachable = False

    status = power_cluster.wait_for_request(power_cluster.platform.start(OFF))

    assert status.state is TaskState.FAILED
    assert power_cluster.drivers[H2].requests == []


def test_node_is_powered_on_while_all_are_off(power_cluster: PowerTestCluster) -> None:
    power_cluster.hosts.powered_off |= {H1, H2}
    power_cluster.hosts.reachable = False

    task = power_cluster.platform.start(ON)
    wait_until(lambda: power_cluster.drivers[H2].requests == ["on"])
    power_cluster.hosts.reachable = True

    assert power_cluster.wait_for_request(task).state is TaskState.DONE


def test_node_without_driver_is_unsupported(power_cluster: PowerTestCluster) -> None:
    for ask in (power_cluster.platform.start, power_cluster.platform.find):
        with pytest.raises(UnsupportedError, match="h3: cannot be powered on or off"):
            ask(PowerOff(H3))


def test_another_process_finds_the_finished_task(
    power_cluster: PowerTestCluster,
) -> None:
    power_cluster.drivers[H2].takes_effect = False
    task = power_cluster.platform.start(OFF)
    power_cluster.wait_for_request(task)
    other = power_cluster.restart()
    found, going = other.find(OFF), other.status(task)
    power_cluster.hosts.powered_off.add(H2)

    assert found == task
    assert going.state is TaskState.RUNNING
    assert other.status(task).state is TaskState.DONE


def test_find_starts_nothing(power_cluster: PowerTestCluster) -> None:
    power_cluster.platform.find(OFF)
    power_cluster.restart().status(power_cluster.platform.find(OFF))

    assert power_cluster.drivers[H2].requests == []


def test_abort_fails_the_task(power_cluster: PowerTestCluster) -> None:
    power_cluster.drivers[H2].takes_effect = False
    task = power_cluster.platform.start(OFF)
    power_cluster.wait_for_request(task)

    power_cluster.platform.abort(task)
    aborted = power_cluster.platform.status(task)
    power_cluster.hosts.powered_off.add(H2)
    later = power_cluster.platform.status(task)

    assert aborted.state is TaskState.FAILED
    assert aborted.detail == "wait cancelled; h2: power is on"
    assert later.state is TaskState.DONE


def test_aborted_action_can_be_started_again(power_cluster: PowerTestCluster) -> None:
    power_cluster.drivers[H2].takes_effect = False
    power_cluster.platform.abort(power_cluster.platform.find(OFF))

    assert (
        power_cluster.wait_for_request(power_cluster.platform.start(OFF)).state
        is TaskState.RUNNING
    )


def test_abort_of_done_task_changes_nothing(power_cluster: PowerTestCluster) -> None:
    task = power_cluster.platform.start(OFF)
    power_cluster.wait_for_request(task)

    power_cluster.platform.abort(task)

    assert power_cluster.platform.status(task).state is TaskState.DONE


def test_unresponsive_node_confirms_power_off(power_cluster: PowerTestCluster) -> None:
    power_cluster.drivers[H2].off_confirm_time = 60.0
    task = power_cluster.platform.start(OFF)
    first = power_cluster.wait_for_request(task)
    power_cluster.time = 59.0
    early = power_cluster.platform.status(task)
    power_cluster.time = 60.0
    enough = power_cluster.platform.status(task)

    assert (first.state, first.detail) == (
        TaskState.RUNNING,
        "h2: unresponsive for 0 s",
    )
    assert early.state is TaskState.RUNNING
    assert enough.state is TaskState.DONE
    assert enough.detail == "h2: unresponsive for 60 s"


def test_response_restarts_the_off_confirm_time(
    power_cluster: PowerTestCluster,
) -> None:
    power_cluster.drivers[H2].off_confirm_time = 60.0
    task = power_cluster.platform.start(OFF)
    power_cluster.wait_for_request(task)
    power_cluster.hosts.powered_off.discard(H2)
    power_cluster.time = 50.0
    answers = power_cluster.platform.status(task)
    power_cluster.hosts.powered_off.add(H2)
    power_cluster.platform.status(task)
    power_cluster.time = 100.0

    assert answers.detail == "h2: still responds"
    assert power_cluster.platform.status(task).state is TaskState.RUNNING


def test_unresponsive_node_is_not_shown_as_offline(
    power_cluster: PowerTestCluster,
) -> None:
    power_cluster.drivers[H2].off_confirm_time = 60.0
    power_cluster.hosts.powered_off.add(H2)
    power_cluster.state(H2)
    power_cluster.time = 1000.0

    assert power_cluster.state(H2) is NodeState.UNKNOWN


def test_only_unknown_nodes_are_queried(power_cluster: PowerTestCluster) -> None:
    power_cluster.drivers[H1].state_error = PlatformError("must not be asked")

    assert power_cluster.state(H1) is NodeState.ONLINE


def test_powered_unreachable_node_stays_unknown(
    power_cluster: PowerTestCluster,
) -> None:
    seen = power_cluster.hosts.snapshot
    power_cluster.hosts.snapshot = replace(seen, nodes={**seen.nodes, H2: Node(id=H2)})

    assert power_cluster.state(H2) is NodeState.UNKNOWN


def test_a_node_without_a_driver_stays_unknown(power_cluster: PowerTestCluster) -> None:
    power_cluster.hosts.powered_off.add(H3)

    assert power_cluster.state(H3) is NodeState.UNKNOWN


def test_failing_state_query_is_logged_once(
    power_cluster: PowerTestCluster, caplog: pytest.LogCaptureFixture
) -> None:
    power_cluster.hosts.powered_off.add(H2)
    power_cluster.drivers[H2].state_error = PlatformUnavailableError(
        "the controller is dead"
    )
    with caplog.at_level(logging.WARNING):
        states = [power_cluster.state(H2), power_cluster.state(H2)]
    power_cluster.drivers[H2].state_error = None

    assert states == [NodeState.UNKNOWN] * 2
    assert [record.getMessage() for record in caplog.records] == [
        "the controller is dead; power state of h2 unknown"
    ]
    assert power_cluster.state(H2) is NodeState.OFFLINE


def test_failing_confirmation_is_retried(power_cluster: PowerTestCluster) -> None:
    task = power_cluster.platform.start(OFF)
    power_cluster.wait_for_request(task)
    power_cluster.drivers[H2].state_error = PlatformUnavailableError(
        "the controller is dead"
    )

    with pytest.raises(PlatformUnavailableError):
        power_cluster.platform.status(task)


def test_failed_request_without_confirmation_fails(
    power_cluster: PowerTestCluster,
) -> None:
    dead = PlatformUnavailableError("the controller is dead")
    power_cluster.drivers[H2].request_error = power_cluster.drivers[H2].state_error = (
        dead
    )

    status = power_cluster.wait_for_request(power_cluster.platform.start(OFF))

    assert status.state is TaskState.FAILED
    assert status.detail == (
        "the controller is dead; current state unknown: the controller is dead"
    )


def test_other_actions_are_delegated(power_cluster: PowerTestCluster) -> None:
    move, task = LiveMigration(GuestId("vm1"), H1, H2), TaskId("power")
    with pytest.raises(UnsupportedError, match="not here"):
        power_cluster.platform.start(move)
    power_cluster.platform.find(move)
    power_cluster.platform.status(task)
    power_cluster.platform.abort(task)

    assert power_cluster.platform.name == "hosts"
    assert power_cluster.hosts.requests == [
        "start LiveMigration",
        "find LiveMigration",
        "status power",
        "abort power",
    ]
