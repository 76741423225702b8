"""Clusters with starved guests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from opendrs.model import (
    GIB,
    Guest,
    Limits,
    Node,
    NodeId,
    Pressure,
    Resources,
    Rule,
    Snapshot,
    Stall,
    Usage,
)
from opendrs.policies import Decision
from opendrs.policies.pressure import PressureRelief
from support.builders import cluster, guest, node

FREE = Limits(memory_headroom=0.0, memory_overcommit=100.0, cooldown=0.0)
# Nothing but what is asked about: no interval and no quiet time.
AT_ONCE = PressureRelief(interval=0.0, settle_time=0.0, limits=FREE)
HOUR = 3600.0


def starved_cluster(
    nodes: Iterable[Node], guests: Iterable[Guest] = (), rules: Iterable[Rule] = ()
) -> Snapshot:
    """Return a cluster of these nodes and guests."""
    empty = cluster({}, {}, rules)
    return replace(
        empty,
        nodes={each.id: each for each in nodes},
        guests={each.id: each for each in guests},
    )


def host(name: str, memory: float, cpu: float = 2.0, **changes: Any) -> Node:  # noqa: ANN401
    """Return a node of 10 cores and 100 GiB with so many of each in use."""
    usage = Usage(cpu, int(memory * GIB))
    return node(name, 0, usage=usage, **{"ksm_shared": 0, **changes})


def vm(
    name: str,
    node_name: str,
    memory: float = 4,
    cpu_stall: float | None = 0.0,
    **changes: Any,  # noqa: ANN401
) -> Guest:
    """Return a guest that uses so many GiB and one core, and waits for cpu so long.

    It has run for an hour.
    """
    usage = Usage(1.0, int(memory * GIB))
    plain = guest(
        name,
        node_name,
        0,
        usage=usage,
        limit=Resources(2, int(memory * GIB)),
        uptime=HOUR,
        pressure=Pressure(cpu=Stall(cpu_stall)),
    )
    return replace(plain, **changes)


def decide(snapshot: Snapshot, policy: PressureRelief = AT_ONCE) -> Decision[Any]:
    """Return what *policy* decides that has not moved anybody yet."""
    return policy.decide(snapshot, policy.initial_memory())


def targets_of(decision: Decision[Any]) -> Mapping[str, str]:
    """Return where each guest goes that is moved."""
    return {
        str(step.action.guest): str(step.action.target)  # type: ignore[union-attr]
        for step in decision.plan.steps
    }


A, B, C = (NodeId(name) for name in "abc")
