import pytest

from opendrs.model import NodeId
from opendrs.pve_ha.manager.balancing import resource_bundles
from opendrs.pve_ha.states import ServiceId, ServiceState
from opendrs.pve_ha.status_files import ServiceStatus

ONE, TWO, THREE = (ServiceId(f"vm:{number}") for number in (101, 102, 103))


def at(node: str, state: str = "started", target: str | None = None) -> ServiceStatus:
    return ServiceStatus(
        state=ServiceState(state),
        node=NodeId(node),
        target=None if target is None else NodeId(target),
    )


# Cases of the test of resource bundles in pve-ha-manager.
@pytest.mark.parametrize(
    ("services", "together", "bundles"),
    [
        ({ONE: at("node1"), TWO: at("node1")}, (), {ONE: [ONE], TWO: [TWO]}),
        ({ONE: at("node1"), TWO: at("node1")}, (ONE, TWO), {ONE: [ONE, TWO]}),
        (
            {ONE: at("node1", "stopped"), TWO: at("node1"), THREE: at("node1")},
            (ONE, TWO, THREE),
            {TWO: [TWO, THREE]},
        ),
        (
            {ONE: at("node1"), TWO: at("node1", "stopped"), THREE: at("node1")},
            (ONE, TWO, THREE),
            {ONE: [ONE, THREE]},
        ),
        (
            {
                ONE: at("node1"),
                TWO: at("node2", "migrate", "node1"),
                THREE: at("node3", "relocate", "node1"),
            },
            (ONE, TWO, THREE),
            {},
        ),
        (
            {ONE: at("node1"), TWO: at("node2"), THREE: at("node3")},
            (ONE, TWO, THREE),
            {},
        ),
    ],
)
def test_positive_affinity_services_form_a_bundle(
    services: dict[ServiceId, ServiceStatus],
    together: tuple[ServiceId, ...],
    bundles: dict[ServiceId, list[ServiceId]],
) -> None:
    companions = {one: frozenset(together) - {one} for one in together}

    assert resource_bundles(services, companions) == bundles
