import pytest

from opendrs.model import NodeId
from opendrs.pve_ha.log_events import LogEvent
from opendrs.pve_ha.manager.nodes import NodeTable
from opendrs.pve_ha.observation import ProcessObservation
from opendrs.pve_ha.process_step import ProcessStep
from opendrs.pve_ha.states import LrmMode, PveNodeState
from opendrs.pve_ha.status_files import ClusterLock, lrm_lock_name

NODE, MASTER = NodeId("node1"), NodeId("node2")


def step(now: int = 1000, lock: ClusterLock | None = None) -> ProcessStep:
    locks = {} if lock is None else {lrm_lock_name(NODE): lock}
    return ProcessStep(
        ProcessObservation(
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
def test_node_state_follows_members_and_lrm_mode(
    before: str, mode: str, after: str, *, online: bool | None
) -> None:
    table = NodeTable({NODE: PveNodeState(before)}, {}, step())
    members = {} if online is None else {NODE: online}

    table.update(members, {NODE: LrmMode(mode)})

    assert table.state_of(NODE) == after


def test_gone_node_is_deleted_after_an_hour() -> None:
    at_once = NodeTable({NODE: PveNodeState.GONE}, {NODE: 1000}, step(now=4599))
    later = NodeTable({NODE: PveNodeState.GONE}, {NODE: 1000}, step(now=4600))
    for table in (at_once, later):
        table.update({}, {})

    assert NODE in at_once.states
    assert NODE not in later.states


def test_node_is_offline_delayed_a_minute_after_it_was_online() -> None:
    states = {NODE: PveNodeState.UNKNOWN}

    assert not NodeTable(states, {NODE: 941}, step(1000)).is_offline_delayed(NODE)
    assert NodeTable(states, {NODE: 940}, step(1000)).is_offline_delayed(NODE)


def test_new_master_counts_offline_delay_from_first_query() -> None:
    table = NodeTable({NODE: PveNodeState.UNKNOWN}, {}, step(1000))

    assert not table.is_offline_delayed(NODE)
    assert table.last_online == {NODE: 1000}


def test_node_is_fenced_once_its_lrm_lock_expired() -> None:
    alive = NodeTable(
        {NODE: PveNodeState.UNKNOWN}, {}, step(1000, ClusterLock(NODE, 880))
    )
    dead = NodeTable(
        {NODE: PveNodeState.UNKNOWN}, {}, step(1000, ClusterLock(NODE, 879))
    )

    assert not alive.fence(NODE)
    assert alive.state_of(NODE) is PveNodeState.FENCE
    assert dead.fence(NODE)
    assert dead.state_of(NODE) is PveNodeState.UNKNOWN


def test_fencing_is_logged_and_mailed() -> None:
    now = step()

    NodeTable({NODE: PveNodeState.UNKNOWN}, {}, now).fence(NODE)

    assert [event.message for event in now.outputs if isinstance(event, LogEvent)] == [
        "node 'node1': state changed from 'unknown' => 'fence'",
        "FENCE: Try to fence node 'node1'",
        "got lock 'ha_agent_node1_lock'",
        "fencing: acknowledged - got agent lock for node 'node1'",
        "node 'node1': state changed from 'fence' => 'unknown'",
        "SUCCEED: fencing: acknowledged - got agent lock for node 'node1'",
    ]
