"""Memory of the policy: the recent samples of guests and nodes.

One sample is taken in each cycle. The history of a guest that was not measured in a
cycle restarts with the next one. So samples at equal distance from the end of two
histories are of the same cycle.
"""

from __future__ import annotations

from collections.abc import Mapping

from typing_extensions import TypedDict

from opendrs.model import Node, NodeId, Snapshot


class ConsolidationMemory(TypedDict):
    """State that is kept from one cycle to the next; JSON-able.

    Attributes:
        cycle: Number of cycles so far.
        guests: CPU used by each guest, in cores, oldest sample first.
        nodes: CPU used by each node outside its guests, in cores.
        overload_counters: For each node, the number of evaluations by the
            detector, and the number in which it was overloaded.
    """

    cycle: int
    guests: dict[str, list[float]]
    nodes: dict[str, list[float]]
    overload_counters: dict[str, list[int]]


def empty_memory() -> ConsolidationMemory:
    """Return the memory before the first cycle."""
    return {"cycle": 0, "guests": {}, "nodes": {}, "overload_counters": {}}


def is_measured(node: Node) -> bool:
    """Return True if *node* is online and its capacity and usage are known."""
    return (
        node.online and node.capacity is not None and node.usage.resources is not None
    )


def append_sample(
    memory: ConsolidationMemory, snapshot: Snapshot, length: int
) -> ConsolidationMemory:
    """Return *memory* with the usage in *snapshot* appended.

    Guests and nodes that are absent or not measured are removed.

    Args:
        memory: Memory of the previous cycles.
        snapshot: Current state of the cluster.
        length: Number of samples to keep.
    """
    guests: dict[str, float] = {
        guest.id: guest.usage.cpu
        for guest in snapshot.guests.values()
        if guest.is_active and guest.usage.cpu is not None
    }
    guest_cpu = _guest_cpu_by_node(snapshot)
    nodes: dict[str, float] = {
        node.id: max(0.0, (node.usage.cpu or 0.0) - guest_cpu.get(node.id, 0.0))
        for node in snapshot.nodes.values()
        if is_measured(node)
    }
    return {
        "cycle": memory["cycle"] + 1,
        "guests": _append(memory["guests"], guests, length),
        "nodes": _append(memory["nodes"], nodes, length),
        "overload_counters": {
            name: counter
            for name, counter in memory["overload_counters"].items()
            if name in nodes
        },
    }


def _guest_cpu_by_node(snapshot: Snapshot) -> dict[NodeId, float]:
    """Return the CPU used by the guests of each node, as far as it is known."""
    cpu_by_node: dict[NodeId, float] = {}
    for _, guest in sorted(snapshot.guests.items()):
        if guest.is_active:
            used = guest.usage.cpu or 0.0
            cpu_by_node[guest.node] = cpu_by_node.get(guest.node, 0.0) + used
    return cpu_by_node


def _append(
    previous: Mapping[str, list[float]], new: Mapping[str, float], length: int
) -> dict[str, list[float]]:
    return {
        name: [*previous.get(name, []), value][-length:]
        for name, value in sorted(new.items())
    }
