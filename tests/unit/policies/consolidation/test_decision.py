"""Decisions are safe and consistent for any selected moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from opendrs.arrays import AllowedNodes
from opendrs.model import (
    GIB,
    GuestId,
    Limits,
    LiveMigration,
    NodeId,
    NodeState,
    PowerOff,
    Resources,
    Snapshot,
    Usage,
)
from opendrs.policies import Decision, DecisionReason
from opendrs.policies.consolidation import SPECPOWER, Consolidate, OverloadCounters
from opendrs.policies.consolidation.assignment import MoveList, NodeAssignment, NodeMove
from opendrs.policies.consolidation.decision import DecisionBuilder
from opendrs.policies.consolidation.input import ConsolidationInput
from opendrs.policies.consolidation.memory import append_sample, empty_memory
from opendrs.policies.consolidation.settings import DetectorKind
from support.builders import cluster

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
POLICY = Consolidate(
    detector=DetectorKind.LAST_N_AVERAGE, averaging_window=1, manage_power=True
)
NO_HEADROOM = Limits(memory_headroom=0.0)


def built_decision(snapshot: Snapshot, *moves: str) -> Decision[None]:
    """Return the decision that drains node a by moves like "x b"."""
    memory = append_sample(empty_memory(), snapshot, 1)
    inputs = ConsolidationInput(
        snapshot, memory, NO_HEADROOM, SPECPOWER[POLICY.power_model], manage_power=True
    )
    settings = POLICY.algorithm_settings(1)
    assignment = NodeAssignment(
        1, inputs.node_arrays, inputs.guest_arrays, AllowedNodes(inputs.cluster)
    )
    node_moves = [_node_move(inputs, *move.split()) for move in moves]
    for node_move in node_moves:
        assignment.place(node_move.guest, node_move.target)
    not_overloaded = np.zeros(len(inputs.cluster.node_ids), np.bool_)
    move_list = MoveList(
        [],
        [node_moves],
        not_overloaded,
        OverloadCounters.zeros(len(not_overloaded)),
        assignment,
    )
    return DecisionBuilder(inputs, move_list, settings, manage_power=True).decision(
        None
    )


def _node_move(inputs: ConsolidationInput, guest: str, target: str) -> NodeMove:
    names = [unit[0].id for unit in inputs.cluster.groups]
    row = names.index(GuestId(guest))
    return NodeMove(row, inputs.cluster.index[A], inputs.cluster.index[NodeId(target)])


def actions(decision: Decision[None]) -> Sequence[object]:
    return [step.action for step in decision.plan.steps]


def test_drained_node_is_powered_off() -> None:
    snapshot = cluster(
        {"a": 0.2, "b": 0.5, "c": 0.1},
        {"x": ("a", 0.1), "w": ("a", 0.1), "y": ("b", 0.5), "z": ("c", 0.1)},
    )

    decision = built_decision(snapshot, "x b", "w c")

    assert actions(decision) == [
        LiveMigration(GuestId("x"), A, B),
        LiveMigration(GuestId("w"), A, C),
        PowerOff(A),
    ]
    assert decision.reason is DecisionReason.SAVES_POWER
    assert decision.after["hosts_on"] == 2


def test_dropped_move_keeps_guest_and_node_running() -> None:
    snapshot = cluster(
        {"a": 0.2, "b": 0.95, "c": 0.1},
        {"x": ("a", 0.1), "w": ("a", 0.1), "y": ("b", 0.95), "z": ("c", 0.1)},
    )

    decision = built_decision(snapshot, "x b", "w c")

    assert actions(decision) == [LiveMigration(GuestId("w"), A, C)]
    assert decision.after["hosts_on"] == decision.after["active_hosts"] == 3
    (note,) = decision.notes
    assert note == (
        "dropped, because there is no safe sequence: x; "
        "x to b, after the plan: insufficient memory: 5.0 GiB short"
    )


def test_dropped_move_powers_on_no_node() -> None:
    snapshot = cluster({"a": 0.1, "b": 0.5, "c": None}, {"x": ("a", 0.1)})
    small = replace(
        snapshot.nodes[C],
        state=NodeState.OFFLINE,
        capacity=Resources(10, 5 * GIB),
        usage=Usage(),
    )
    snapshot = replace(snapshot, nodes={**snapshot.nodes, C: small})

    decision = built_decision(snapshot, "x c")

    assert actions(decision) == [PowerOff(B)]
    assert decision.after["hosts_on"] == decision.after["active_hosts"] == 1
    assert any("x" in note for note in decision.notes)
