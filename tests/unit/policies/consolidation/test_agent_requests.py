"""Load states reported by agents, and the decisions on their requests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import event, given

from opendrs.model import (
    GuestId,
    LiveMigration,
    NodeId,
    NodeState,
    PowerOff,
    PowerOn,
    Snapshot,
)
from opendrs.policies import DecisionReason
from opendrs.policies.consolidation import Consolidate
from opendrs.policies.consolidation.agent_requests import AgentInput, AgentRequest
from opendrs.policies.consolidation.settings import DetectorKind
from support.builders import cluster
from support.imbalanced_clusters import imbalanced_clusters
from support.oracles.interleavings import unsafe_states
from support.strategies import snapshots

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
POLICY = Consolidate(
    detector=DetectorKind.LAST_N_AVERAGE, averaging_window=1, history_length=4
)
FORECAST = Consolidate(averaging_window=1, history_length=4)
NORMAL: AgentRequest = {"load_state": "normal", "evict": []}
UNDERLOADED: AgentRequest = {"load_state": "underloaded", "evict": []}
LIGHT_LOAD: Mapping[str, tuple[str, float | None]] = {
    "vm1": ("a", 0.3),
    "vm2": ("a", 0.2),
    "vm3": ("b", 0.1),
}
OVERLOADED: Mapping[str, tuple[str, float | None]] = {
    "big": ("a", 0.6),
    "small": ("a", 0.35),
    "other": ("b", 0.1),
}


def move(guest: str, source: str, target: str) -> LiveMigration:
    return LiveMigration(GuestId(guest), NodeId(source), NodeId(target))


def view_of_node(snapshot: Snapshot, node: NodeId) -> Snapshot:
    """Return the snapshot of an agent: its own node and the guests on it."""
    here = {
        name: replace(guest, migrating_to=None)
        for name, guest in snapshot.guests.items()
        if guest.node == node
    }
    return Snapshot(
        taken_at=snapshot.taken_at, nodes={node: snapshot.nodes[node]}, guests=here
    )


def agent_requests(policy: Consolidate, snapshot: Snapshot) -> dict[str, AgentRequest]:
    """Return the requests of the agents of *snapshot*, without earlier samples."""
    requests = {
        node: policy.agent_request(
            view_of_node(snapshot, node), policy.initial_memory(), node
        )[0]
        for node in snapshot.nodes
    }
    return {node: request for node, request in requests.items() if request is not None}


def agent_input(requests: Mapping[str, AgentRequest]) -> AgentInput:
    return {"guests": {}, "nodes": {}, "requests": dict(requests)}


def test_request_of_lightly_loaded_node_is_underloaded() -> None:
    snapshot = cluster(nodes={"a": 0.5}, guests={"vm1": ("a", 0.3), "vm2": ("a", 0.2)})

    assert agent_requests(POLICY, snapshot) == {"a": UNDERLOADED}


def test_request_of_overloaded_node_evicts_smallest_sufficient_guest() -> None:
    snapshot = cluster(nodes={"a": 0.95, "b": 0.1}, guests=OVERLOADED)

    requests = agent_requests(POLICY, snapshot)

    assert requests["a"] == {"load_state": "overloaded", "evict": ["small"]}


def test_request_evicts_guests_until_detector_is_satisfied() -> None:
    guests = {f"vm{number}": ("a", 0.19) for number in range(5)}
    snapshot = cluster(nodes={"a": 0.95}, guests={**guests})
    relieved = replace(POLICY, relief_target=0.5, detector_parameter=0.6)

    requests = agent_requests(relieved, snapshot)["a"]

    assert requests == {"load_state": "overloaded", "evict": ["vm0", "vm1"]}


def test_request_of_node_between_thresholds_is_normal() -> None:
    snapshot = cluster(nodes={"a": 0.8}, guests={"vm1": ("a", 0.8)})

    assert agent_requests(POLICY, snapshot) == {"a": NORMAL}


def test_node_without_metrics_sends_no_request() -> None:
    snapshot = cluster(nodes={"a": None}, guests={"vm1": ("a", 0.8)})

    assert agent_requests(POLICY, snapshot) == {}


def test_agent_memory_grows_with_each_sample() -> None:
    snapshot = cluster(nodes={"a": 0.5}, guests={"vm1": ("a", 0.3)})

    _, once = POLICY.agent_request(snapshot, POLICY.initial_memory(), A)
    _, twice = POLICY.agent_request(snapshot, once, A)

    assert twice["guests"] == {"vm1": [3.0, 3.0]}
    assert twice["nodes"] == {"a": [2.0, 2.0]}


def test_underloaded_request_drains_node() -> None:
    snapshot = cluster(nodes={"a": 0.5, "b": 0.1}, guests=LIGHT_LOAD)

    decision = POLICY.decide_requests(
        snapshot, agent_input({"a": NORMAL, "b": UNDERLOADED})
    )

    assert [s.action for s in decision.plan.steps] == [move("vm3", "b", "a")]


def test_normal_request_does_not_drain_node() -> None:
    snapshot = cluster(nodes={"a": 0.5, "b": 0.1}, guests=LIGHT_LOAD)

    decision = POLICY.decide_requests(snapshot, agent_input({"a": NORMAL, "b": NORMAL}))

    assert decision.reason is DecisionReason.ALREADY_CONSOLIDATED
    assert not decision.plan.steps


def test_evicted_guest_moves_to_feasible_node() -> None:
    snapshot = cluster(nodes={"a": 0.95, "b": 0.1}, guests=OVERLOADED)
    requests = agent_input(
        {"a": {"load_state": "overloaded", "evict": ["small"]}, "b": NORMAL}
    )

    decision = POLICY.decide_requests(snapshot, requests)

    assert decision.reason is DecisionReason.RELIEVES_OVERLOAD
    assert [s.action for s in decision.plan.steps] == [move("small", "a", "b")]


def test_eviction_of_guest_on_other_node_is_ignored() -> None:
    snapshot = cluster(nodes={"a": 0.95, "b": 0.1}, guests=OVERLOADED)
    evictions = ["gone", "other", "small"]
    requests = agent_input(
        {"a": {"load_state": "overloaded", "evict": evictions}, "b": NORMAL}
    )

    decision = POLICY.decide_requests(snapshot, requests)

    assert [s.action for s in decision.plan.steps] == [move("small", "a", "b")]


def test_node_without_request_is_not_changed() -> None:
    powered = replace(POLICY, manage_power=True)
    snapshot = cluster(nodes={"a": 0.5, "b": 0.1, "c": 0.0}, guests=LIGHT_LOAD)

    decision = powered.decide_requests(snapshot, agent_input({"b": UNDERLOADED}))

    assert not decision.plan.steps
    assert any(note.startswith("a: ") for note in decision.notes)


def test_empty_node_with_request_is_powered_off() -> None:
    powered = replace(POLICY, manage_power=True)
    snapshot = cluster(nodes={"a": 0.5, "b": 0.1, "c": 0.0}, guests=LIGHT_LOAD)

    decision = powered.decide_requests(
        snapshot, agent_input({"a": NORMAL, "b": NORMAL, "c": NORMAL})
    )

    assert [s.action for s in decision.plan.steps] == [PowerOff(C)]


def test_powered_off_node_without_request_is_powered_on() -> None:
    powered = replace(POLICY, manage_power=True)
    overloaded = cluster(
        nodes={"a": 0.95, "b": None}, guests=dict([*OVERLOADED.items()][:2])
    )
    b = replace(overloaded.nodes[B], state=NodeState.OFFLINE)
    snapshot = replace(overloaded, nodes={**overloaded.nodes, B: b})
    requests = agent_input({"a": {"load_state": "overloaded", "evict": ["small"]}})

    actions = [
        step.action for step in powered.decide_requests(snapshot, requests).plan.steps
    ]

    assert actions == [PowerOn(B), move("small", "a", "b")]


def test_samples_of_agents_take_precedence_over_snapshot() -> None:
    snapshot = cluster(nodes={"a": 0.5, "b": 0.1}, guests=LIGHT_LOAD)
    averaging = replace(POLICY, averaging_window=4)
    requests = agent_input({"a": NORMAL, "b": UNDERLOADED})
    requests["guests"] = {"vm1": [9.0, 9.0, 9.0, 3.0]}

    assert not averaging.decide_requests(snapshot, requests).plan.steps


def test_requests_during_migration_are_not_decided() -> None:
    snapshot = cluster(
        nodes={"a": 0.5, "b": 0.1}, guests=LIGHT_LOAD, moving={"vm3": "a"}
    )

    decision = POLICY.decide_requests(
        snapshot, agent_input({"a": NORMAL, "b": UNDERLOADED})
    )

    assert decision.reason is DecisionReason.MIGRATION_IN_PROGRESS


@given(imbalanced_clusters() | snapshots(settled=True))
def test_requests_drain_same_nodes_as_central_decision(
    snapshot: Snapshot,
) -> None:
    requests = agent_requests(POLICY, snapshot)
    if any(each["load_state"] == "overloaded" for each in requests.values()):
        return
    plan = POLICY.decide(snapshot, POLICY.initial_memory()).plan
    event(f"steps: {min(3, len(plan.steps))}")

    # Rules are known to the controller alone, and so is who may not be moved.
    assert POLICY.decide_requests(snapshot, agent_input(requests)).plan == plan


@given(imbalanced_clusters() | snapshots(settled=True))
def test_plan_for_requests_is_safe_in_every_state(snapshot: Snapshot) -> None:
    plan = POLICY.decide_requests(
        snapshot, agent_input(agent_requests(POLICY, snapshot))
    ).plan
    event(f"steps: {min(3, len(plan.steps))}")

    assert unsafe_states(snapshot, plan, POLICY.limits) == []


@given(snapshots())
def test_nodes_without_request_are_never_changed(snapshot: Snapshot) -> None:
    requests = agent_requests(POLICY, snapshot)
    received = dict([*requests.items()][1:])

    plan = (
        replace(POLICY, manage_power=True)
        .decide_requests(snapshot, agent_input(received))
        .plan
    )

    for step in plan.steps:
        action = step.action
        if isinstance(action, PowerOn):
            continue
        assert not isinstance(action, PowerOff) or action.node in received
        if isinstance(action, LiveMigration):
            assert action.source in received


def test_memory_is_json_serializable() -> None:
    snapshot = cluster(nodes={"a": 0.95, "b": 0.1}, guests=OVERLOADED)
    requests = agent_input(agent_requests(POLICY, snapshot))

    decision = POLICY.decide_requests(snapshot, requests)

    assert json.loads(json.dumps(decision.memory)) == requests


@pytest.mark.parametrize("load_state", ["normal", "underloaded", "overloaded"])
def test_request_evicts_only_from_overloaded_node(
    load_state: str,
) -> None:
    load = {"normal": 0.8, "underloaded": 0.3, "overloaded": 0.9}[load_state]
    snapshot = cluster(nodes={"a": load}, guests={"vm": ("a", load)})

    requests = agent_requests(POLICY, snapshot)["a"]

    assert requests["load_state"] == load_state
    assert bool(requests["evict"]) is (load_state == "overloaded")
