"""Explanations of recorded decisions in which something is unknown."""

from __future__ import annotations

import math
from dataclasses import replace

from opendrs.controller import excluded_nodes, explain
from opendrs.controller.serialization import cycle_record
from opendrs.model import AntiAffinity, NodeAffinity, NodeId, NodeState
from opendrs.policies import Balance, Decision, DecisionReason
from support.builders import NOON, cluster, guest_ids
from support.recorded_cycles import decided


def test_unknown_figures_are_explained() -> None:
    snapshot = cluster({"a": 0.1, "b": 0.1}, {})
    node = snapshot.nodes[NodeId("b")]
    unknown = replace(node, state=NodeState.UNKNOWN, capacity=None)
    snapshot = replace(snapshot, nodes={**snapshot.nodes, node.id: unknown})
    decision = Decision(
        DecisionReason.METRICS_MISSING, None, before={"imbalance": math.nan}
    )
    record = cycle_record(
        "run", NOON, snapshot, policy=Balance(), memory=None, decision=decision
    )

    found, whole = explain(record, "b"), explain(record, None)

    assert found is not None
    assert "cpu: unknown" in found.details
    assert whole is not None
    assert "imbalance: unknown now, unknown after" in whole.details


def test_excluded_nodes_are_grouped_by_their_cause() -> None:
    only = NodeAffinity(guests=guest_ids("one"), nodes={NodeId("a"): 0, NodeId("d"): 0})
    apart = AntiAffinity(guests=guest_ids("one", "two"))
    nodes: dict[str, float | None] = {"a": 0.8, "b": 0.1, "c": 0.1, "d": 0.1}
    guests = {"one": ("a", 0.4), "two": ("d", 0.1), "three": ("a", 0.2)}
    snapshot = cluster(nodes, guests, [only, apart])
    record = decided(snapshot)
    (step,) = [
        each
        for each in record.document["decision"]["steps"]  # type: ignore[index]
        if each["guest"] == "three"
    ]

    found = excluded_nodes(record, "one")

    assert found is not None
    assert list(found.values()) == [["b", "c"], ["d"]]
    assert "anti-affinity of one to two" in found
    assert excluded_nodes(record, step["id"]) == {}
    assert excluded_nodes(record, "a") is None
