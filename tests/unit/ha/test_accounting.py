from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendrs.ha.documents import Datacenter, Scheduling, ServiceConfig
from opendrs.ha.events import SchedulerFellBack
from opendrs.ha.identifiers import ServiceId
from opendrs.model import NodeId, Usage
from opendrs.model.resources import LARGEST_AMOUNT
from opendrs.sim.drill import Scenario, hold_drill
from opendrs.sim.drill.hosts import Host

NODES = [NodeId("node1"), NodeId("node2"), NodeId("node3")]
AMPLE = Usage(16.0, 64 << 30)


def drill(mode: str, *, capacity: Usage = AMPLE, each: Usage = AMPLE) -> Scenario:
    """Return a drill of three services, whose node dies."""
    services = [ServiceId(f"vm:{number}") for number in (101, 102, 103)]
    return Scenario(
        hosts=dict.fromkeys(NODES, Host(capacity=capacity)),
        services=dict.fromkeys(services, ServiceConfig(node=NODES[0])),
        batches=[[f"power {node} on" for node in NODES], ["power node1 off"]],
        datacenter=Datacenter(
            Scheduling(mode=mode, rebalance_on_start=True, auto_rebalance=True)
        ),
        limits=dict.fromkeys(services, each),
        usages=dict.fromkeys(services, each),
    )


amounts = st.builds(
    Usage,
    st.floats(0, LARGEST_AMOUNT) | st.just(float(LARGEST_AMOUNT)),
    st.integers(0, LARGEST_AMOUNT) | st.just(LARGEST_AMOUNT),
)


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@settings(max_examples=25)  # a whole drill each
@given(each=amounts)
def test_a_drill_ends_whatever_services_take(mode: str, each: Usage) -> None:
    held = hold_drill(drill(mode, each=each))

    assert held.failure is None


@pytest.mark.parametrize(
    ("capacity", "missing"),
    [
        (Usage(None, 1), "cpu count"),
        (Usage(0.5, 1), "cpu count"),
        (Usage(8.0, None), "memory"),
        (Usage(), "cpu count"),
    ],
)
def test_services_are_counted_where_a_node_has_no_whole_core_or_memory(
    capacity: Usage, missing: str
) -> None:
    one = drill("static", each=Usage(1.0, 1))
    hosts = {**one.hosts, NODES[1]: Host(capacity=capacity)}

    told = [entry.event for entry in hold_drill(replace(one, hosts=hosts)).entries]

    why = f"static node usage information for 'node2' missing {missing}"
    assert SchedulerFellBack("static", why) in told
