"""For how long a node is waited for, what was given up, and who may still leave."""

from __future__ import annotations

from threading import Event

import pytest

from opendrs.errors import PlatformError, PlatformUnavailableError, UnsupportedError
from opendrs.model import (
    GuestId,
    Migration,
    NodeState,
    PowerOff,
    PowerOn,
    Relocation,
    Snapshot,
)
from opendrs.platforms.power.waiting import LATE
from opendrs.ports import TaskState
from unit.platforms.power.hosts import H1, H2, H3, Rack, within_a_moment

OFF, ON = PowerOff(H2), PowerOn(H2)
COME = Migration(GuestId("vm1"), H1, H2)


@pytest.fixture
def rack() -> Rack:
    return Rack()


def stubborn(rack: Rack) -> None:
    """Let the driver of h2 say yes, and h2 do nothing."""
    rack.sockets[H2].follows = False


def looking(rack: Rack) -> Event:
    """Let every look at the hosts take until the event that is returned."""
    seen, go_on = rack.hosts.observe, Event()

    def observe() -> Snapshot:
        go_on.wait()
        return seen()

    rack.hosts.observe = observe  # type: ignore[method-assign]
    return go_on


def test_a_node_that_does_not_come_is_waited_for_no_longer_than_its_patience(
    rack: Rack,
) -> None:
    rack.hosts.dark.add(H2)
    stubborn(rack)
    task = rack.platform.start(ON)
    rack.settled(task)
    rack.time = 299.0
    before = rack.platform.status(task)
    rack.time = 300.0
    after = rack.platform.status(task)

    assert before.state is TaskState.RUNNING
    assert after.state is TaskState.FAILED
    assert after.detail == "h2 did not follow within 300 s; the power of h2 is off"


def test_a_node_that_comes_late_has_come(rack: Rack) -> None:
    rack.hosts.dark.add(H2)
    stubborn(rack)
    task = rack.platform.start(ON)
    rack.settled(task)
    rack.hosts.dark.discard(H2)
    rack.time = 1000.0

    assert rack.platform.status(task).state is TaskState.DONE


def test_patience_begins_anew_with_each_try(rack: Rack) -> None:
    rack.hosts.dark.add(H2)
    stubborn(rack)
    rack.settled(rack.platform.start(ON))
    rack.time = 1000.0
    task = rack.platform.start(ON)

    assert rack.settled(task).state is TaskState.RUNNING


def test_who_cannot_confirm_is_asked_no_longer_than_that_either(rack: Rack) -> None:
    stubborn(rack)
    task = rack.platform.start(OFF)
    rack.settled(task)
    rack.sockets[H2].mute = PlatformUnavailableError("the controller is dead")
    rack.time = 300.0

    status = rack.platform.status(task)

    assert status.state is TaskState.FAILED
    assert status.detail == (
        "h2 did not follow within 300 s; how it is now cannot be told: the "
        "controller is dead"
    )


def test_what_another_process_may_have_asked_for_is_not_waited_for_longer(
    rack: Rack,
) -> None:
    other = rack.again()
    task = other.find(OFF)
    first = other.status(task)
    rack.time = 300.0

    assert first.state is TaskState.RUNNING
    assert other.status(task).state is TaskState.FAILED
    assert rack.sockets[H2].asked == []


@pytest.mark.parametrize("reachable", [True, False])
def test_a_node_that_another_process_wanted_awake_is_asked_once_more(
    rack: Rack, *, reachable: bool
) -> None:
    rack.hosts.dark.add(H2)
    rack.hosts.reachable = reachable
    rack.sockets[H2].silence = 60.0  # so that the hosts must be looked at
    other = rack.again()
    task = other.find(ON)
    if reachable:
        assert other.status(task).state is TaskState.RUNNING
    else:
        with pytest.raises(PlatformUnavailableError):
            other.status(task)
    within_a_moment(lambda: rack.sockets[H2].asked == ["on"])
    rack.hosts.reachable = True

    assert rack.settled(task, other).state is TaskState.DONE
    assert rack.sockets[H2].asked == ["on"]


def test_what_was_given_up_is_not_asked_for_again(rack: Rack) -> None:
    rack.hosts.dark.add(H2)
    other = rack.again()
    task = other.find(ON)
    other.abort(task)

    assert other.status(task).state is TaskState.FAILED
    assert rack.sockets[H2].asked == []


