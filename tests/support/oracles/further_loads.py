"""Further loads of nodes in the states of a plan, calculated plainly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from opendrs.model import GuestId, Limits, NodeId, PowerOff, PowerOn, Snapshot, Step


def load_defects(
    snapshot: Snapshot, started: Iterable[Step], done: Iterable[Step], limits: Limits
) -> Iterator[str]:
    """Yield the nodes that received a guest and exceed the threshold of a load.

    A guest counts on its target from the start of its step, and on its source until the
    end. On a node with a capacity, both must be measured.

    Args:
        snapshot: The cluster before the plan.
        started: Steps that were started, those that are done included.
        done: Steps that are done.
        limits: Limits with thresholds.
    """
    arrivals, departures = [*_moves(started)], [*_moves(done)]
    for load in limits.loads:
        for name, node in snapshot.nodes.items():
            arrived = [guest for guest, _, target in arrivals if target == name]
            capacity = node.load_capacities.get(load.name)
            if load.threshold is None or not arrived or capacity is None:
                continue
            left = [guest for guest, source, _ in departures if source == name]
            amounts = {guest: snapshot.guests[guest].loads for guest in arrived + left}
            if load.name not in node.loads or any(
                load.name not in amounts[guest] for guest in arrived
            ):
                yield f"{name} received a guest, and {load.name} is unknown"
                continue
            total = node.loads[load.name]
            total += sum(amounts[guest][load.name] for guest in arrived)
            total -= sum(amounts[guest].get(load.name, 0.0) for guest in left)
            if total > load.threshold * capacity * (1 + 1e-6):
                yield f"{name} has {total:g} of {load.name}"


def _moves(steps: Iterable[Step]) -> Iterator[tuple[GuestId, NodeId, NodeId]]:
    for step in steps:
        action = step.action
        assert not isinstance(action, PowerOn | PowerOff)
        yield action.guest, action.source, action.target


def network_deviations(snapshot: Snapshot) -> list[float]:
    """Return how far each node is from the balanced `network` load, relative to it.

    A node without a capacity, or without a measurement, deviates by 0.
    """
    known = {
        name: (node.loads["network"], node.load_capacities["network"])
        for name, node in snapshot.nodes.items()
        if "network" in node.loads and "network" in node.load_capacities
    }
    balanced = sum(amount for amount, _ in known.values()) / max(
        1.0, sum(capacity for _, capacity in known.values())
    )
    if not balanced:
        return [0.0 for _ in snapshot.nodes]
    return [
        known[name][0] / known[name][1] / balanced - 1 if name in known else 0.0
        for name in snapshot.nodes
    ]
