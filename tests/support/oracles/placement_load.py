"""Load of a placement under recorded demand, in plain Python from one snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean, pstdev

from opendrs.model import GuestId, NodeId, NodeState, Snapshot

OFF = (NodeState.OFFLINE, NodeState.UNKNOWN)


@dataclass(frozen=True, slots=True)
class ExpectedLoad:
    """Load of a placement; the fields are those of `PlacementLoad`."""

    contended: int
    contended_cpu: int
    contended_memory: int
    highest: float
    imbalance: float


def expected_demand(
    recorded: Snapshot,
    placement: Mapping[GuestId, NodeId],
    targets: Mapping[GuestId, NodeId],
    node: NodeId,
    resource: str,
) -> float | None:
    """Return the demand for *resource*, cpu or memory, on *node*; None if unknown."""
    demand: float | None = getattr(recorded.nodes[node].usage, resource)
    if demand is None:
        return None
    for guest in recorded.guests.values():
        if not guest.is_active:
            continue
        amount = getattr(guest.usage, resource)
        was_here, is_here = guest.node == node, placement[guest.id] == node
        if amount is None:
            if was_here != is_here:
                return None
            continue
        demand += amount * (is_here - was_here)
        if resource == "memory" and targets.get(guest.id) == node:
            demand += amount
    return max(0.0, demand)


def expected_load(
    recorded: Snapshot,
    placement: Mapping[GuestId, NodeId],
    targets: Mapping[GuestId, NodeId],
) -> ExpectedLoad | None:
    """Return the load of *placement*; None if that of a node is unknown."""
    counts = {"any": 0, "cpu": 0, "memory": 0}
    loads: list[tuple[float, float]] = []
    for node in recorded.nodes.values():
        if node.state in OFF:
            continue
        pair = {}
        for resource in ("cpu", "memory"):
            demand = expected_demand(recorded, placement, targets, node.id, resource)
            if demand is None or node.capacity is None:
                return None
            pair[resource] = demand / getattr(node.capacity, resource)
        guests = sum(
            guest.is_active and placement[guest.id] == node.id
            for guest in recorded.guests.values()
        )
        exceeded = {name: load > 1 + 1e-9 for name, load in pair.items()}
        for name, is_exceeded in {**exceeded, "any": any(exceeded.values())}.items():
            counts[name] += guests * is_exceeded
        if node.online:
            loads.append((pair["cpu"], pair["memory"]))
    if not loads:
        return None
    means = [fmean(pair) for pair in loads]
    total = fmean(means)
    return ExpectedLoad(
        contended=counts["any"],
        contended_cpu=counts["cpu"],
        contended_memory=counts["memory"],
        highest=max(max(pair) for pair in loads),
        imbalance=pstdev(means) / total if total else 0.0,
    )
