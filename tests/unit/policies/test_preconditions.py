"""Notes about infeasible nodes."""

from opendrs.metrics import LoadModel
from opendrs.model import NodeId
from opendrs.policies.preconditions import group_by_detail, unmet_precondition
from support.builders import cluster


def test_group_by_detail_names_most_frequent_reasons() -> None:
    closed = {
        NodeId(f"n{number}"): f"insufficient memory: {number} GiB short"
        for number in range(6)
    }
    closed |= {NodeId("x"): "node state offline", NodeId("y"): "node state offline"}

    assert group_by_detail(closed) == (
        "x, y: node state offline; n0: insufficient memory: 0 GiB short; "
        "n1: insufficient memory: 1 GiB short; "
        "4 more for other reasons"
    )


def test_detail_names_three_of_many_nodes_without_metrics() -> None:
    blind = cluster(nodes={f"n{number}": None for number in range(9)}, guests={})

    waiting = unmet_precondition(blind, LoadModel.DYNAMIC)

    assert waiting is not None
    assert waiting[1] == (
        "nodes n0, n1, n2 and 6 more have no usage (nodes.n0.usage: cpu, memory); "
        "required for a plan"
    )
