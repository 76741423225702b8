"""Figures of the cluster of a recorded cycle, from the plain values of its record.

Building the snapshot of 20,000 guests from them would take most of the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from opendrs.controller.views.cluster_columns import reading_record
from opendrs.metrics import ImbalanceMetric, imbalance
from opendrs.model import GuestState, NodeState
from opendrs.ports import CycleRecord

Plain = Mapping[str, Any]

CPU_LIMIT = 0.95  # busy fraction of the cores above which guests wait for each other
POWER = "power_watts"  # metric of the policy consolidate: the sum over the online nodes
STALL_LIMIT = 0.75  # stalled fraction of time; default of the policy pressure


@dataclass(frozen=True, slots=True)
class ClusterFigures:
    """Figures of one cycle; None if unknown.

    Attributes:
        imbalance: Imbalance of the load of the online nodes with known load; see
            `opendrs.metrics.imbalance`.
        worst_node: The online node with the highest load, of CPU or memory.
        highest_cpu: Highest load of the CPU of an online node.
        highest_memory: The same of the memory.
        suffering_guests: Number of running guests that get too few resources.
        violated_rules: Number of violated strict rules.
        online_nodes: Number of nodes that are online.
        power: Estimated power of the online nodes in watts. Only the policy consolidate
            estimates it.
    """

    imbalance: float | None
    worst_node: str | None
    highest_cpu: float | None
    highest_memory: float | None
    suffering_guests: int
    violated_rules: int
    online_nodes: int
    power: float | None


def cluster_figures(
    cycle: CycleRecord, metric: ImbalanceMetric = ImbalanceMetric.CV
) -> ClusterFigures:
    """Return the figures of *cycle*, with the imbalance in *metric*.

    Raises:
        StoreError: The record is damaged.
    """
    with reading_record(cycle.run):
        return _figures(cycle.document, metric)


def _figures(document: Plain, metric: ImbalanceMetric) -> ClusterFigures:
    online = {
        name: node
        for name, node in document["snapshot"]["nodes"].items()
        if node.get("state") == NodeState.ONLINE.value
    }
    loads = {
        name: load
        for name, node in online.items()
        if (load := known_load(node)) is not None
    }
    decision = document["decision"]
    violated = decision.get("violations", {}).get("before", ())
    return ClusterFigures(
        imbalance=imbalance([sum(each) / 2 for each in loads.values()], metric)
        if loads
        else None,
        worst_node=max(loads, key=lambda name: max(loads[name]), default=None),
        highest_cpu=max((load[0] for load in loads.values()), default=None),
        highest_memory=max((load[1] for load in loads.values()), default=None),
        suffering_guests=sum(1 for _ in suffering_guests(document)),
        violated_rules=len({each["rule"] for each in violated if each["strict"]}),
        online_nodes=len(online),
        power=decision["before"].get(POWER),
    )


def node_load(node: Plain) -> tuple[float | None, float | None]:
    """Return the busy fraction of the cores and of the memory; None if unknown."""
    usage, capacity = node.get("usage", {}), node.get("capacity", {})
    cpu, memory = (
        usage[name] / capacity[name] if name in usage and capacity.get(name) else None
        for name in ("cpu", "memory")
    )
    return cpu, memory


def known_load(node: Plain) -> tuple[float, float] | None:
    """Return the load of CPU and memory; None unless both are known."""
    cpu, memory = node_load(node)
    return None if cpu is None or memory is None else (cpu, memory)


def suffering_guests(document: Plain) -> Iterator[str]:
    """Yield the running guests that get too few resources, as far as is known.

    They are stalled for CPU, memory or I/O for more than `STALL_LIMIT` of the time, or
    run on a node whose CPU is busy above `CPU_LIMIT` or whose memory in use exceeds the
    limit of the recorded settings.
    """
    nodes = document["snapshot"]["nodes"]
    full = 1 - document["settings"]["limits"]["memory_headroom"]
    loads = {name: known_load(node) for name, node in nodes.items()}
    hot = {
        name
        for name, load in loads.items()
        if load is not None and (load[0] > CPU_LIMIT or load[1] > full)
    }
    for name, guest in document["snapshot"]["guests"].items():
        if guest.get("state") != GuestState.RUNNING.value:
            continue
        stalls = guest["pressure"].values() if "pressure" in guest else ()
        if guest["node"] in hot or any(
            stall.get("some", 0) > STALL_LIMIT for stall in stalls
        ):
            yield name
