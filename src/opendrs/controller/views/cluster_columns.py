"""The cluster of a recorded cycle as columns: one list per attribute.

The columns are made from the plain values of the record. Building the snapshot of
20,000 guests from them would take most of the time of a request.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from opendrs.controller.views.node_limits import (
    exceeds_limits,
    node_load,
    suffering_guests,
)
from opendrs.errors import StoreError
from opendrs.metrics import imbalance
from opendrs.model import GuestState, NodeState, time_as_text
from opendrs.ports import CycleRecord

Document = dict[str, Any]
Plain = Mapping[str, Any]
Columns = dict[str, list[Any]]

NOT_CHOSEN = "not-chosen"  # code of a guest that was considered and is in no step
SOURCE, TARGET, BOTH, NEUTRAL = "source", "target", "both", "neutral"
_DOMAIN_LABELS = ("rack", "zone")  # beginnings of labels that name a failure domain
_DIGITS = 3  # of cores


@dataclass(frozen=True, slots=True)
class ClusterSummary:
    """Figures of one cycle; None if unknown.

    Attributes:
        imbalance: Normalized coefficient of variation of the load of the online nodes
            with known load, in [0, 1]; see `opendrs.metrics.imbalance`.
        worst_node: The online node with the highest load, by CPU or memory.
        worst_load: That load, as a fraction of the capacity.
        suffering_guests: Number of running guests that get too few resources.
        violated_rules: Number of violated strict rules.
    """

    imbalance: float | None
    worst_node: str | None
    worst_load: float | None
    suffering_guests: int
    violated_rules: int


def cluster_document(
    cycle: CycleRecord,
    steps: Iterable[Plain] = (),
    drained: Collection[str] = (),
) -> Document:
    """Return the cluster that *cycle* evaluated, as columns.

    Unknown values are None. CPU is in cores, memory in bytes. The node of a guest is an
    index into the columns of the nodes. `stays` is the code why a guest is in no step
    of the decision; None for a guest in a step.

    Args:
        cycle: The record of the cycle with its inputs.
        steps: Steps that give the nodes their roles, as plain values.
        drained: Nodes that operators drain.

    Raises:
        StoreError: The record is damaged.
    """
    with reading_record(cycle):
        document: Plain = cycle.document
        snapshot, decision = document["snapshot"], document["decision"]
        names = {name: index for index, name in enumerate(snapshot["nodes"])}
        return {
            "run": cycle.run,
            "decided_at": time_as_text(cycle.decided_at),
            "taken_at": snapshot["taken_at"],
            "summary": asdict(_summary(document)),
            "nodes": _node_columns(document, node_roles(steps), set(drained)),
            "guests": _guest_columns(snapshot["guests"], names, decision),
        }


def cluster_summary(cycle: CycleRecord) -> ClusterSummary:
    """Return the figures of *cycle*.

    Raises:
        StoreError: The record is damaged.
    """
    with reading_record(cycle):
        return _summary(cycle.document)


@contextmanager
def reading_record(cycle: CycleRecord) -> Iterator[None]:
    """Convert errors while reading the plain values of *cycle* to one error.

    Raises:
        StoreError: The record is damaged.
    """
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as err:
        raise StoreError(f"store: cycle {cycle.run}: cannot be read: {err!r}") from err


def node_roles(steps: Iterable[Plain]) -> dict[str, str]:
    """Return the role of each node that guests leave or arrive on in *steps*."""
    roles: dict[str, str] = {}
    for step in steps:
        for end, role in (("source", SOURCE), ("target", TARGET)):
            node = step[end]
            if step["guest"] is not None and node is not None:
                roles[node] = role if roles.get(node, role) == role else BOTH
    return roles


def node_group(node: Plain) -> str | None:
    """Return the failure domain of *node*; None if it belongs to none.

    Without one from the platform, it is a label that begins with rack or zone, or else
    the only group of nodes that it belongs to.
    """
    if (domain := node.get("failure_domain")) is not None:
        return str(domain)
    for prefix in _DOMAIN_LABELS:
        for label in node.get("labels", ()):
            if label.startswith(prefix):
                return str(label)
    groups = node.get("groups", ())
    return str(groups[0]) if len(groups) == 1 else None


def _node_columns(
    document: Plain, roles: Mapping[str, str], drained: Collection[str]
) -> Columns:
    nodes: Mapping[str, Plain] = document["snapshot"]["nodes"]
    over = exceeds_limits(document)
    every = nodes.values()
    capacities = [node.get("capacity", {}) for node in every]
    usages = [node.get("usage", {}) for node in every]
    return {
        "id": list(nodes),
        "state": [node.get("state", NodeState.UNKNOWN.value) for node in every],
        "group": [node_group(node) for node in every],
        "cpu_capacity": [each.get("cpu") for each in capacities],
        "memory_capacity": [each.get("memory") for each in capacities],
        "cpu": [_cores(each.get("cpu")) for each in usages],
        "memory": [each.get("memory") for each in usages],
        "role": [roles.get(name, NEUTRAL) for name in nodes],
        "jobs": [node.get("jobs") for node in every],
        "drained": [name in drained for name in nodes],
        "over_limit": [name in over for name in nodes],
    }


def _guest_columns(
    guests: Mapping[str, Plain], names: Mapping[str, int], decision: Plain
) -> Columns:
    every = guests.values()
    usages = [guest.get("usage", {}) for guest in every]
    stays = stay_codes(guests, decision)
    return {
        "id": list(guests),
        "node": [names[guest["node"]] for guest in every],
        "migrating_to": [_index(names, guest.get("migrating_to")) for guest in every],
        "cpu": [_cores(each.get("cpu")) for each in usages],
        "memory": [each.get("memory") for each in usages],
        "memory_limit": [
            guest.get("limit", {}).get("memory") or None for guest in every
        ],
        "state": [guest.get("state", GuestState.UNKNOWN.value) for guest in every],
        "managed_by": [guest.get("managed_by") for guest in every],
        "stays": [stays.get(name) for name in guests],
    }


def stay_codes(guests: Iterable[str], decision: Plain) -> dict[str, str]:
    """Return the code why each of *guests* is in no step; absent if it is in one."""
    moved = {step["guest"] for step in decision["steps"]}
    codes = {name: NOT_CHOSEN for name in guests if name not in moved}
    for group in decision["skipped"]:
        codes.update(dict.fromkeys(group["guests"], group["reason"]))
    return {name: code for name, code in codes.items() if name not in moved}


def _summary(document: Plain) -> ClusterSummary:
    loads = {
        name: load
        for name, node in document["snapshot"]["nodes"].items()
        if node.get("state") == NodeState.ONLINE.value
        and (load := node_load(node)) is not None
    }
    worst = max(loads, key=lambda name: max(loads[name]), default=None)
    violated = document["decision"].get("violations", {}).get("before", ())
    return ClusterSummary(
        imbalance=imbalance([sum(each) / 2 for each in loads.values()])
        if loads
        else None,
        worst_node=worst,
        worst_load=None if worst is None else max(loads[worst]),
        suffering_guests=sum(1 for _ in suffering_guests(document)),
        violated_rules=len({each["rule"] for each in violated if each["strict"]}),
    )


def _index(names: Mapping[str, int], node: str | None) -> int | None:
    return None if node is None else names.get(node)


def _cores(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS)
