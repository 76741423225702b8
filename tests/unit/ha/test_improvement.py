from hypothesis import given
from hypothesis import strategies as st

from opendrs.ha.identifiers import ServiceId
from opendrs.ha.improvement import (
    BRUTE_FORCE,
    TOPSIS,
    Movable,
    best_move_by_move,
    best_move_over_columns,
)
from opendrs.ha.places import Places
from opendrs.ha.usage import Demand, LoadUsage
from opendrs.model import GIB, NodeId, Resources
from opendrs.model.resources import NOTHING
from opendrs.scoring import ImbalanceForm, NodeLoad

NODES = tuple(NodeId(f"node{number}") for number in range(1, 5))
CAPACITY = Resources(16, 64 * GIB)


class Known:
    def __init__(self, demands: dict[ServiceId, Demand]) -> None:
        self._demands = demands

    def of(self, service: ServiceId) -> Demand:
        return self._demands[service]


amounts = st.builds(
    Resources,
    st.integers(1, 40).map(lambda n: n / 10),
    st.integers(1, 80).map(lambda n: n * GIB // 10),
)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[LoadUsage, list[Movable]]:
    drawn = draw(
        st.lists(st.tuples(amounts, st.sampled_from(NODES)), min_size=1, max_size=8)
    )
    names = [ServiceId(f"vm:{100 + number}") for number in range(len(drawn))]
    demands = {
        name: Demand(amount, amount)
        for name, (amount, _) in zip(names, drawn, strict=True)
    }
    usage = LoadUsage(
        dict.fromkeys(NODES, NodeLoad(CAPACITY, NOTHING)),
        Known(demands),
        measured=False,
        form=ImbalanceForm.RAW,
    )
    everywhere = dict.fromkeys(NODES)
    bundles = []
    for name, (_, node) in zip(names, drawn, strict=True):
        usage.add(name, Places(node, running=True))
        separate = draw(st.frozensets(st.sampled_from(NODES), max_size=2))
        bundle = Movable([name], node, everywhere, separate)
        if bundle.has_target:
            bundles.append(bundle)
    return usage, bundles


@given(clusters(), st.sampled_from([BRUTE_FORCE, TOPSIS]))
def test_moves_scored_at_once_give_the_same_best_as_one_by_one(
    case: tuple[LoadUsage, list[Movable]], method: str
) -> None:
    usage, bundles = case

    one_by_one = best_move_by_move(usage, bundles, method)

    at_once = best_move_over_columns(usage, bundles, method) if bundles else None
    assert at_once == one_by_one
