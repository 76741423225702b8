"""Explanations of infeasible nodes."""

from __future__ import annotations

from opendrs.policies.load_metrics import describe_infeasible_nodes


def test_nodes_that_one_reason_closes_are_named_in_one_sentence() -> None:
    choices = [
        ("a", "node state offline"),
        ("b", "forbidden by rule: r"),
        ("c", "node state offline"),
    ]

    assert [*describe_infeasible_nodes(choices)] == [
        "better, but infeasible: a and c: node state offline",
        "better, but infeasible: b: forbidden by rule: r",
    ]


def test_without_closed_nodes_there_is_no_sentence() -> None:
    assert [*describe_infeasible_nodes([])] == []
