from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendrs.model import MAX_AMOUNT, NodeId, Usage
from opendrs.pve_ha.log_events import SchedulerFallback
from opendrs.pve_ha.simulator import DrillScenario, run_drill
from opendrs.pve_ha.simulator.scenario import SimulatedHost
from opendrs.pve_ha.states import ServiceId
from opendrs.pve_ha.status_files import CrsSettings, DatacenterSettings, ServiceConfig

NODES = [NodeId("node1"), NodeId("node2"), NodeId("node3")]
AMPLE = Usage(16.0, 64 << 30)


def drill(mode: str, *, capacity: Usage = AMPLE, each: Usage = AMPLE) -> DrillScenario:
    """Return a drill of three services on one node, which loses its power."""
    services = [ServiceId(f"vm:{number}") for number in (101, 102, 103)]
    return DrillScenario(
        hosts=dict.fromkeys(NODES, SimulatedHost(capacity=capacity)),
        services=dict.fromkeys(services, ServiceConfig(node=NODES[0])),
        batches=[[f"power {node} on" for node in NODES], ["power node1 off"]],
        datacenter=DatacenterSettings(
            CrsSettings(mode=mode, rebalance_on_start=True, auto_rebalance=True)
        ),
        limits=dict.fromkeys(services, each),
        usages=dict.fromkeys(services, each),
    )


amounts = st.builds(
    Usage,
    st.floats(0, MAX_AMOUNT) | st.just(float(MAX_AMOUNT)),
    st.integers(0, MAX_AMOUNT) | st.just(MAX_AMOUNT),
)


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@settings(max_examples=25)  # each example is a whole drill
@given(each=amounts)
def test_drill_ends_with_any_service_usage(mode: str, each: Usage) -> None:
    result = run_drill(drill(mode, each=each))

    assert result.failure is None


@pytest.mark.parametrize(
    ("capacity", "missing"),
    [
        (Usage(None, 1), "cpu count"),
        (Usage(0.5, 1), "cpu count"),
        (Usage(8.0, None), "memory"),
        (Usage(), "cpu count"),
    ],
)
def test_static_usage_of_node_without_core_or_memory_falls_back_to_basic(
    capacity: Usage, missing: str
) -> None:
    one = drill("static", each=Usage(1.0, 1))
    hosts = {**one.hosts, NODES[1]: SimulatedHost(capacity=capacity)}

    events = [entry.event for entry in run_drill(replace(one, hosts=hosts)).entries]

    detail = f"static node usage information for 'node2' missing {missing}"
    assert SchedulerFallback("static", detail) in events
