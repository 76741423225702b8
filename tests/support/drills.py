"""Builders of small drills."""

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
    """Return a scenario in which all nodes are powered on first.

    Args:
        services: Node of each service.
        batches: Commands after that.
        nodes: Number of nodes.
        rules: Text of the rules.
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


def simulate_node_failure(  # noqa: PLR0913 - most have a default
    snapshot: Snapshot,
    nodes: Collection[NodeId],
    *,
    limits: Limits,
    assume_ha: bool = False,
    datacenter: DatacenterSettings | None = None,
    observer: TimeObserver = ignore_time,
) -> FailureImpact:
    """Return the impact of a simultaneous power loss of *nodes*.

    Args:
        snapshot: The cluster.
        nodes: Failing nodes.
        limits: Memory limits of the operator.
        assume_ha: Every guest is a service, whatever the snapshot contains.
        datacenter: Settings of the HA manager; None for defaults.
        observer: Called with the time before each round.

    Raises:
        UnknownNodeError: A node is not in the snapshot.
    """
    simulation = NodeFailureSimulation(
        snapshot,
        limits=limits,
        assume_ha=assume_ha,
        datacenter=datacenter,
        observer=observer,
    )
    return simulation.simulate(nodes, observer)
