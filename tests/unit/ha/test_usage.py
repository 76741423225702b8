from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendrs.ha.identifiers import ServiceId
from opendrs.ha.places import Places
from opendrs.ha.usage import TOO_MANY_NODES, Demand, LoadUsage
from opendrs.model import GIB, NodeId, Resources
from opendrs.scoring import ImbalanceForm, NodeLoad

FEW = [NodeId(f"node{number}") for number in range(1, 4)]
MANY = [NodeId(f"node{number:02}") for number in range(TOO_MANY_NODES)]
NAMES = [ServiceId(f"vm:{number}") for number in range(101, 107)]
CAPACITY = Resources(16.0, 64 * GIB)

Change = tuple[ServiceId, NodeId | None, bool]


class Sizes:
    """Every service takes something else, which does not add up evenly."""

    def of(self, service: ServiceId) -> Demand:
        number = int(service.removeprefix("vm:"))
        amount = Resources(number / 700, number * GIB // 70)
        return Demand(amount, amount)


def account(nodes: Sequence[NodeId], *, measured: bool) -> LoadUsage:
    """Return an account of *nodes*, each of which is taken to a different part."""
    loads = {
        node: NodeLoad(CAPACITY, Resources(number / 10, number))
        for number, node in enumerate(nodes)
    }
    return LoadUsage(loads, Sizes(), measured=measured, form=ImbalanceForm.RAW)


def changes(nodes: Sequence[NodeId]) -> st.SearchStrategy[list[Change]]:
    """Draw which service is counted on which node next, or nowhere, and if it runs."""
    places = st.none() | st.sampled_from(nodes[:4])
    return st.lists(st.tuples(st.sampled_from(NAMES), places, st.booleans()))


@pytest.mark.parametrize("nodes", [FEW, MANY])
@given(data=st.data(), measured=st.booleans())
def test_what_was_counted_bit_by_bit_is_what_is_counted_at_once(
    nodes: Sequence[NodeId], data: st.DataObject, *, measured: bool
) -> None:
    asked = account(nodes, measured=measured)
    where: dict[ServiceId, Places] = {}
    for service, node, running in data.draw(changes(nodes)):
        asked.remove(service)
        asked.start_costs(NAMES[0])
        where[service] = Places(node, running=running)
        asked.add(service, where[service])

    at_once = account(nodes, measured=measured)
    for service, places in where.items():
        at_once.add(service, places)

    assert asked.start_costs(NAMES[0]) == at_once.start_costs(NAMES[0])
    assert asked.loads() == at_once.loads()
