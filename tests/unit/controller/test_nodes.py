"""Of a node that sleeps the record remembers what it is."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from builders import CAPACITY, NOON, cluster
from opendrs.controller import decide, remembered
from opendrs.controller.nodes import keep_nodes, with_known_nodes
from opendrs.controller.stores import MemoryStore
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
    keep_nodes(replace(BOTH, nodes={**BOTH.nodes, B: model}), found)
    return found


def test_a_node_that_is_off_has_what_it_had(store: Store) -> None:
    found = with_known_nodes(with_b(NodeState.OFFLINE), store).nodes[B]

    assert found.state is NodeState.OFFLINE
    assert found.capacity == CAPACITY
    assert (found.architecture, found.cpu_model) == ("x86_64", "Haswell")
    assert found.usage.known is None


def test_what_the_platform_says_of_it_counts_more(store: Store) -> None:
    half = replace(CAPACITY, cpu=5)

    found = with_known_nodes(with_b(NodeState.OFFLINE, capacity=half), store)

    assert found.nodes[B].capacity == half


def test_a_node_that_only_does_not_answer_is_not_known_to_sleep(store: Store) -> None:
    unknown = with_b(NodeState.UNKNOWN)

    assert with_known_nodes(unknown, store) == unknown


def test_a_node_that_was_put_to_sleep_and_not_seen_since_sleeps(store: Store) -> None:
    switched(store, PowerOff(B), at=5)

    found = with_known_nodes(with_b(NodeState.UNKNOWN), store).nodes[B]

    assert found.state is NodeState.OFFLINE
    assert found.capacity == CAPACITY


@pytest.mark.parametrize("outcome", [None, Outcome.FAILED, Outcome.LOST])
def test_what_was_not_confirmed_is_not_believed(
    store: Store, outcome: Outcome | None
) -> None:
    switched(store, PowerOff(B), at=5, outcome=outcome)

    unknown = with_b(NodeState.UNKNOWN)

    assert with_known_nodes(unknown, store) == unknown


def test_a_node_that_was_woken_since_does_not_sleep(store: Store) -> None:
    switched(store, PowerOff(B), at=5)
    switched(store, PowerOn(B), at=50)

    unknown = with_b(NodeState.UNKNOWN)

    assert with_known_nodes(unknown, store) == unknown


def test_a_node_that_could_not_be_woken_still_sleeps(store: Store) -> None:
    switched(store, PowerOff(B), at=5)
    switched(store, PowerOn(B), at=50, outcome=Outcome.FAILED)

    found = with_known_nodes(with_b(NodeState.UNKNOWN), store)

    assert found.nodes[B].state is NodeState.OFFLINE


def test_a_node_that_was_seen_since_it_was_put_to_sleep_does_not(store: Store) -> None:
    switched(store, PowerOff(B), at=5)
    keep_nodes(replace(BOTH, taken_at=NOON + timedelta(seconds=30)), store)

    unknown = with_b(NodeState.UNKNOWN)

    assert with_known_nodes(unknown, store) == unknown


def test_a_node_that_was_seen_in_maintenance_was_seen(store: Store) -> None:
    switched(store, PowerOff(B), at=5)
    kept = replace(BOTH.nodes[B], state=NodeState.MAINTENANCE)
    at = NOON + timedelta(seconds=30)
    keep_nodes(replace(BOTH, taken_at=at, nodes={**BOTH.nodes, B: kept}), store)

    unknown = with_b(NodeState.UNKNOWN)

    assert with_known_nodes(unknown, store) == unknown


def test_another_node_that_was_put_to_sleep_says_nothing(store: Store) -> None:
    switched(store, PowerOff(A), at=5)

    unknown = with_b(NodeState.UNKNOWN)

    assert with_known_nodes(unknown, store) == unknown


def test_a_node_is_remembered_for_as_long_as_it_sleeps(store: Store) -> None:
    for cycle in range(3):
        keep_nodes(with_b(NodeState.OFFLINE, at=300.0 * cycle), store)

    found = with_known_nodes(with_b(NodeState.OFFLINE), store)

    assert found.nodes[B].capacity == CAPACITY


def test_a_node_that_left_the_cluster_is_forgotten(store: Store) -> None:
    keep_nodes(replace(BOTH, nodes={A: BOTH.nodes[A]}), store)

    offline = with_b(NodeState.OFFLINE)

    assert with_known_nodes(offline, store) == offline


def test_an_empty_record_changes_nothing() -> None:
    offline = with_b(NodeState.OFFLINE)

    assert with_known_nodes(offline, MemoryStore()) == offline


@pytest.mark.parametrize(
    "change",
    [
        {"cpu": "many"},
        {"seen_at": "2026-11-21T12:00:00"},
        {"cpu_model": 5},
        {"cpu": -1},
    ],
)
def test_a_record_that_cannot_be_understood_is_an_error(
    store: Store, change: dict[str, object]
) -> None:
    known = {"seen_at": NOON.isoformat(), "cpu": 1, "memory": 1}
    known |= {"architecture": None, "cpu_model": None}
    store.save("nodes", {"b": {**known, **change}})

    with pytest.raises(StoreError, match="the record of nodes is not readable"):
        with_known_nodes(with_b(NodeState.OFFLINE), store)


def test_each_decision_keeps_what_the_next_one_may_need() -> None:
    store = MemoryStore()
    decide(BOTH, Balance(), store)

    found = remembered(with_b(NodeState.OFFLINE), Balance(), store)

    assert found.nodes[B].capacity == CAPACITY
