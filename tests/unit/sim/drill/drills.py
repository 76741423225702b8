"""Small drills, in a few words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from opendrs.ha.documents import ServiceConfig
from opendrs.ha.identifiers import ServiceId
from opendrs.model import NodeId, Usage
from opendrs.sim.drill import Scenario
from opendrs.sim.drill.hosts import Host

CAPACITY = Usage(16.0, 64 << 30)


def scenario(
    services: Mapping[str, str],
    *batches: Iterable[str],
    nodes: int = 3,
    rules: str = "",
) -> Scenario:
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
    return Scenario(
        hosts=dict.fromkeys(names, Host(capacity=CAPACITY)),
        services=known,
        batches=[[f"power {name} on" for name in names], *map(list, batches)],
        rules=rules,
        limits=dict.fromkeys(known, Usage(4.0, 4 << 30)),
        usages=dict.fromkeys(known, Usage(2.0, 2 << 30)),
    )
