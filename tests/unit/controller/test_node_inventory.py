"""The record keeps capacity and labels of powered-off nodes."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from opendrs.controller import enrich_snapshot, evaluations
from opendrs.controller.node_inventory import fill_known_nodes, record_nodes
from opendrs.errors import StoreError
from opendrs.model import (
    Action,
    Node,
    NodeId,
    NodeState,
    PowerOff,
    PowerOn,
    Snapshot,
    StepId,
)
from opendrs.policies import Balance
from opendrs.ports import Outcome, StepRecord, Store
from opendrs.store import MemoryStore
from support.builders import CAPACITY, NOON, cluster

A, B = NodeId("a"), NodeId("b")
BOTH = cluster({"a": 0.5, "b": 0.0}, {"vm": ("a", 0.5)})


def with_b(state: NodeState, at: float = 60.0, **known: object) -> Snapshot:
    """Return the cluster so many seconds after noon, with b in *state*."""
    silent = Node(id=B, state=state)
    return replace(
        BOTH,
        taken_at=NOON + timedelta(seconds=at),
        nodes={**BOTH.nodes, B: replace(silent, **known)},  # type: ignore[arg-type]
    )


def switched(
    store: Store, action: Action, at: float, outcome: Outcome | None = Outcome.DONE
) -> None:
    """Write down that *action* was started so many seconds after noon."""
    record = StepRecord(
        run="run",
        step=StepId(f"{at}"),
        action=action,
        intended_at=NOON + timedelta(seconds=at),
        outcome=outcome,
    )
    store.write(record)


@pytest.fixture
def store() -> Store:
    """Return a record of a look at noon, when both nodes took part."""
    found = MemoryStore()
    model = replace(BOTH.nodes[B], architecture="x86_64", cpu_model="Haswell")
    record_nodes(replace(BOTH, nodes={**BOTH.nodes, B: model}), found)
    return found


def test_offline_node_keeps_known_capacity(store: Store) -> None:
    found = fill_known_nodes(with_b(NodeState.OFFLINE), store).nodes[B]

    assert found.state is NodeState.OFFLINE
    assert found.capacity == CAPACITY
    assert (found.architecture, found.cpu_model) == ("x86_64", "Haswell")
    assert found.usage.resources is None


def test_platform_capacity_takes_precedence(store: Store) -> None:
    half = replace(CAPACITY, cpu=5)

    found = fill_known_nodes(with_b(NodeState.OFFLINE, capacity=half), store)

    assert found.nodes[B].capacity == half


def test_unreachable_node_is_not_offline(store: Store) -> None:
    unknown = with_b(NodeState.UNKNOWN)

    assert fill_known_nodes(unknown, store) == unknown


def test_powered_off_unobserved_node_is_offline(store: Store) -> None:
    switched(store, PowerOff(B), at=5)

    found = fill_known_nodes(with_b(NodeState.UNKNOWN), store).nodes[B]

    assert found.state is NodeState.OFFLINE
    assert found.capacity == CAPACITY


@pytest.mark.parametrize("outcome", [None, Outcome.FAILED, Outcome.LOST])
def test_unconfirmed_power_off_is_ignored(
    store: Store, outcome: Outcome | None
) -> None:
    switched(store, PowerOff(B), at=5, outcome=outcome)

    unknown = with_b(NodeState.UNKNOWN)

    assert fill_known_nodes(unknown, store) == unknown


def test_powered_on_node_is_not_offline(store: Store) -> None:
    switched(store, PowerOff(B), at=5)
    switched(store, PowerOn(B), at=50)

    unknown = with_b(NodeState.UNKNOWN)

    assert fill_known_nodes(unknown, store) == unknown


def test_failed_power_on_node_stays_offline(store: Store) -> None:
    switched(store, PowerOff(B), at=5)
    switched(store, PowerOn(B), at=50, outcome=Outcome.FAILED)

    found = fill_known_nodes(with_b(NodeState.UNKNOWN), store)

    assert found.nodes[B].state is NodeState.OFFLINE


def test_node_observed_after_power_off_is_not_offline(store: Store) -> None:
    switched(store, PowerOff(B), at=5)
    record_nodes(replace(BOTH, taken_at=NOON + timedelta(seconds=30)), store)

    unknown = with_b(NodeState.UNKNOWN)

    assert fill_known_nodes(unknown, store) == unknown


def test_node_in_maintenance_counts_as_observed(store: Store) -> None:
    switched(store, PowerOff(B), at=5)
    kept = replace(BOTH.nodes[B], state=NodeState.MAINTENANCE)
    at = NOON + timedelta(seconds=30)
    record_nodes(replace(BOTH, taken_at=at, nodes={**BOTH.nodes, B: kept}), store)

    unknown = with_b(NodeState.UNKNOWN)

    assert fill_known_nodes(unknown, store) == unknown


def test_power_off_of_other_node_is_ignored(store: Store) -> None:
    switched(store, PowerOff(A), at=5)

    unknown = with_b(NodeState.UNKNOWN)

    assert fill_known_nodes(unknown, store) == unknown


def test_powered_off_node_stays_in_inventory(store: Store) -> None:
    for cycle in range(3):
        record_nodes(with_b(NodeState.OFFLINE, at=300.0 * cycle), store)

    found = fill_known_nodes(with_b(NodeState.OFFLINE), store)

    assert found.nodes[B].capacity == CAPACITY


def test_removed_node_leaves_inventory(store: Store) -> None:
    record_nodes(replace(BOTH, nodes={A: BOTH.nodes[A]}), store)

    offline = with_b(NodeState.OFFLINE)

    assert fill_known_nodes(offline, store) == offline


def test_empty_inventory_changes_nothing() -> None:
    offline = with_b(NodeState.OFFLINE)

    assert fill_known_nodes(offline, MemoryStore()) == offline


@pytest.mark.parametrize(
    "change",
    [
        {"cpu": "many"},
        {"seen_at": "2026-11-21T12:00:00"},
        {"cpu_model": 5},
        {"cpu": -1},
    ],
)
def test_damaged_inventory_raises_store_error(
    store: Store, change: dict[str, object]
) -> None:
    known = {"seen_at": NOON.isoformat(), "cpu": 1, "memory": 1}
    known |= {"architecture": None, "cpu_model": None}
    store.save("nodes", {"b": {**known, **change}})

    with pytest.raises(StoreError, match='entry "nodes" cannot be decoded'):
        fill_known_nodes(with_b(NodeState.OFFLINE), store)


def test_each_evaluation_updates_inventory() -> None:
    store = MemoryStore()
    next(evaluations(BOTH, Balance(), store))

    found = enrich_snapshot(with_b(NodeState.OFFLINE), Balance(), store)

    assert found.nodes[B].capacity == CAPACITY
