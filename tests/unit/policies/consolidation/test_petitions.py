"""Hosts that judge themselves, and what is decided about what they ask for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import event, given

from builders import cluster
from opendrs.model import (
    GuestId,
    Migration,
    NodeId,
    NodeState,
    PowerOff,
    PowerOn,
    Snapshot,
)
from opendrs.policies import Consolidate, Reason
from opendrs.policies.consolidation.petitions import Petition, Petitions
from opendrs.policies.consolidation.strategy import Detection
from oracles.passage import faults
from piles import piles
from strategies import snapshots

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
POLICY = Consolidate(detector=Detection.LAST_N_AVERAGE, last_n=1, history=4)
FORESEEING = Consolidate(last_n=1, history=4)
CALM: Petition = {"verdict": "calm", "leaving": []}
UNDERLOADED: Petition = {"verdict": "underloaded", "leaving": []}
LITTLE: Mapping[str, tuple[str, float | None]] = {
    "vm1": ("a", 0.3),
    "vm2": ("a", 0.2),
    "vm3": ("b", 0.1),
}
CROWDED: Mapping[str, tuple[str, float | None]] = {
    "big": ("a", 0.6),
    "small": ("a", 0.35),
    "other": ("b", 0.1),
}


def move(guest: str, source: str, target: str) -> Migration:
    return Migration(GuestId(guest), NodeId(source), NodeId(target))


def alone(snapshot: Snapshot, node: NodeId) -> Snapshot:
    """Return what an agent sees: its own node and the guests there."""
    here = {
        name: replace(guest, migrating_to=None)
        for name, guest in snapshot.guests.items()
        if guest.node == node
    }
    return Snapshot(
        taken_at=snapshot.taken_at, nodes={node: snapshot.nodes[node]}, guests=here
    )


def petitions(policy: Consolidate, snapshot: Snapshot) -> dict[str, Petition]:
    """Return what the agents of *snapshot* ask for, with no past."""
    asked = {
        node: policy.petition(alone(snapshot, node), policy.initial_memory(), node)[0]
        for node in snapshot.nodes
    }
    return {node: found for node, found in asked.items() if found is not None}


def memory(asked: Mapping[str, Petition]) -> Petitions:
    return {"guests": {}, "nodes": {}, "petitions": dict(asked)}


def test_a_host_with_little_to_do_asks_to_be_emptied() -> None:
    snapshot = cluster(nodes={"a": 0.5}, guests={"vm1": ("a", 0.3), "vm2": ("a", 0.2)})

    assert petitions(POLICY, snapshot) == {"a": UNDERLOADED}


def test_an_overloaded_host_asks_that_the_smallest_guest_that_suffices_leaves() -> None:
    snapshot = cluster(nodes={"a": 0.95, "b": 0.1}, guests=CROWDED)

    asked = petitions(POLICY, snapshot)

    assert asked["a"] == {"verdict": "overloaded", "leaving": ["small"]}


def test_guests_go_on_leaving_until_the_detector_is_content() -> None:
    guests = {f"vm{number}": ("a", 0.19) for number in range(5)}
    snapshot = cluster(nodes={"a": 0.95}, guests={**guests})
    relieved = replace(POLICY, relief=0.5, parameter=0.6)

    asked = petitions(relieved, snapshot)["a"]

    assert asked == {"verdict": "overloaded", "leaving": ["vm0", "vm1"]}


def test_a_host_between_the_two_is_calm() -> None:
    snapshot = cluster(nodes={"a": 0.8}, guests={"vm1": ("a", 0.8)})

    assert petitions(POLICY, snapshot) == {"a": CALM}


def test_a_host_that_is_not_measured_asks_for_nothing() -> None:
    snapshot = cluster(nodes={"a": None}, guests={"vm1": ("a", 0.8)})

    assert petitions(POLICY, snapshot) == {}


def test_what_an_agent_remembers_grows_with_each_sample() -> None:
    snapshot = cluster(nodes={"a": 0.5}, guests={"vm1": ("a", 0.3)})

    _, once = POLICY.petition(snapshot, POLICY.initial_memory(), A)
    _, twice = POLICY.petition(snapshot, once, A)

    assert twice["guests"] == {"vm1": [3.0, 3.0]}
    assert twice["nodes"] == {"a": [2.0, 2.0]}


def test_a_host_that_asks_to_be_emptied_is_emptied() -> None:
    snapshot = cluster(nodes={"a": 0.5, "b": 0.1}, guests=LITTLE)

    decision = POLICY.answer(snapshot, memory({"a": CALM, "b": UNDERLOADED}))

    assert [s.action for s in decision.plan.steps] == [move("vm3", "b", "a")]


def test_a_host_that_does_not_ask_is_not_emptied() -> None:
    snapshot = cluster(nodes={"a": 0.5, "b": 0.1}, guests=LITTLE)

    decision = POLICY.answer(snapshot, memory({"a": CALM, "b": CALM}))

    assert decision.reason is Reason.ALREADY_CONSOLIDATED
    assert not decision.plan.steps


def test_who_should_leave_goes_where_there_is_room() -> None:
    snapshot = cluster(nodes={"a": 0.95, "b": 0.1}, guests=CROWDED)
    asked = memory({"a": {"verdict": "overloaded", "leaving": ["small"]}, "b": CALM})

    decision = POLICY.answer(snapshot, asked)

    assert decision.reason is Reason.RELIEVES_OVERLOAD
    assert [s.action for s in decision.plan.steps] == [move("small", "a", "b")]


def test_who_should_leave_and_has_left_is_passed_over() -> None:
    snapshot = cluster(nodes={"a": 0.95, "b": 0.1}, guests=CROWDED)
    leaving = ["gone", "other", "small"]
    asked = memory({"a": {"verdict": "overloaded", "leaving": leaving}, "b": CALM})

    decision = POLICY.answer(snapshot, asked)

    assert [s.action for s in decision.plan.steps] == [move("small", "a", "b")]


def test_a_silent_host_neither_gives_nor_receives_nor_sleeps() -> None:
    powered = replace(POLICY, power=True)
    snapshot = cluster(nodes={"a": 0.5, "b": 0.1, "c": 0.0}, guests=LITTLE)

    decision = powered.answer(snapshot, memory({"b": UNDERLOADED}))

    assert not decision.plan.steps
    assert any("node a is not measured" in note for note in decision.notes)


def test_the_same_host_with_a_voice_sleeps() -> None:
    powered = replace(POLICY, power=True)
    snapshot = cluster(nodes={"a": 0.5, "b": 0.1, "c": 0.0}, guests=LITTLE)

    decision = powered.answer(snapshot, memory({"a": CALM, "b": CALM, "c": CALM}))

    assert [s.action for s in decision.plan.steps] == [PowerOff(C)]


def test_a_sleeping_host_needs_no_voice_to_be_woken() -> None:
    powered = replace(POLICY, power=True)
    crowded = cluster(nodes={"a": 0.95, "b": None}, guests=dict([*CROWDED.items()][:2]))
    b = replace(crowded.nodes[B], state=NodeState.OFFLINE)
    snapshot = replace(crowded, nodes={**crowded.nodes, B: b})
    asked = memory({"a": {"verdict": "overloaded", "leaving": ["small"]}})

    actions = [step.action for step in powered.answer(snapshot, asked).plan.steps]

    assert actions == [PowerOn(B), move("small", "a", "b")]


def test_samples_of_the_agents_count_more_than_this_moment() -> None:
    snapshot = cluster(nodes={"a": 0.5, "b": 0.1}, guests=LITTLE)
    averaging = replace(POLICY, last_n=4)
    asked = memory({"a": CALM, "b": UNDERLOADED})
    asked["guests"] = {"vm1": [9.0, 9.0, 9.0, 3.0]}

    assert not averaging.answer(snapshot, asked).plan.steps


def test_nothing_is_decided_while_guests_are_on_the_move() -> None:
    snapshot = cluster(nodes={"a": 0.5, "b": 0.1}, guests=LITTLE, moving={"vm3": "a"})

    decision = POLICY.answer(snapshot, memory({"a": CALM, "b": UNDERLOADED}))

    assert decision.reason is Reason.MIGRATION_UNDER_WAY


@given(piles() | snapshots(settled=True))
def test_hosts_that_judge_themselves_are_emptied_as_if_judged_from_above(
    snapshot: Snapshot,
) -> None:
    asked = petitions(POLICY, snapshot)
    if any(each["verdict"] == "overloaded" for each in asked.values()):
        return
    plan = POLICY.decide(snapshot, POLICY.initial_memory()).plan
    event(f"steps: {min(3, len(plan.steps))}")

    # Rules are known to the controller alone, and so is who may not be moved.
    assert POLICY.answer(snapshot, memory(asked)).plan == plan


@given(piles() | snapshots(settled=True))
def test_every_state_on_the_way_keeps_rules_and_limits(snapshot: Snapshot) -> None:
    plan = POLICY.answer(snapshot, memory(petitions(POLICY, snapshot))).plan
    event(f"steps: {min(3, len(plan.steps))}")

    assert faults(snapshot, plan, POLICY.limits) == []


@given(snapshots())
def test_silent_hosts_are_never_touched(snapshot: Snapshot) -> None:
    asked = petitions(POLICY, snapshot)
    silent = dict([*asked.items()][1:])

    plan = replace(POLICY, power=True).answer(snapshot, memory(silent)).plan

    for step in plan.steps:
        action = step.action
        if isinstance(action, PowerOn):
            continue
        assert not isinstance(action, PowerOff) or action.node in silent
        if isinstance(action, Migration):
            assert action.source in silent


def test_what_is_remembered_can_be_written_as_json() -> None:
    snapshot = cluster(nodes={"a": 0.95, "b": 0.1}, guests=CROWDED)
    asked = memory(petitions(POLICY, snapshot))

    decision = POLICY.answer(snapshot, asked)

    assert json.loads(json.dumps(decision.memory)) == asked


@pytest.mark.parametrize("verdict", ["calm", "underloaded", "overloaded"])
def test_a_petition_names_only_what_should_leave_an_overloaded_host(
    verdict: str,
) -> None:
    load = {"calm": 0.8, "underloaded": 0.3, "overloaded": 0.9}[verdict]
    snapshot = cluster(nodes={"a": load}, guests={"vm": ("a", load)})

    asked = petitions(POLICY, snapshot)["a"]

    assert asked["verdict"] == verdict
    assert bool(asked["leaving"]) is (verdict == "overloaded")
