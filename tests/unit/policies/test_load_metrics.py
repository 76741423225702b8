"""Better nodes that are closed are named together where one reason closes them."""

from __future__ import annotations

from opendrs.policies.load_metrics import describe_infeasible_nodes


def test_nodes_that_one_reason_closes_are_named_in_one_sentence() -> None:
    choices = [
        ("a", "it is offline"),
        ("b", "a rule forbids it: r"),
        ("c", "it is offline"),
    ]

    assert [*describe_infeasible_nodes(choices)] == [
        "each of a and c would be better, but it is offline",
        "b would be better, but a rule forbids it: r",
    ]


def test_without_closed_nodes_there_is_no_sentence() -> None:
    assert [*describe_infeasible_nodes([])] == []
