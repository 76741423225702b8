"""What the policy remembers: the last samples of guests and of hosts.

One sample is taken in each cycle. A guest that was not measured in a cycle begins
anew with the next one: samples of one place in two histories are of one moment.
"""

from __future__ import annotations

from collections.abc import Mapping

from typing_extensions import TypedDict

from opendrs.model import Node, NodeId, Snapshot


class ConsolidationMemory(TypedDict):
    """What is kept from one cycle to the next; JSON-able.

    Attributes:
        cycle: How many cycles there were.
        guests: The CPU each guest used, in cores, the oldest sample first.
        nodes: The CPU each node used outside its guests.
        overload_counters: How often the detector was asked about each node, and how often
            it was overloaded then.
    """

    cycle: int
    guests: dict[str, list[float]]
    nodes: dict[str, list[float]]
    overload_counters: dict[str, list[int]]


def empty_memory() -> ConsolidationMemory:
    """Return the memory of who has seen nothing."""
    return {"cycle": 0, "guests": {}, "nodes": {}, "overload_counters": {}}


def is_measured(node: Node) -> bool:
    """Return whether *node* takes part and all is known of it."""
    return (
        node.online and node.capacity is not None and node.usage.resources is not None
    )


def append_sample(
    memory: ConsolidationMemory, snapshot: Snapshot, length: int
) -> ConsolidationMemory:
    """Return *memory* and what is used in *snapshot*.

    Who is not there or was not measured is forgotten.

    Args:
        memory: What is remembered.
        snapshot: The cluster now.
        length: How many samples are kept.
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
    """Return the CPU that the guests of each node use, as far as it is known."""
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
