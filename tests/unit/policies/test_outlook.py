"""What an operator is told of nodes that are closed."""

from builders import cluster
from opendrs.model import NodeId
from opendrs.policies.outlook import by_reason, not_ready
from opendrs.scoring import UsageMode


def test_of_many_reasons_those_of_most_nodes_are_told() -> None:
    closed = {NodeId(f"n{number}"): f"it lacks {number} GiB" for number in range(6)}
    closed |= {NodeId("x"): "it is offline", NodeId("y"): "it is offline"}

    assert by_reason(closed) == (
        "x, y: it is offline; n0: it lacks 0 GiB; n1: it lacks 1 GiB; "
        "4 more for other reasons"
    )


def test_of_many_nodes_that_are_not_measured_three_are_named() -> None:
    blind = cluster(nodes={f"n{number}": None for number in range(9)}, guests={})

    waiting = not_ready(blind, UsageMode.DYNAMIC)

    assert waiting is not None
    assert waiting[1] == (
        "nodes n0, n1, n2 and 6 more have no usage (nodes.n0.usage: cpu, memory); "
        "a plan needs it of all"
    )
