"""Small drills built in a few lines, for tests."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from opendrs.model import Limits, NodeId, Snapshot, Usage
from opendrs.pve_ha.simulator import DrillScenario
from opendrs.pve_ha.simulator.failure_impact import FailureImpact
from opendrs.pve_ha.simulator.node_failure import NodeFailureSimulation
from opendrs.pve_ha.simulator.run import TimeObserver, ignore_time
from opendrs.pve_ha.simulator.scenario import SimulatedHost
from opendrs.pve_ha.states import ServiceId
from opendrs.pve_ha.status_files import DatacenterSettings, ServiceConfig

CAPACITY = Usage(16.0, 64 << 30)


def scenario(
    services: Mapping[str, str],
    *batches: Iterable[str],
    nodes: int = 3,
    rules: str = "",
) -> DrillScenario:
    """Return a scenario in which all nodes are switched on first.

    Args:
        services: The node of each service.
        batches: What is done then.
        nodes: How many nodes there are.
        rules: The text of the rules.
    """
    names = [NodeId(f"node{number}") for number in range(1, nodes + 1)]
    known = {
        ServiceId(name): ServiceConfig(node=NodeId(node))
        for name, node in services.items()
    }
    return DrillScenario(
        hosts=dict.fromkeys(names, SimulatedHost(capacity=CAPACITY)),
        services=known,
        batches=[[f"power {name} on" for name in names], *map(list, batches)],
        rules=rules,
        limits=dict.fromkeys(known, Usage(4.0, 4 << 30)),
        usages=dict.fromkeys(known, Usage(2.0, 2 << 30)),
    )


def simulate_node_failure(  # noqa: PLR0913 - all but the first two have a usual value
    snapshot: Snapshot,
    nodes: Collection[NodeId],
    *,
    limits: Limits,
    assume_ha: bool = False,
    datacenter: DatacenterSettings | None = None,
    observer: TimeObserver = ignore_time,
) -> FailureImpact:
    """Return what follows when *nodes* lose their power at once.

    Args:
        snapshot: The cluster.
        nodes: The hosts that die.
        limits: What the operator allows of memory.
        assume_ha: Whether every guest is a service, whatever it says.
        datacenter: The settings of the HA manager; None for the usual ones.
        observer: Told the time before each pass.

    Raises:
        UnknownNodeError: A host is not in the snapshot.
    """
    simulation = NodeFailureSimulation(
        snapshot,
        limits=limits,
        assume_ha=assume_ha,
        datacenter=datacenter,
        observer=observer,
    )
    return simulation.simulate(nodes, observer)
