"""Limits of further loads: what nodes may still receive, and why a guest must not come.

A node without a capacity of a load is not compared by it, and receives guests whatever
they add. A node with a capacity that was not measured receives none. A guest whose load
was not measured stays where it is, if some node has a capacity of that load.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from opendrs.model import FurtherLoad, Guest, Limits, NodeId, Snapshot, format_list

# Amount of each load that a node may still receive: infinity if it is not limited, None
# if it is unknown. Loads that the node has no capacity of are absent.
AvailableLoads = Mapping[str, float | None]


def compared_loads(snapshot: Snapshot, limits: Limits) -> tuple[FurtherLoad, ...]:
    """Return the loads of *limits* that some node has a capacity of."""
    if not limits.loads:
        return ()
    known = {name for node in snapshot.nodes.values() for name in node.load_capacities}
    return tuple(load for load in limits.loads if load.name in known)


def balanced_loads(snapshot: Snapshot, limits: Limits) -> tuple[FurtherLoad, ...]:
    """Return the loads with a weight that some node has a capacity of."""
    return tuple(each for each in compared_loads(snapshot, limits) if each.weight > 0)


def available_loads(
    snapshot: Snapshot, loads: Sequence[FurtherLoad]
) -> dict[NodeId, AvailableLoads]:
    """Return what each node may still receive; negative above the threshold.

    A migrating guest counts on its target in full.
    """
    if not loads:
        return {}
    arriving: dict[NodeId, list[Guest]] = {}
    for guest in snapshot.guests.values():
        if guest.is_active and guest.migrating_to is not None:
            arriving.setdefault(guest.migrating_to, []).append(guest)
    available: dict[NodeId, AvailableLoads] = {}
    for name, node in snapshot.nodes.items():
        found: dict[str, float | None] = {}
        for load in loads:
            capacity = node.load_capacities.get(load.name)
            if capacity is None:
                continue
            used = node.loads.get(load.name)
            more = required_load(arriving.get(name, ()), load.name)
            if used is None or more is None:
                found[load.name] = None
            elif load.threshold is None:
                found[load.name] = float("inf")
            else:
                found[load.name] = load.threshold * capacity - used - more
        available[name] = found
    return available


def required_load(guests: Iterable[Guest], load: str) -> float | None:
    """Return the amount of *load* of *guests*; None if it is unknown for one of them.

    A stopped guest has none.
    """
    total = 0.0
    for guest in guests:
        if guest.is_active:
            amount = guest.loads.get(load)
            if amount is None:
                return None
            total += amount
    return total


def load_shortage(
    guests: Sequence[Guest], loads: Sequence[FurtherLoad], available: AvailableLoads
) -> str | None:
    """Return why *guests* must not come to a node because of their further loads.

    Args:
        guests: Guests that migrate as one.
        loads: Loads that some node has a capacity of.
        available: What the node may still receive.
    """
    for load in loads:
        required = required_load(guests, load.name)
        if required is None:
            return f"{load.name} load of the guest is unknown"
        if load.name not in available:
            continue
        left = available[load.name]
        if left is None:
            return f"{load.name} load of the node is unknown"
        if required > left:
            return f"{load.name} load above the threshold by {required - left:.3g}"
    return None


def load_notes(snapshot: Snapshot, limits: Limits) -> Iterator[str]:
    """Yield a note for each further load that does not count everywhere."""
    compared = compared_loads(snapshot, limits)
    for load in limits.loads:
        if load not in compared:
            yield f"{load.name} load not counted: no node has a capacity of it"
            continue
        nodes = sorted(
            node.id
            for node in snapshot.nodes.values()
            if node.online
            and load.name in node.load_capacities
            and load.name not in node.loads
        )
        if nodes:
            yield (
                f"{load.name} load not measured, no targets: {format_list(nodes)} "
                f"(nodes.{nodes[0]}.loads)"
            )
