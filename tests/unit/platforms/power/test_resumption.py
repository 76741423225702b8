"""A controller that was killed while it switched a node takes up where it was."""

from __future__ import annotations

from builders import NOON
from opendrs.controller import Brake, Means, SilentWatcher, resume
from opendrs.controller.stores import MemoryStore
from opendrs.model import Action, Limits, NodeState, PowerOff, PowerOn, StepId
from opendrs.ports import Outcome, StepRecord
from opendrs.sim import SimulatedClock
from unit.platforms.power.hosts import H2, Rack


def taken_up(rack: Rack, action: Action) -> StepRecord:
    """Return what came of *action*, of which only the intention was noted."""
    store = MemoryStore()
    intended = StepRecord(run="run", step=StepId("1"), action=action, intended_at=NOON)
    store.write(intended)
    means = Means(
        platform=rack.again(),
        clock=SimulatedClock(NOON),
        store=store,
        limits=Limits(patience=60.0),
        watcher=SilentWatcher(),
        brake=Brake(),
    )
    (record,) = resume(means)
    return record


def test_what_has_happened_is_seen() -> None:
    rack = Rack()
    rack.hosts.dark.add(H2)

    assert taken_up(rack, PowerOff(H2)).outcome is Outcome.DONE
    assert rack.sockets[H2].asked == []


def test_what_has_not_happened_is_waited_for_and_given_up() -> None:
    rack = Rack()

    record = taken_up(rack, PowerOff(H2))

    assert record.outcome is Outcome.ABORTED
    assert record.detail == "did not end within 60 s"
    assert rack.state(H2) is NodeState.ONLINE
    assert rack.sockets[H2].asked == []


def test_a_node_that_woke_meanwhile_is_seen() -> None:
    rack = Rack()

    assert taken_up(rack, PowerOn(H2)).outcome is Outcome.DONE
