from hypothesis import given
from hypothesis import strategies as st

from opendrs.metrics import ImbalanceMetric, NodeLoad
from opendrs.model import GIB, NO_RESOURCES, NodeId, Resources
from opendrs.pve_ha.manager.best_move import (
    BRUTEFORCE,
    TOPSIS,
    MovableBundle,
    best_move_plain,
    best_move_vectorized,
)
from opendrs.pve_ha.manager.node_usage import LoadUsage, ServiceDemand, ServiceLocations
from opendrs.pve_ha.states import ServiceId

NODES = tuple(NodeId(f"node{number}") for number in range(1, 5))
CAPACITY = Resources(16, 64 * GIB)


class FixedDemands:
    def __init__(self, demands: dict[ServiceId, ServiceDemand]) -> None:
        self._demands = demands

    def demand_of(self, service: ServiceId) -> ServiceDemand:
        return self._demands[service]


amounts = st.builds(
    Resources,
    st.integers(1, 40).map(lambda n: n / 10),
    st.integers(1, 80).map(lambda n: n * GIB // 10),
)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[LoadUsage, list[MovableBundle]]:
    drawn = draw(
        st.lists(st.tuples(amounts, st.sampled_from(NODES)), min_size=1, max_size=8)
    )
    names = [ServiceId(f"vm:{100 + number}") for number in range(len(drawn))]
    demands = {
        name: ServiceDemand(amount, amount)
        for name, (amount, _) in zip(names, drawn, strict=True)
    }
    usage = LoadUsage(
        dict.fromkeys(NODES, NodeLoad(CAPACITY, NO_RESOURCES)),
        FixedDemands(demands),
        measured=False,
        imbalance_metric=ImbalanceMetric.CV,
    )
    everywhere = dict.fromkeys(NODES)
    bundles = []
    for name, (_, node) in zip(names, drawn, strict=True):
        usage.add(name, ServiceLocations(node, running=True))
        anti_affinity_nodes = draw(st.frozensets(st.sampled_from(NODES), max_size=2))
        bundle = MovableBundle([name], node, everywhere, anti_affinity_nodes)
        if bundle.has_target:
            bundles.append(bundle)
    return usage, bundles


@given(clusters(), st.sampled_from([BRUTEFORCE, TOPSIS]))
def test_vectorized_best_move_equals_plain_best_move(
    case: tuple[LoadUsage, list[MovableBundle]], method: str
) -> None:
    usage, bundles = case

    plain = best_move_plain(usage, bundles, method)

    vectorized = best_move_vectorized(usage, bundles, method) if bundles else None
    assert vectorized == plain
