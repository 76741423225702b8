from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendrs.metrics import ImbalanceMetric, NodeLoad
from opendrs.model import GIB, NodeId, Resources
from opendrs.pve_ha.manager.node_usage import (
    INCREMENTAL_MIN_NODES,
    LoadUsage,
    ServiceDemand,
    ServiceLocations,
)
from opendrs.pve_ha.states import ServiceId

FEW = [NodeId(f"node{number}") for number in range(1, 4)]
MANY = [NodeId(f"node{number:02}") for number in range(INCREMENTAL_MIN_NODES)]
NAMES = [ServiceId(f"vm:{number}") for number in range(101, 107)]
CAPACITY = Resources(16.0, 64 * GIB)

Change = tuple[ServiceId, NodeId | None, bool]


class UnequalDemands:
    """Different demands whose sums depend on the order of additions."""

    def demand_of(self, service: ServiceId) -> ServiceDemand:
        number = int(service.removeprefix("vm:"))
        amount = Resources(number / 700, number * GIB // 70)
        return ServiceDemand(amount, amount)


def load_usage(nodes: Sequence[NodeId], *, measured: bool) -> LoadUsage:
    """Return a usage model of *nodes* with different initial loads."""
    loads = {
        node: NodeLoad(CAPACITY, Resources(number / 10, number))
        for number, node in enumerate(nodes)
    }
    return LoadUsage(
        loads, UnequalDemands(), measured=measured, imbalance_metric=ImbalanceMetric.CV
    )


def changes(nodes: Sequence[NodeId]) -> st.SearchStrategy[list[Change]]:
    """Draw changes: service, its new node or None, and if it runs."""
    locations = st.none() | st.sampled_from(nodes[:4])
    return st.lists(st.tuples(st.sampled_from(NAMES), locations, st.booleans()))


@pytest.mark.parametrize("nodes", [FEW, MANY])
@given(data=st.data(), measured=st.booleans())
def test_incremental_usage_equals_usage_counted_at_once(
    nodes: Sequence[NodeId], data: st.DataObject, *, measured: bool
) -> None:
    incremental = load_usage(nodes, measured=measured)
    locations_of: dict[ServiceId, ServiceLocations] = {}
    for service, node, running in data.draw(changes(nodes)):
        incremental.remove(service)
        incremental.start_costs(NAMES[0])
        locations_of[service] = ServiceLocations(node, running=running)
        incremental.add(service, locations_of[service])

    at_once = load_usage(nodes, measured=measured)
    for service, locations in locations_of.items():
        at_once.add(service, locations)

    assert incremental.start_costs(NAMES[0]) == at_once.start_costs(NAMES[0])
    assert incremental.loads() == at_once.loads()
