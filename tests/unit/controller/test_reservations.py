"""Reservations count as guests of their nodes until they expire."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from opendrs.controller import enrich_snapshot
from opendrs.controller.reservations import (
    KEY_PREFIX,
    Reservation,
    add_reservations,
    load_reservations,
    without_reserved_guests,
)
from opendrs.errors import StoreError
from opendrs.model import GIB, GuestId, NodeId, NodeState, Resources, Usage
from opendrs.policies import Balance
from opendrs.rules import available_memory
from opendrs.store.memory import MemoryStore
from support.builders import NOON, cluster, guest, node

A, B = NodeId("a"), NodeId("b")
CLUSTER = cluster({"a": 0.5, "b": 0.1}, {"vm1": ("a", 0.4)})
HOUR = timedelta(hours=1)
WEB = Reservation(
    name="web", limit=Resources(2, 20 * GIB), nodes=(B, B), until=NOON + HOUR
)


def store_with(*reservations: Reservation) -> MemoryStore:
    store = MemoryStore()
    for each in reservations:
        store.save(each.key, each.document())
    return store


def test_reservation_is_the_same_after_it_was_stored() -> None:
    assert load_reservations(store_with(WEB)) == (WEB,)


def test_reserved_guests_occupy_memory_and_count_as_use_of_the_node() -> None:
    snapshot = enrich_snapshot(CLUSTER, Balance(), store_with(WEB))

    assert {"web-1", "web-2"} < set(snapshot.guests)
    usage = snapshot.nodes[B].usage
    assert usage.cpu == pytest.approx(5.0)
    assert usage.memory == 50 * GIB
    before = available_memory(CLUSTER, Balance().limits)[B]
    after = available_memory(snapshot, Balance().limits)[B]
    assert before.measured is not None
    assert before.committed is not None
    assert after.measured == pytest.approx(before.measured - 40 * GIB)
    assert after.committed == pytest.approx(before.committed - 40 * GIB)


def test_snapshot_without_reserved_guests_is_the_observed_one() -> None:
    unknown = replace(CLUSTER.nodes[A], usage=Usage(None, None))
    observed = replace(CLUSTER, nodes={**CLUSTER.nodes, A: unknown})
    both = replace(WEB, nodes=(A, B))

    found = without_reserved_guests(add_reservations(observed, store_with(both)))

    assert found == observed


def test_policies_do_not_migrate_reserved_guests() -> None:
    policy = Balance(threshold=0.0)
    full = replace(WEB, nodes=(A, A))  # 90 % of one node, 10 % of the other
    snapshot = enrich_snapshot(CLUSTER, policy, store_with(full))

    decision = policy.decide(snapshot, None)

    moved = {step.action.guest for step in decision.plan.steps}  # type: ignore[union-attr]
    assert moved == {"vm1"}
    assert {"web-1", "web-2"} <= decision.skipped.keys()


def test_expired_reservation_does_not_count() -> None:
    later = replace(CLUSTER, taken_at=NOON + HOUR)

    assert add_reservations(later, store_with(WEB)) == later


def test_guest_that_exists_is_not_reserved_any_longer() -> None:
    started = guest("web-1", "a", 0.1)
    snapshot = replace(CLUSTER, guests={**CLUSTER.guests, started.id: started})

    found = add_reservations(snapshot, store_with(WEB))

    assert found.guests[GuestId("web-1")] == started
    assert found.nodes[B].usage.memory == 30 * GIB  # that of web-2 alone is reserved


@pytest.mark.parametrize("state", [s for s in NodeState if s is not NodeState.ONLINE])
def test_reservation_on_a_node_that_is_not_online_does_not_count(
    state: NodeState,
) -> None:
    closed = replace(CLUSTER.nodes[B], state=state)
    snapshot = replace(CLUSTER, nodes={**CLUSTER.nodes, B: closed})

    assert add_reservations(snapshot, store_with(WEB)) == snapshot


def test_unknown_use_of_a_node_stays_unknown() -> None:
    snapshot = replace(CLUSTER, nodes={**CLUSTER.nodes, B: node("b", None)})

    assert add_reservations(snapshot, store_with(WEB)).nodes[B].usage == Usage()


@pytest.mark.parametrize(
    "document",
    [
        {},
        {**WEB.document(), "nodes": "b"},
        {**WEB.document(), "nodes": []},
        {**WEB.document(), "until": "later"},
        {**WEB.document(), "cpu": "many"},
        {**WEB.document(), "memory": -1},
    ],
)
def test_damaged_reservation_is_an_error(document: dict[str, object]) -> None:
    store = MemoryStore()
    store.save(f"{KEY_PREFIX}web", document)

    with pytest.raises(StoreError):
        add_reservations(CLUSTER, store)
