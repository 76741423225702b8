"""From a snapshot to the loads of its nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from opendrs.model import Guest, Node, NodeId, Resources, Snapshot, first_few
from opendrs.model.resources import NOT_MEASURED, NOTHING
from opendrs.scoring.load import NodeLoad

_PARTS = dict.fromkeys(("capacity", "usage", "limit"), ": cpu, memory")


class UsageMode(StrEnum):
    """What counts as taken on a node.

    DYNAMIC is what was measured in use, STATIC the limits of its guests.

    Source:
        Proxmox VE 9, the crs option ha: dynamic or static.
    """

    STATIC = "static"
    DYNAMIC = "dynamic"


def node_loads(snapshot: Snapshot, mode: UsageMode) -> dict[NodeId, NodeLoad]:
    """Return the load of each online node that is known, in order of name.

    What is missing is named by `without_figures`. In STATIC mode a guest that moves
    counts on both nodes.
    """
    taken = _promised(snapshot) if mode is UsageMode.STATIC else _measured(snapshot)
    return {
        name: taken[name]
        for name, node in sorted(snapshot.nodes.items())
        if node.online and name in taken
    }


def without_figures(snapshot: Snapshot, mode: UsageMode) -> str:
    """Return what must be known and is not, with the fields; empty when all is known.

    These are online nodes without capacity or, in DYNAMIC mode, usage; in
    STATIC mode, guests without limit.
    """
    nodes = (node for _, node in sorted(snapshot.nodes.items()) if node.online)
    lines = nodes_without_figures(nodes, mode)
    if mode is UsageMode.STATIC:
        guests = sorted(
            guest.id
            for guest in snapshot.guests.values()
            if guest.locations and guest.limit is None
        )
        lines += lacking("guest", {"limit": guests})
    return "; ".join(lines)


def nodes_without_figures(nodes: Iterable[Node], mode: UsageMode) -> list[str]:
    """Return which of *nodes* have no capacity or, in DYNAMIC mode, usage."""
    missing: defaultdict[str, list[str]] = defaultdict(list)
    for node in nodes:
        if node.capacity is None:
            missing["capacity"].append(node.id)
        if mode is UsageMode.DYNAMIC and node.usage == NOT_MEASURED:
            missing["usage"].append(node.id)
        elif mode is UsageMode.DYNAMIC and node.usage.cpu is None:
            missing["usage.cpu"].append(node.id)
        elif mode is UsageMode.DYNAMIC and node.usage.memory is None:
            missing["usage.memory"].append(node.id)
    return lacking("node", missing)


def lacking(what: str, missing: Mapping[str, Sequence[str]]) -> list[str]:
    """Return a line for each field, with the first names of those without it.

    Args:
        what: What they are: node or guest.
        missing: The names of those without a field, by the field.
    """
    return [
        f"{what}{'' if len(names) == 1 else 's'} {first_few(names)} "
        f"{'has' if len(names) == 1 else 'have'} no {_in_words(field)} "
        f"({what}s.{names[0]}.{field}{_PARTS.get(field, '')})"
        for field, names in missing.items()
        if names
    ]


def _in_words(field: str) -> str:
    return " ".join(reversed(field.split("."))).replace("_", " ")


def demand(guest: Guest, mode: UsageMode) -> Resources | None:
    """Return what *guest* takes along when it moves, or None if not known."""
    return guest.limit if mode is UsageMode.STATIC else guest.usage.known


def _measured(snapshot: Snapshot) -> dict[NodeId, NodeLoad]:
    return {
        name: NodeLoad(node.capacity, used)
        for name, node in snapshot.nodes.items()
        if node.capacity is not None and (used := node.usage.known) is not None
    }


def _promised(snapshot: Snapshot) -> dict[NodeId, NodeLoad]:
    loads = {
        name: NodeLoad(node.capacity, NOTHING)
        for name, node in snapshot.nodes.items()
        if node.capacity is not None
    }
    for _, guest in sorted(snapshot.guests.items()):
        for where in guest.locations:
            if where in loads and guest.limit is not None:
                loads[where] = loads[where].with_started(guest.limit)
    return loads
