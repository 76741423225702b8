"""Explanations of infeasible nodes."""

from __future__ import annotations

from opendrs.policies.load_metrics import describe_infeasible_nodes


def test_infeasible_nodes_with_same_reason_are_named_together() -> None:
    choices = [
        ("a", "node state offline"),
        ("b", "no memory"),
        ("c", "node state offline"),
    ]

    assert [*describe_infeasible_nodes(choices)] == [
        "better targets a and c are infeasible: node state offline",
        "better target b is infeasible: no memory",
    ]


def test_without_closed_nodes_there_is_no_sentence() -> None:
    assert [*describe_infeasible_nodes([])] == []
