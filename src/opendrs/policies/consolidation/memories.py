"""What the policy remembers: the last samples of guests and of hosts.

One sample is taken in each cycle. A guest that was not measured in a cycle begins
anew with the next one: samples of one place in two histories are of one moment.
"""

from __future__ import annotations

from collections.abc import Mapping

from typing_extensions import TypedDict

from opendrs.model import Node, NodeId, Snapshot


class Memory(TypedDict):
    """What is kept from one cycle to the next; JSON-able.

    Attributes:
        cycle: How many cycles there were.
        guests: The CPU each guest used, in cores, the oldest sample first.
        nodes: The CPU each node used outside its guests.
        tallies: How often the detector was asked about each node, and how often
            it was overloaded then.
    """

    cycle: int
    guests: dict[str, list[float]]
    nodes: dict[str, list[float]]
    tallies: dict[str, list[int]]


def no_memory() -> Memory:
    """Return the memory of who has seen nothing."""
    return {"cycle": 0, "guests": {}, "nodes": {}, "tallies": {}}


def measured(node: Node) -> bool:
    """Return whether *node* takes part and all is known of it."""
    return node.online and node.capacity is not None and node.usage.known is not None


def with_sample(memory: Memory, snapshot: Snapshot, length: int) -> Memory:
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
        if guest.present and guest.usage.cpu is not None
    }
    busy = _of_guests(snapshot)
    nodes: dict[str, float] = {
        node.id: max(0.0, (node.usage.cpu or 0.0) - busy.get(node.id, 0.0))
        for node in snapshot.nodes.values()
        if measured(node)
    }
    return {
        "cycle": memory["cycle"] + 1,
        "guests": _appended(memory["guests"], guests, length),
        "nodes": _appended(memory["nodes"], nodes, length),
        "tallies": {
            name: tally for name, tally in memory["tallies"].items() if name in nodes
        },
    }


def _of_guests(snapshot: Snapshot) -> dict[NodeId, float]:
    """Return the CPU that the guests of each node use, as far as it is known."""
    found: dict[NodeId, float] = {}
    for _, guest in sorted(snapshot.guests.items()):
        if guest.present:
            used = guest.usage.cpu or 0.0
            found[guest.node] = found.get(guest.node, 0.0) + used
    return found


def _appended(
    kept: Mapping[str, list[float]], new: Mapping[str, float], length: int
) -> dict[str, list[float]]:
    return {
        name: [*kept.get(name, []), value][-length:]
        for name, value in sorted(new.items())
    }
