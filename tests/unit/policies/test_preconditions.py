"""What an operator is told of nodes that are closed."""

from opendrs.metrics import LoadModel
from opendrs.model import NodeId
from opendrs.policies.preconditions import group_by_detail, unmet_precondition
from support.builders import cluster


def test_group_by_detail_names_most_frequent_reasons() -> None:
    closed = {NodeId(f"n{number}"): f"it lacks {number} GiB" for number in range(6)}
    closed |= {NodeId("x"): "it is offline", NodeId("y"): "it is offline"}

    assert group_by_detail(closed) == (
        "x, y: it is offline; n0: it lacks 0 GiB; n1: it lacks 1 GiB; "
        "4 more for other reasons"
    )


def test_of_many_nodes_that_are_not_measured_three_are_named() -> None:
    blind = cluster(nodes={f"n{number}": None for number in range(9)}, guests={})

    waiting = unmet_precondition(blind, LoadModel.DYNAMIC)

    assert waiting is not None
    assert waiting[1] == (
        "nodes n0, n1, n2 and 6 more have no usage (nodes.n0.usage: cpu, memory); "
        "a plan needs it of all"
    )
