"""A controller that was killed while it switched a node takes up where it was."""

from __future__ import annotations

from threading import Event

from opendrs.controller import (
    CancellationToken,
    ExecutionContext,
    NullObserver,
    recover,
)
from opendrs.model import Action, Limits, NodeState, PowerOff, PowerOn, StepId
from opendrs.ports import Outcome, StepRecord
from opendrs.simulation import SimulatedClock
from opendrs.store import MemoryStore
from support.builders import NOON
from support.power_hosts import H2, PowerTestCluster


class AdvancingClock(SimulatedClock):
    """Time that passes for a rack as well."""

    def __init__(self, power_cluster: PowerTestCluster) -> None:
        super().__init__(NOON)
        self._rack = power_cluster

    def sleep(self, seconds: float) -> None:
        """Let it pass, and a moment for the thread that asks the driver."""
        Event().wait(0.001)
        super().sleep(seconds)
        self._rack.time = (self.now() - NOON).total_seconds()


def recover_action(
    power_cluster: PowerTestCluster, action: Action, migration_timeout: float = 1800.0
) -> StepRecord:
    """Return what came of *action*, of which only the intention was noted."""
    store = MemoryStore()
    intended = StepRecord(run="run", step=StepId("1"), action=action, intended_at=NOON)
    store.write(intended)
    means = ExecutionContext(
        platform=power_cluster.restart(),
        clock=AdvancingClock(power_cluster),
        store=store,
        limits=Limits(migration_timeout=migration_timeout),
        observer=NullObserver(),
        cancellation=CancellationToken(),
    )
    (record,) = recover(means)
    return record


def test_finished_transition_is_recovered_as_done() -> None:
    power_cluster = PowerTestCluster()
    power_cluster.hosts.powered_off.add(H2)

    assert recover_action(power_cluster, PowerOff(H2)).outcome is Outcome.DONE
    assert power_cluster.drivers[H2].requests == []


def test_recovered_power_off_uses_the_transition_timeout() -> None:
    power_cluster = PowerTestCluster()

    record = recover_action(power_cluster, PowerOff(H2))

    assert record.outcome is Outcome.FAILED
    assert record.detail == "h2: timeout after 300 s; h2: power is on"
    assert power_cluster.time == 300
    assert power_cluster.state(H2) is NodeState.ONLINE
    assert power_cluster.drivers[H2].requests == []


def test_recovered_power_off_uses_the_shorter_timeout() -> None:
    power_cluster = PowerTestCluster()

    record = recover_action(power_cluster, PowerOff(H2), migration_timeout=60.0)

    assert record.outcome is Outcome.ABORTED
    assert record.detail == "timeout: did not finish within 60 s"


def test_recovered_power_on_is_requested_again() -> None:
    power_cluster = PowerTestCluster()
    power_cluster.hosts.powered_off.add(H2)

    assert recover_action(power_cluster, PowerOn(H2)).outcome is Outcome.DONE
    assert power_cluster.drivers[H2].requests == ["on"]


def test_node_powered_on_meanwhile_is_done() -> None:
    power_cluster = PowerTestCluster()

    assert recover_action(power_cluster, PowerOn(H2)).outcome is Outcome.DONE
    assert power_cluster.drivers[H2].requests == []
