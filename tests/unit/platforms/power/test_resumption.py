"""A controller that was killed while it switched a node takes up where it was."""

from __future__ import annotations

from threading import Event

from builders import NOON
from opendrs.controller import Brake, Means, SilentWatcher, resume
from opendrs.controller.stores import MemoryStore
from opendrs.model import Action, Limits, NodeState, PowerOff, PowerOn, StepId
from opendrs.ports import Outcome, StepRecord
from opendrs.sim import SimulatedClock
from unit.platforms.power.hosts import H2, Rack


class Time(SimulatedClock):
    """Time that passes for a rack as well."""

    def __init__(self, rack: Rack) -> None:
        super().__init__(NOON)
        self._rack = rack

    def sleep(self, seconds: float) -> None:
        """Let it pass, and a moment for the thread that asks the driver."""
        Event().wait(0.001)
        super().sleep(seconds)
        self._rack.time = (self.now() - NOON).total_seconds()


def taken_up(rack: Rack, action: Action, patience: float = 1800.0) -> StepRecord:
    """Return what came of *action*, of which only the intention was noted."""
    store = MemoryStore()
    intended = StepRecord(run="run", step=StepId("1"), action=action, intended_at=NOON)
    store.write(intended)
    means = Means(
        platform=rack.again(),
        clock=Time(rack),
        store=store,
        limits=Limits(patience=patience),
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


def test_to_go_to_sleep_is_waited_for_as_long_as_its_driver_says() -> None:
    rack = Rack()

    record = taken_up(rack, PowerOff(H2))

    assert record.outcome is Outcome.FAILED
    assert record.detail == "h2 did not follow within 300 s; the power of h2 is on"
    assert rack.time == 300
    assert rack.state(H2) is NodeState.ONLINE
    assert rack.sockets[H2].asked == []


def test_where_the_limits_have_less_patience_theirs_counts() -> None:
    rack = Rack()

    record = taken_up(rack, PowerOff(H2), patience=60.0)

    assert record.outcome is Outcome.ABORTED
    assert record.detail == "did not end within 60 s"


def test_a_node_that_sleeps_is_asked_once_more_to_wake() -> None:
    rack = Rack()
    rack.hosts.dark.add(H2)

    assert taken_up(rack, PowerOn(H2)).outcome is Outcome.DONE
    assert rack.sockets[H2].asked == ["on"]


def test_a_node_that_woke_meanwhile_is_seen() -> None:
    rack = Rack()

    assert taken_up(rack, PowerOn(H2)).outcome is Outcome.DONE
    assert rack.sockets[H2].asked == []
