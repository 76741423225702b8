"""Clusters as seen by the rebalancing of Incus."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from opendrs.model import GIB, Guest, Limits, NodeId, Resources, Rule, Snapshot, Usage
from opendrs.policies import Decision
from opendrs.policies.threshold_rebalance import ThresholdRebalance
from support.builders import cluster, guest, node

# So that what Incus decides is not cut short by what the guard would refuse.
GENEROUS = Limits(memory_headroom=0.0, memory_overcommit=100.0, cooldown=0.0)
Figures = tuple[float, float]  # percent of the memory, load average

# The worked example, checked on Incus 7.0.2: 16 threads and 16 GiB each.
EXAMPLE: Mapping[str, Figures] = {"n1": (20, 1.6), "n2": (30, 3.2), "n3": (80, 8.0)}


def incus_cluster(
    figures: Mapping[str, Figures],
    guests: Iterable[Guest] = (),
    rules: Iterable[Rule] = (),
    *,
    threads: float = 16,
    memory: int = 16 * GIB,
    **changes: Any,  # noqa: ANN401
) -> Snapshot:
    """Return hosts with so much of their memory in use, and such a load."""
    nodes = {
        NodeId(name): node(
            name,
            0,
            capacity=Resources(threads, memory),
            usage=Usage(None, -(-memory * percent // 100)),  # type: ignore[arg-type]
            load_average=load,
            **changes,
        )
        for name, (percent, load) in figures.items()
    }
    empty = cluster({}, {}, rules)
    return replace(empty, nodes=nodes, guests={each.id: each for each in guests})


def vm(
    name: str,
    where: str,
    cpu: float,
    memory: int,
    **changes: Any,  # noqa: ANN401
) -> Guest:
    """Return a guest of such limits that uses next to nothing."""
    limit = Resources(cpu, memory)
    idle = guest(name, where, 0, limit=limit, usage=Usage(None, 1 << 20))
    return replace(idle, **changes)


def decide(
    policy: ThresholdRebalance, snapshot: Snapshot
) -> Decision[dict[str, list[str]]]:
    """Return the decision of *policy* with its initial memory."""
    return policy.decide(snapshot, policy.initial_memory())


def migrations_of(
    policy: ThresholdRebalance, snapshot: Snapshot
) -> list[tuple[str, str]]:
    """Return who goes where."""
    steps = decide(policy, snapshot).plan.steps
    return [(each.action.guest, each.action.target) for each in steps]  # type: ignore[union-attr]