@pytest.mark.parametrize("switch", [OFF, ON])
@pytest.mark.parametrize("detached", [True, False])
def test_a_driver_is_not_asked_once_it_was_given_up(
    rack: Rack, switch: PowerOff | PowerOn, *, detached: bool
) -> None:
    if isinstance(switch, PowerOn):
        rack.hosts.dark.add(H2)
    rack.sockets[H2].detached = detached
    go_on = looking(rack)
    task = rack.platform.start(switch)

    rack.platform.abort(task)
    go_on.set()
    status = rack.settled(task)

    assert status.state is TaskState.FAILED
    assert status.detail.startswith("h2 was not asked: it was given up; ")
    assert rack.sockets[H2].asked == []


def test_what_was_given_up_and_has_not_ended_is_not_started_again(rack: Rack) -> None:
    go_on = looking(rack)
    task = rack.platform.start(OFF)
    rack.platform.abort(task)

    with pytest.raises(PlatformError, match="still being asked what was given up"):
        rack.platform.start(OFF)
    go_on.set()
    rack.settled(task)
    assert rack.settled(rack.platform.start(OFF)).state is TaskState.DONE


@pytest.mark.parametrize("move", [COME, Relocation(GuestId("vm1"), H1, H2)])
def test_nobody_is_moved_to_a_node_that_is_being_asked_to_go(
    rack: Rack, move: Migration | Relocation
) -> None:
    rack.sockets[H2].gate.clear()
    rack.platform.start(OFF)

    with pytest.raises(PlatformError, match="h2 was asked to go to sleep"):
        rack.platform.start(move)
    assert rack.hosts.asked == []
    rack.sockets[H2].gate.set()


def test_nobody_is_moved_to_a_node_that_may_still_go(rack: Rack) -> None:
    stubborn(rack)
    task = rack.platform.start(OFF)
    rack.settled(task)
    rack.platform.abort(task)
    rack.time = LATE - 1

    with pytest.raises(PlatformError, match="h2 was asked to go to sleep"):
        rack.platform.start(COME)


def moves_are_handed_on(rack: Rack) -> bool:
    """Return whether the other platform is asked for a move to h2."""
    with pytest.raises(UnsupportedError, match="not here"):
        rack.platform.start(COME)
    return rack.hosts.asked == ["start Migration"]


def test_a_node_that_has_not_gone_for_long_stays(rack: Rack) -> None:
    stubborn(rack)
    rack.settled(rack.platform.start(OFF))
    rack.time = LATE

    assert moves_are_handed_on(rack)


def test_a_node_that_was_never_asked_to_go_stays(rack: Rack) -> None:
    go_on = looking(rack)
    task = rack.platform.start(OFF)
    rack.platform.abort(task)
    go_on.set()
    rack.settled(task)

    assert moves_are_handed_on(rack)


def test_a_node_that_has_gone_and_come_back_stays(rack: Rack) -> None:
    rack.settled(rack.platform.start(OFF))
    rack.hosts.dark.discard(H2)

    assert moves_are_handed_on(rack)


def test_a_node_that_was_seen_to_have_gone_late_and_came_back_stays(rack: Rack) -> None:
    stubborn(rack)
    task = rack.platform.start(OFF)
    rack.settled(task)
    rack.platform.abort(task)
    rack.hosts.dark.add(H2)
    asleep = rack.state(H2)
    rack.hosts.dark.discard(H2)

    assert asleep is NodeState.OFFLINE
    assert moves_are_handed_on(rack)


def test_a_node_that_was_woken_since_stays(rack: Rack) -> None:
    stubborn(rack)
    rack.settled(rack.platform.start(OFF))
    rack.settled(rack.platform.start(ON))

    assert moves_are_handed_on(rack)


def test_a_node_may_go_while_guests_move_elsewhere(rack: Rack) -> None:
    rack.sockets[H2].gate.clear()
    rack.platform.start(OFF)

    with pytest.raises(UnsupportedError, match="not here"):
        rack.platform.start(Migration(GuestId("vm1"), H1, H3))
    rack.sockets[H2].gate.set()
