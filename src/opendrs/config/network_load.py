"""The further load `network`: its setting, and what adapters derive from counters.

Platforms count the bytes that the interfaces of a guest have received and sent. A load
is a difference of two readings. Where a platform does not report the traffic of a node,
its load is the sum of those of its guests, and unknown if one of them is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Annotated

from opendrs.model import (
    MAX_BANDWIDTH,
    NO_LOADS,
    RATE,
    Guest,
    LoadAmounts,
    Node,
    NodeId,
)
from opendrs.rules import required_load

NETWORK = "network"
_MIN_CAPACITY = 1 << 10

NetworkCapacity = Annotated[float, RATE] | None
"""Bytes per second that each node can receive and send in total; None if unknown."""

Counters = Mapping[str, int]
"""Bytes that each interface of one guest has received and sent, by its name."""


def capacity_problems(capacity: float | None) -> Iterator[str]:
    """Yield what is wrong with the setting `network_capacity`."""
    if capacity is not None and not _MIN_CAPACITY <= capacity <= MAX_BANDWIDTH:
        yield (
            f"network_capacity: expected {_MIN_CAPACITY} to {MAX_BANDWIDTH:.0e} "
            f"bytes/s, got {capacity:g}"
        )


def transferred(before: Counters | None, after: Counters | None) -> int | None:
    """Return the bytes between two readings of one guest.

    None if a reading is missing, an interface was added or removed in between, or a
    counter began again.
    """
    if before is None or after is None or before.keys() != after.keys():
        return None
    steps = [count - before[name] for name, count in after.items()]
    return sum(steps) if all(step >= 0 for step in steps) else None


def guest_load(amount: int | None, seconds: float) -> LoadAmounts:
    """Return the load of a guest that has transferred *amount* bytes in *seconds*.

    Empty if the amount is unknown, or more than a network can transfer.
    """
    if amount is None or not 0 <= amount <= seconds * MAX_BANDWIDTH or seconds <= 0:
        return NO_LOADS
    return {NETWORK: amount / seconds}


def with_capacity(
    nodes: Mapping[NodeId, Node], capacity: float | None
) -> dict[NodeId, Node]:
    """Return *nodes*, of which those that respond have this capacity, unless None."""
    if capacity is None:
        return dict(nodes)
    return {
        name: replace(node, load_capacities={**node.load_capacities, NETWORK: capacity})
        if node.reachable
        else node
        for name, node in nodes.items()
    }


def with_guest_traffic(
    nodes: Mapping[NodeId, Node], guests: Iterable[Guest]
) -> dict[NodeId, Node]:
    """Return *nodes*, of which those with a capacity have the load of their *guests*.

    It is unknown if that of one of their active guests is.
    """
    there: dict[NodeId, list[Guest]] = {name: [] for name in nodes}
    for guest in guests:
        there[guest.node].append(guest)
    result = dict(nodes)
    for name, node in nodes.items():
        if NETWORK not in node.load_capacities:
            continue
        amount = required_load(there[name], NETWORK)
        if amount is not None:
            result[name] = replace(node, loads={**node.loads, NETWORK: amount})
    return result
