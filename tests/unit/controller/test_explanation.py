"""Explanations of recorded decisions in which something is unknown."""

from __future__ import annotations

import math
from dataclasses import replace

from opendrs.controller import explain
from opendrs.controller.serialization import cycle_record
from opendrs.model import NodeId, NodeState
from opendrs.policies import Balance, Decision, DecisionReason
from support.builders import NOON, cluster


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
