"""Drained nodes in the store, what returns after a drain, and further cycles."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from opendrs.controller import enrich_snapshot
from opendrs.controller.consent import ConsentApproval
from opendrs.controller.cycle import CycleContext, PolicyDecisionSource, run_cycle
from opendrs.controller.drained_nodes import (
    DRAIN_PREFIX,
    DrainedNode,
    GuestReturn,
    drained_nodes,
    guest_returns,
    with_drained_nodes,
)
from opendrs.controller.event_log import CycleLogger
from opendrs.controller.maintenance import (
    MaintenanceDecisionSource,
    MaintenanceWatch,
    return_memory,
)
from opendrs.controller.replay import replay
from opendrs.controller.reservations import Reservation
from opendrs.controller.rolling import (
    RollingPhase,
    RollingUpdate,
    hook_digest,
    rolling_update,
)
from opendrs.errors import StoreError
from opendrs.model import GIB, NodeId, NodeState, Resources, StepId
from opendrs.policies import Balance
from opendrs.ports import Outcome, StepRecord
from opendrs.store import MemoryStore
from support.builders import NOON, cluster
from support.simulated_cluster import SHORT_LIMITS, SimulatedCluster, migration

N1 = NodeId("n1")
DRAIN = DrainedNode(node=N1, since=NOON, user="ada", because="disk")
RETURN = GuestReturn(node=N1, since=NOON, requested_at=NOON + timedelta(hours=1))

AFTER_RETURN = replace(
    cluster({"n1": 0.1, "n2": 0.1}, {"a": ("n2", 0.1)}), taken_at=RETURN.requested_at
)


def store_with(*requests: DrainedNode | GuestReturn) -> MemoryStore:
    store = MemoryStore()
    for each in requests:
        store.save(each.key, each.entry)
    return store


def record(minute: int, run: str, *move: str, outcome: Outcome | None) -> StepRecord:
    at = NOON + timedelta(minutes=minute)
    return StepRecord(
        run=run,
        step=StepId(f"s{minute}"),
        action=migration(*move),
        intended_at=at,
        outcome=outcome,
    )


def test_requests_are_read_as_they_were_saved() -> None:
    store = store_with(DRAIN, RETURN)

    assert drained_nodes(store) == (DRAIN,)
    assert guest_returns(store) == (RETURN,)


@pytest.mark.parametrize("entry", [{}, {"since": 1, "user": "a", "because": ""}])
def test_damaged_request_is_an_error(entry: dict[str, object]) -> None:
    store = MemoryStore()
    store.save(f"{DRAIN_PREFIX}n1", entry)

    with pytest.raises(StoreError, match="operator/drain/n1"):
        drained_nodes(store)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (NodeState.ONLINE, NodeState.MAINTENANCE),
        (NodeState.OFFLINE, NodeState.OFFLINE),
        (NodeState.EXCLUDED, NodeState.EXCLUDED),
        (NodeState.UNKNOWN, NodeState.UNKNOWN),
    ],
)
def test_drained_node_is_in_maintenance_if_online(
    state: NodeState, expected: NodeState
) -> None:
    snapshot = cluster({"n1": 0.1, "n2": 0.1}, {})
    node = replace(snapshot.nodes[N1], state=state)
    snapshot = replace(snapshot, nodes={**snapshot.nodes, N1: node})

    assert with_drained_nodes(snapshot, store_with(DRAIN)).nodes[N1].state is expected


def test_guests_return_from_the_end_of_their_detour_once() -> None:
    done = Outcome.DONE
    records = [
        record(1, "drain", "a", "n1", "n2", outcome=done),
        record(2, "drain", "b", "n1", "n2", outcome=done),
        record(3, "drain", "b", "n2", "n3", outcome=done),
        record(4, "drain", "c", "n1", "n2", outcome=Outcome.FAILED),
        record(5, "drain", "d", "n2", "n3", outcome=done),
        record(6, "drain", "e", "n1", "n3", outcome=done),
        record(61, "undrain", "e", "n3", "n1", outcome=Outcome.FAILED),
    ]

    assert return_memory(RETURN, records) == {
        "node": "n1",
        "guests": {"a": "n2", "b": "n3"},
    }


def test_further_cycle_is_requested_once_for_the_same_plan() -> None:
    snapshot = cluster({"n1": 0.1, "n2": 0.1}, {"a": ("n1", 0.1)})
    requested: list[int] = []
    store = store_with(DRAIN)
    source = MaintenanceDecisionSource(
        PolicyDecisionSource(Balance(), store),
        Balance(),
        store,
        lambda: requested.append(1),
    )
    drained = with_drained_nodes(snapshot, store)

    for _ in range(3):
        evaluation = next(source.evaluations(drained))
        source.record_decision(evaluation.decision, "run", ())

    assert evaluation.policy is not None
    assert evaluation.policy.name == "drain"
    assert requested == [1]
    assert (
        next(source.evaluations(snapshot)).policy is None
    )  # the policy itself decides


def test_return_without_a_guest_is_finished() -> None:
    store = store_with(RETURN)
    source = MaintenanceDecisionSource(None, Balance(), store)

    next(source.evaluations(AFTER_RETURN))

    (request,) = guest_returns(store)
    assert request.finished


def test_return_requested_after_the_snapshot_is_left_to_the_next_cycle() -> None:
    # In this snapshot the node is still drained.
    store = store_with(RETURN)
    before = replace(AFTER_RETURN, taken_at=NOON)

    policy = Balance()
    other = PolicyDecisionSource(policy, store)

    next(MaintenanceDecisionSource(other, policy, store).evaluations(before))

    (request,) = guest_returns(store)
    assert not request.finished


@pytest.mark.parametrize("newer", [None, RETURN.requested_at + timedelta(hours=1)])
def test_request_that_an_operator_changes_meanwhile_is_not_finished(
    newer: datetime | None,
) -> None:
    class BusyStore(MemoryStore):
        """An operator changes the return while a cycle decides about it."""

        def recent(self, since: datetime) -> tuple[StepRecord, ...]:
            if newer is None:
                self._values.pop(RETURN.key)  # the node is drained again
            else:
                self.save(RETURN.key, replace(RETURN, requested_at=newer).entry)
            return super().recent(since)

    store = BusyStore()
    store.save(RETURN.key, RETURN.entry)
    source = MaintenanceDecisionSource(None, Balance(), store)

    next(source.evaluations(AFTER_RETURN))

    left = [] if newer is None else [replace(RETURN, requested_at=newer)]
    assert list(guest_returns(store)) == left


def test_nothing_is_reserved_on_a_drained_node() -> None:
    store = store_with(DRAIN)
    until = NOON + timedelta(hours=1)
    reservation = Reservation(
        name="new", limit=Resources(1.0, GIB), nodes=(N1,), until=until
    )
    store.save(reservation.key, reservation.document())

    found = enrich_snapshot(cluster({"n1": 0.0, "n2": 0.1}, {}), Balance(), store)

    assert found.guests == {}


def test_return_breaks_no_rule_against_undoing() -> None:
    simulation = SimulatedCluster(cluster({"n1": 0.0, "n2": 0.4}, {"a": ("n2", 0.1)}))
    simulation.store = store = store_with()
    now = simulation.clock.now()
    since, requested = now - timedelta(hours=1), now - timedelta(minutes=1)
    request = GuestReturn(node=N1, since=since, requested_at=requested)
    store.save(request.key, request.entry)
    drained = record(0, "drain", "a", "n1", "n2", outcome=Outcome.DONE)
    at = now - timedelta(minutes=2)
    store.write(replace(drained, intended_at=at, ended_at=at))
    context = simulation.context()

    result = run_cycle(
        CycleContext(
            command="undrain",
            execution=context,
            observe=simulation.simulated_platform.observe,
            decision_source=MaintenanceDecisionSource(
                None, Balance(limits=SHORT_LIMITS), store
            ),
            approval=ConsentApproval(lambda _: False),
            observer=CycleLogger(context.observer),
        )
    )

    assert result.decided is not None
    assert len(result.decided.decision.plan.steps) == 1
    (cycle,) = store.cycles()
    decision: Any = cycle.document["decision"]
    assert decision["violations"] == {"before": [], "after": []}
    assert replay(cycle).is_same


def test_watch_notifies_of_new_requests_only() -> None:
    notified: list[int] = []
    store = store_with(DRAIN)
    watch = MaintenanceWatch(store, lambda: notified.append(1))

    watch.check()
    assert notified == []
    store.save(RETURN.key, RETURN.entry)
    watch.check()
    watch.check()
    assert notified == [1]
    store.save(RETURN.key, replace(RETURN, finished=True).entry)
    watch.check()
    assert notified == [1]


def test_rolling_update_advances_through_its_phases() -> None:
    digest = hook_digest(["true"])
    state = RollingUpdate(nodes=(N1, NodeId("n2")), program="true", hook_digest=digest)
    phases = []
    while state.nodes:
        phases.append((state.nodes[0], state.phase.value))
        state = state.advanced()

    names = [each.value for each in RollingPhase]
    assert phases == [(node, name) for node in ("n1", "n2") for name in names]
    assert state.done == ("n1", "n2")


def test_rolling_update_is_read_as_it_was_saved() -> None:
    store = MemoryStore()
    assert rolling_update(store) is None
    state = RollingUpdate(
        nodes=(N1,),
        program="sh",
        hook_digest=hook_digest(["sh", "x"]),
        failure="n1: hook: 1",
    )
    store.save("operator/rolling", state.entry)
    assert rolling_update(store) == state

    store.save("operator/rolling", {**state.entry, "phase": "gone"})
    with pytest.raises(StoreError):
        rolling_update(store)
