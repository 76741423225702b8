import pytest

from opendrs.ha.events import Event
from opendrs.ha.locks import Lock, agent_lock
from opendrs.ha.nodes import NodeTable
from opendrs.ha.observation import Observation
from opendrs.ha.states import LrmMode, NodeState
from opendrs.ha.turn import Turn
from opendrs.ha.wording import words_of
from opendrs.model import NodeId

NODE, MASTER = NodeId("node1"), NodeId("node2")


def turn(now: int = 1000, lock: Lock | None = None) -> Turn:
    locks = {} if lock is None else {agent_lock(NODE): lock}
    return Turn(
        Observation(
            node=MASTER, now=now, members={}, quorate=True, files=None, locks=locks
        )
    )


@pytest.mark.parametrize(
    ("before", "online", "mode", "after"),
    [
        ("unknown", True, "active", "online"),
        ("gone", True, "active", "online"),
        ("online", True, "active", "online"),
        ("online", True, "maintenance", "maintenance"),
        ("unknown", True, "maintenance", "online"),
        ("maintenance", True, "maintenance", "maintenance"),
        ("maintenance", True, "active", "online"),
        ("fence", True, "active", "fence"),
        ("online", False, "active", "unknown"),
        ("maintenance", False, "maintenance", "maintenance"),
        ("maintenance", False, "active", "unknown"),
        ("unknown", False, "active", "unknown"),
        ("fence", False, "active", "fence"),
        ("unknown", None, "active", "gone"),
        ("online", None, "active", "unknown"),
    ],
)
def test_a_node_is_what_members_and_its_agent_say(
    before: str, mode: str, after: str, *, online: bool | None
) -> None:
    table = NodeTable({NODE: NodeState(before)}, {}, turn())
    members = {} if online is None else {NODE: online}

    table.update(members, {NODE: LrmMode(mode)})

    assert table.state(NODE) == after


def test_a_node_that_left_is_forgotten_after_an_hour() -> None:
    at_once = NodeTable({NODE: NodeState.GONE}, {NODE: 1000}, turn(now=4599))
    later = NodeTable({NODE: NodeState.GONE}, {NODE: 1000}, turn(now=4600))
    for table in (at_once, later):
        table.update({}, {})

    assert NODE in at_once.states
    assert NODE not in later.states


def test_a_node_counts_as_lost_a_minute_after_it_was_last_seen() -> None:
    states = {NODE: NodeState.UNKNOWN}

    assert not NodeTable(states, {NODE: 941}, turn(1000)).offline_delayed(NODE)
    assert NodeTable(states, {NODE: 940}, turn(1000)).offline_delayed(NODE)


def test_a_new_master_counts_the_minute_from_its_first_question() -> None:
    table = NodeTable({NODE: NodeState.UNKNOWN}, {}, turn(1000))

    assert not table.offline_delayed(NODE)
    assert table.last_online == {NODE: 1000}


def test_a_node_is_dead_once_the_lock_of_its_agent_is_to_be_had() -> None:
    alive = NodeTable({NODE: NodeState.UNKNOWN}, {}, turn(1000, Lock(NODE, 880)))
    dead = NodeTable({NODE: NodeState.UNKNOWN}, {}, turn(1000, Lock(NODE, 879)))

    assert not alive.fence(NODE)
    assert alive.state(NODE) is NodeState.FENCE
    assert dead.fence(NODE)
    assert dead.state(NODE) is NodeState.UNKNOWN


def test_a_fencing_is_told_to_the_operator_by_mail() -> None:
    now = turn()

    NodeTable({NODE: NodeState.UNKNOWN}, {}, now).fence(NODE)

    assert [words_of(told) for told in now.effects if isinstance(told, Event)] == [
        "node 'node1': state changed from 'unknown' => 'fence'",
        "FENCE: Try to fence node 'node1'",
        "got lock 'ha_agent_node1_lock'",
        "fencing: acknowledged - got agent lock for node 'node1'",
        "node 'node1': state changed from 'fence' => 'unknown'",
        "SUCCEED: fencing: acknowledged - got agent lock for node 'node1'",
    ]
