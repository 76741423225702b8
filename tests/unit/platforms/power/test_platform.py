"""A platform with power: what is asked of drivers, and what is believed."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from builders import guest
from opendrs.errors import PlatformError, PlatformUnavailableError, UnsupportedError
from opendrs.model import (
    Guest,
    GuestId,
    GuestState,
    Migration,
    Node,
    NodeState,
    PowerOff,
    PowerOn,
)
from opendrs.platforms.power import PowerState
from opendrs.ports import TaskId, TaskState
from unit.platforms.power.hosts import H1, H2, H3, Rack, within_a_moment

OFF, ON = PowerOff(H2), PowerOn(H2)


@pytest.fixture
def rack() -> Rack:
    return Rack()


def test_an_empty_node_is_put_to_sleep_and_woken(rack: Rack) -> None:
    off = rack.settled(rack.platform.start(OFF))
    asleep = rack.state(H2)
    on = rack.settled(rack.platform.start(ON))

    assert off.state is TaskState.DONE
    assert off.detail == "the power of h2 is off"
    assert asleep is NodeState.OFFLINE
    assert on.state is TaskState.DONE
    assert rack.state(H2) is NodeState.ONLINE


def test_a_switch_is_started_and_not_waited_for(rack: Rack) -> None:
    rack.sockets[H2].gate.clear()

    task = rack.platform.start(OFF)

    assert rack.platform.status(task).state is TaskState.RUNNING
    assert rack.platform.status(task).detail == "h2 is being asked"
    rack.sockets[H2].gate.set()
    assert rack.settled(task).state is TaskState.DONE


def test_what_is_asked_twice_is_done_once(rack: Rack) -> None:
    rack.sockets[H2].gate.clear()
    tasks = {rack.platform.start(OFF), rack.platform.start(OFF)}
    rack.sockets[H2].gate.set()
    (task,) = tasks
    rack.settled(task)
    again = rack.settled(rack.platform.start(OFF))

    assert again.state is TaskState.DONE
    assert rack.sockets[H2].asked == ["off"]


def test_a_node_that_is_on_is_not_woken(rack: Rack) -> None:
    assert rack.settled(rack.platform.start(ON)).state is TaskState.DONE
    assert rack.sockets[H2].asked == []


def test_the_opposite_of_what_is_under_way_is_refused(rack: Rack) -> None:
    rack.sockets[H2].gate.clear()
    rack.platform.start(OFF)
    within_a_moment(lambda: rack.sockets[H2].asked == ["off"])

    with pytest.raises(PlatformError, match="h2 is being switched the other way"):
        rack.platform.start(ON)
    rack.sockets[H2].gate.set()


def test_a_driver_that_said_yes_is_not_believed(rack: Rack) -> None:
    rack.sockets[H2].follows = False

    status = rack.settled(rack.platform.start(OFF))

    assert status.state is TaskState.RUNNING
    assert status.detail == "the power of h2 is on"
    assert rack.state(H2) is NodeState.ONLINE


def test_power_alone_does_not_make_a_node_take_part(rack: Rack) -> None:
    rack.hosts.dark.add(H2)
    rack.sockets[H2].follows = False
    task = rack.platform.start(ON)
    still_off = rack.settled(task)
    rack.sockets[H2].shows = PowerState.ON

    booting = rack.settled(task)

    assert still_off.detail == "the power of h2 is off"
    assert booting.state is TaskState.RUNNING
    assert booting.detail == "the state of h2 is unknown"


def test_a_complaint_of_the_driver_is_a_failure(rack: Rack) -> None:
    rack.sockets[H2].complaint = PlatformError("the fuse is blown")
    rack.sockets[H2].follows = False

    status = rack.settled(rack.platform.start(OFF))

    assert status.state is TaskState.FAILED
    assert status.detail == "the fuse is blown; the power of h2 is on"


def test_a_complaint_is_no_failure_once_the_node_has_followed(rack: Rack) -> None:
    socket = rack.sockets[H2]
    socket.complaint = PlatformError("Connection to h2 closed by remote host.")
    task = rack.platform.start(OFF)
    within_a_moment(lambda: socket.asked == ["off"])
    rack.hosts.dark.add(H2)

    assert rack.settled(task).state is TaskState.DONE


def test_a_detached_command_may_complain(rack: Rack) -> None:
    socket = rack.sockets[H2]
    socket.detached, socket.complaint = True, PlatformError("Broken pipe")
    task = rack.platform.start(OFF)
    waiting = rack.settled(task)
    rack.hosts.dark.add(H2)

    assert waiting.state is TaskState.RUNNING
    assert rack.settled(task).state is TaskState.DONE


def test_also_a_detached_command_must_not_complain_when_it_wakes(rack: Rack) -> None:
    rack.hosts.dark.add(H2)
    socket = rack.sockets[H2]
    socket.detached, socket.complaint = True, PlatformError("no such interface")

    assert rack.settled(rack.platform.start(ON)).state is TaskState.FAILED


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
def test_a_node_that_is_not_empty_stays_on(rack: Rack, somebody: Guest) -> None:
    seen = rack.hosts.seen
    rack.hosts.seen = replace(seen, guests={**seen.guests, GuestId("vm"): somebody})

    status = rack.settled(rack.platform.start(OFF))

    assert status.state is TaskState.FAILED
    assert status.detail.startswith("h2 stays on: it is not empty (vm)")
    assert rack.sockets[H2].asked == []


def test_a_node_that_cannot_be_seen_stays_on(rack: Rack) -> None:
    seen = rack.hosts.seen
    silent = replace(seen, nodes={**seen.nodes, H2: Node(id=H2)})
    rack.hosts.seen = silent

    status = rack.settled(rack.platform.start(OFF))

    assert status.state is TaskState.FAILED
    assert "h2 stays on: its state is unknown" in status.detail
    assert rack.sockets[H2].asked == []


def test_a_cluster_that_cannot_be_seen_loses_no_node(rack: Rack) -> None:
    rack.hosts.reachable = False

    status = rack.settled(rack.platform.start(OFF))

    assert status.state is TaskState.FAILED
    assert rack.sockets[H2].asked == []


def test_where_all_sleep_one_can_still_be_woken(rack: Rack) -> None:
    rack.hosts.dark |= {H1, H2}
    rack.hosts.reachable = False

    task = rack.platform.start(ON)
    within_a_moment(lambda: rack.sockets[H2].asked == ["on"])
    rack.hosts.reachable = True

    assert rack.settled(task).state is TaskState.DONE


def test_a_node_without_a_driver_is_not_switched(rack: Rack) -> None:
    for ask in (rack.platform.start, rack.platform.find):
        with pytest.raises(UnsupportedError, match="h3 cannot be switched on or off"):
            ask(PowerOff(H3))


def test_another_process_finds_the_task_and_sees_its_end(rack: Rack) -> None:
    rack.sockets[H2].follows = False
    task = rack.platform.start(OFF)
    rack.settled(task)
    other = rack.again()
    found, going = other.find(OFF), other.status(task)
    rack.hosts.dark.add(H2)

    assert found == task
    assert going.state is TaskState.RUNNING
    assert other.status(task).state is TaskState.DONE


def test_finding_switches_nothing(rack: Rack) -> None:
    rack.platform.find(OFF)
    rack.again().status(rack.platform.find(OFF))

    assert rack.sockets[H2].asked == []


def test_to_give_up_is_to_wait_no_longer(rack: Rack) -> None:
    rack.sockets[H2].follows = False
    task = rack.platform.start(OFF)
    rack.settled(task)

    rack.platform.abort(task)
    given_up = rack.platform.status(task)
    rack.hosts.dark.add(H2)
    later = rack.platform.status(task)

    assert given_up.state is TaskState.FAILED
    assert given_up.detail == "no longer waited for; the power of h2 is on"
    assert later.state is TaskState.DONE


def test_what_was_given_up_can_be_started_again(rack: Rack) -> None:
    rack.sockets[H2].follows = False
    rack.platform.abort(rack.platform.find(OFF))

    assert rack.settled(rack.platform.start(OFF)).state is TaskState.RUNNING


def test_to_give_up_what_is_done_changes_nothing(rack: Rack) -> None:
    task = rack.platform.start(OFF)
    rack.settled(task)

    rack.platform.abort(task)

    assert rack.platform.status(task).state is TaskState.DONE


def test_where_the_state_cannot_be_asked_for_silence_confirms(rack: Rack) -> None:
    rack.sockets[H2].silence = 60.0
    task = rack.platform.start(OFF)
    first = rack.settled(task)
    rack.time = 59.0
    early = rack.platform.status(task)
    rack.time = 60.0
    enough = rack.platform.status(task)

    assert (first.state, first.detail) == (
        TaskState.RUNNING,
        "h2 has not answered for 0 s",
    )
    assert early.state is TaskState.RUNNING
    assert enough.state is TaskState.DONE
    assert enough.detail == "h2 has not answered for 60 s"


def test_a_word_in_between_breaks_the_silence(rack: Rack) -> None:
    rack.sockets[H2].silence = 60.0
    task = rack.platform.start(OFF)
    rack.settled(task)
    rack.hosts.dark.discard(H2)
    rack.time = 50.0
    answers = rack.platform.status(task)
    rack.hosts.dark.add(H2)
    rack.platform.status(task)
    rack.time = 100.0

    assert answers.detail == "h2 still answers"
    assert rack.platform.status(task).state is TaskState.RUNNING


def test_silence_alone_shows_no_node_as_asleep(rack: Rack) -> None:
    rack.sockets[H2].silence = 60.0
    rack.hosts.dark.add(H2)
    rack.state(H2)
    rack.time = 1000.0

    assert rack.state(H2) is NodeState.UNKNOWN


def test_only_who_does_not_answer_is_asked_about(rack: Rack) -> None:
    rack.sockets[H1].mute = PlatformError("must not be asked")

    assert rack.state(H1) is NodeState.ONLINE


def test_a_node_whose_power_is_on_stays_unknown(rack: Rack) -> None:
    seen = rack.hosts.seen
    rack.hosts.seen = replace(seen, nodes={**seen.nodes, H2: Node(id=H2)})

    assert rack.state(H2) is NodeState.UNKNOWN


def test_a_node_without_a_driver_stays_unknown(rack: Rack) -> None:
    rack.hosts.dark.add(H3)

    assert rack.state(H3) is NodeState.UNKNOWN


def test_a_driver_that_cannot_tell_is_reported_once(
    rack: Rack, caplog: pytest.LogCaptureFixture
) -> None:
    rack.hosts.dark.add(H2)
    rack.sockets[H2].mute = PlatformUnavailableError("the controller is dead")
    with caplog.at_level(logging.WARNING):
        states = [rack.state(H2), rack.state(H2)]
    rack.sockets[H2].mute = None

    assert states == [NodeState.UNKNOWN] * 2
    assert [record.getMessage() for record in caplog.records] == [
        "the controller is dead; whether h2 is off is not known"
    ]
    assert rack.state(H2) is NodeState.OFFLINE


def test_who_cannot_confirm_is_asked_again_later(rack: Rack) -> None:
    task = rack.platform.start(OFF)
    rack.settled(task)
    rack.sockets[H2].mute = PlatformUnavailableError("the controller is dead")

    with pytest.raises(PlatformUnavailableError):
        rack.platform.status(task)


def test_who_failed_and_cannot_be_asked_either_is_not_waited_for(rack: Rack) -> None:
    dead = PlatformUnavailableError("the controller is dead")
    rack.sockets[H2].complaint = rack.sockets[H2].mute = dead

    status = rack.settled(rack.platform.start(OFF))

    assert status.state is TaskState.FAILED
    assert status.detail == (
        "the controller is dead; how it is now cannot be told: the controller is dead"
    )


def test_all_else_is_done_by_the_other_platform(rack: Rack) -> None:
    move, task = Migration(GuestId("vm1"), H1, H2), TaskId("power")
    with pytest.raises(UnsupportedError, match="not here"):
        rack.platform.start(move)
    rack.platform.find(move)
    rack.platform.status(task)
    rack.platform.abort(task)

    assert rack.platform.name == "hosts"
    assert rack.hosts.asked == [
        "start Migration",
        "find Migration",
        "status power",
        "abort power",
    ]
