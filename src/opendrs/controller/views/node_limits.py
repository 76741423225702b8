"""Nodes over a limit, and guests that get too few resources, in plain values.

The plain values are those of a recorded cycle. The memory limits are those of
`opendrs.rules.memory`, which calculates with snapshots.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from opendrs.model import GIB, GuestState, NodeState

Plain = Mapping[str, Any]

CPU_LIMIT = 0.95  # busy fraction of the cores above which guests wait for each other
STALL_LIMIT = 0.75  # stalled fraction of time; default of the policy pressure
_REACHABLE = frozenset(
    {NodeState.ONLINE.value, NodeState.MAINTENANCE.value, NodeState.EXCLUDED.value}
)


def node_load(node: Plain) -> tuple[float, float] | None:
    """Return the busy fraction of the cores and of the memory; None if unknown."""
    usage, capacity = node.get("usage", {}), node.get("capacity")
    if capacity is None or not {"cpu", "memory"} <= usage.keys():
        return None
    return usage["cpu"] / capacity["cpu"], usage["memory"] / capacity["memory"]


def exceeds_limits(document: Plain) -> dict[str, str]:
    """Return which limits each node of a recorded cycle exceeds, as a sentence.

    The limits are the memory headroom and the memory overcommitment of the recorded
    settings, and `CPU_LIMIT`. Unknown values exceed no limit. Nodes that do not respond
    are omitted.
    """
    limits = document["settings"]["limits"]
    headroom, overcommit = limits["memory_headroom"], limits["memory_overcommit"]
    committed = _committed_memory(document["snapshot"]["guests"])
    found: dict[str, str] = {}
    for name, node in document["snapshot"]["nodes"].items():
        if node.get("state") not in _REACHABLE or "capacity" not in node:
            continue
        memory = node["capacity"]["memory"]
        load = node_load(node)
        details = []
        if load is not None and load[0] > CPU_LIMIT:
            details.append(f"CPU {load[0]:.0%} busy, limit {CPU_LIMIT:.0%}")
        if load is not None and load[1] > 1 - headroom:
            details.append(f"memory {load[1]:.0%} used, limit {1 - headroom:.0%}")
        if committed[name] > memory * overcommit:
            excess = (committed[name] - memory * overcommit) / GIB
            details.append(f"memory overcommitted by {excess:.1f} GiB")
        if details:
            found[name] = "; ".join(details)
    return found


def suffering_guests(document: Plain) -> Iterator[str]:
    """Yield the running guests that get too few resources, as far as is known.

    They are stalled for CPU, memory or I/O for more than `STALL_LIMIT` of the time, or
    run on a node whose CPU or memory in use exceeds its limit.
    """
    nodes = document["snapshot"]["nodes"]
    full = 1 - document["settings"]["limits"]["memory_headroom"]
    loads = {name: node_load(node) for name, node in nodes.items()}
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


def _committed_memory(guests: Mapping[str, Plain]) -> defaultdict[str, float]:
    """Return the memory that the guests on each node may use; unknown counts 0."""
    committed: defaultdict[str, float] = defaultdict(float)
    for guest in guests.values():
        if guest.get("state") == GuestState.STOPPED.value:
            continue
        limit = guest["limit"]["memory"] if "limit" in guest else 0
        amount = limit or guest.get("usage", {}).get("memory", 0)
        committed[guest["node"]] += amount
        if "migrating_to" in guest:
            committed[guest["migrating_to"]] += amount
    return committed
