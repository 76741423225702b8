"""Load of nodes, computed from a snapshot."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from opendrs.metrics.imbalance import sum_in_order
from opendrs.model import (
    NO_RESOURCES,
    UNKNOWN_USAGE,
    FurtherLoad,
    Guest,
    Node,
    NodeId,
    Resources,
    Snapshot,
    format_list,
)

# Weights of the criteria below, from proxmox-resource-scheduling 2.0.0. Negative:
# smaller is better. Memory weighs most, because it cannot be time-shared.
CRITERIA = {
    "average cpu": -1.0,
    "highest cpu": -2.0,
    "average memory": -5.0,
    "highest memory": -10.0,
}

WEIGHTS = tuple(CRITERIA.values())

_SUBFIELDS = dict.fromkeys(("capacity", "usage", "limit"), ": cpu, memory")


@dataclass(frozen=True, slots=True)
class WeightedLoad:
    """Used part of the capacity of a node for a further load.

    Attributes:
        name: Name of the load.
        weight: Weight in the mean load of the node.
        fraction: Used part of the capacity.
    """

    name: str
    weight: float
    fraction: float


@dataclass(frozen=True, slots=True)
class NodeLoad:
    """Capacity of a node and the part of it that is used.

    Attributes:
        capacity: Total resources.
        usage: Used resources: measured use, or the limits of the guests.
        further: Further loads that count as well, with their weights.
    """

    capacity: Resources
    usage: Resources
    further: tuple[WeightedLoad, ...] = ()

    @property
    def cpu(self) -> float:
        """Return the used fraction of the cores."""
        return self.usage.cpu / self.capacity.cpu

    @property
    def memory(self) -> float:
        """Return the used fraction of the memory."""
        return self.usage.memory / self.capacity.memory

    @property
    def mean(self) -> float:
        """Return the mean of both fractions: the load in the terms of Proxmox VE.

        Further loads count with their weights; CPU and memory have 1.
        """
        if not self.further:
            return (self.cpu + self.memory) / 2
        total = sum(each.weight * each.fraction for each in self.further)
        weight = sum(each.weight for each in self.further)
        return (self.cpu + self.memory + total) / (2 + weight)

    def with_started_guest(self, limit: Resources) -> NodeLoad:
        """Return the load after the start of a guest with *limit*.

        The guest is assumed to use its limit; a guest without CPU limit, all cores.
        """
        cpu = limit.cpu if limit.cpu != 0 else self.capacity.cpu
        return self.with_guest(Resources(cpu, limit.memory))

    def with_guest(self, usage: Resources) -> NodeLoad:
        """Return the load with *usage* added."""
        return replace(self, usage=self.usage.plus(usage))

    def without_guest(self, usage: Resources) -> NodeLoad:
        """Return the load with *usage* removed."""
        return replace(self, usage=self.usage.minus(usage))


def criteria(loads: Sequence[NodeLoad]) -> tuple[float, float, float, float]:
    """Return average and highest CPU, average and highest memory of a cluster.

    The average is the root mean square, which grows with the imbalance. 1 is added to
    each value, so that small loads do not weigh too much.

    Source:
        proxmox-resource-scheduling 2.0.0.
    """
    cpu, memory = [load.cpu for load in loads], [load.memory for load in loads]
    return _average(cpu), _highest(cpu), _average(memory), _highest(memory)


def _average(loads: Sequence[float]) -> float:
    return 1.0 + math.sqrt(sum_in_order(load * load for load in loads) / len(loads))


def _highest(loads: Sequence[float]) -> float:
    return 1.0 + max(0.0, *loads)


class LoadModel(StrEnum):
    """Definition of the used resources of a node.

    DYNAMIC counts measured use, STATIC the limits of the guests.

    Source:
        Proxmox VE 9, the crs option ha: dynamic or static.
    """

    STATIC = "static"
    DYNAMIC = "dynamic"


def node_loads(
    snapshot: Snapshot, load_model: LoadModel, further: Sequence[FurtherLoad] = ()
) -> dict[NodeId, NodeLoad]:
    """Return the load of each online node whose load is known, in order of name.

    `missing_metrics` describes missing values. In the STATIC model a migrating guest
    counts on both nodes.

    Args:
        snapshot: The cluster.
        load_model: Load that counts.
        further: Further loads that count in the mean of a node, where they are known;
            they are measured ones in both models.
    """
    loads = (
        _static_loads(snapshot)
        if load_model is LoadModel.STATIC
        else _dynamic_loads(snapshot)
    )
    known = {
        name: loads[name]
        for name, node in sorted(snapshot.nodes.items())
        if has_known_load(node, load_model)
    }
    if not further:
        return known
    return {
        name: replace(load, further=tuple(_weighted(snapshot.nodes[name], further)))
        for name, load in known.items()
    }


def _weighted(node: Node, further: Sequence[FurtherLoad]) -> Iterator[WeightedLoad]:
    for each in further:
        fraction = each.used_fraction(node)
        if fraction is not None:
            yield WeightedLoad(each.name, each.weight, fraction)


def has_known_load(node: Node, load_model: LoadModel) -> bool:
    """Return True if *node* is online and its load is known."""
    return (
        node.online
        and node.capacity is not None
        and (load_model is LoadModel.STATIC or node.usage.resources is not None)
    )


def unmeasured_nodes(snapshot: Snapshot, load_model: LoadModel) -> tuple[NodeId, ...]:
    """Return the nodes whose load is unknown, sorted.

    They are the nodes in `missing_metrics`: online ones without capacity or, in the
    DYNAMIC model, without usage. In the STATIC model they are also the nodes of guests
    without a limit.
    """
    nodes = {
        name
        for name, node in snapshot.nodes.items()
        if node.online and not has_known_load(node, load_model)
    }
    if load_model is LoadModel.STATIC:
        for guest in snapshot.guests.values():
            if guest.limit is None:
                nodes.update(guest.occupied_nodes)
    return tuple(sorted(nodes))


def missing_metrics(snapshot: Snapshot, load_model: LoadModel) -> str:
    """Return the missing metrics with their fields; empty if none is missing.

    Required are the capacity of online nodes and, in the DYNAMIC model, their usage; in
    the STATIC model, the limit of each guest.
    """
    nodes = (node for _, node in sorted(snapshot.nodes.items()) if node.online)
    lines = nodes_missing_metrics(nodes, load_model)
    if load_model is LoadModel.STATIC:
        guests = sorted(
            guest.id
            for guest in snapshot.guests.values()
            if guest.occupied_nodes and guest.limit is None
        )
        lines += format_missing("guest", {"limit": guests})
    return "; ".join(lines)


def nodes_missing_metrics(nodes: Iterable[Node], load_model: LoadModel) -> list[str]:
    """Return which of *nodes* have no capacity or, in the DYNAMIC model, no usage."""
    missing: defaultdict[str, list[str]] = defaultdict(list)
    for node in nodes:
        if node.capacity is None:
            missing["capacity"].append(node.id)
        if load_model is LoadModel.DYNAMIC and node.usage == UNKNOWN_USAGE:
            missing["usage"].append(node.id)
        elif load_model is LoadModel.DYNAMIC and node.usage.cpu is None:
            missing["usage.cpu"].append(node.id)
        elif load_model is LoadModel.DYNAMIC and node.usage.memory is None:
            missing["usage.memory"].append(node.id)
    return format_missing("node", missing)


def format_missing(noun: str, missing: Mapping[str, Sequence[str]]) -> list[str]:
    """Return a line for each field, with the first names of those without it.

    Args:
        noun: Noun for the objects: node or guest.
        missing: Names of the objects without a field, by field.
    """
    return [
        f"{noun}{'' if len(names) == 1 else 's'} {format_list(names)} "
        f"{'has' if len(names) == 1 else 'have'} no {_field_name(field)} "
        f"({noun}s.{names[0]}.{field}{_SUBFIELDS.get(field, '')})"
        for field, names in missing.items()
        if names
    ]


def _field_name(field: str) -> str:
    return " ".join(reversed(field.split("."))).replace("_", " ")


def demand(guest: Guest, load_model: LoadModel) -> Resources | None:
    """Return the resources that move with *guest*, or None if unknown."""
    return guest.limit if load_model is LoadModel.STATIC else guest.usage.resources


def _dynamic_loads(snapshot: Snapshot) -> dict[NodeId, NodeLoad]:
    return {
        name: NodeLoad(node.capacity, usage)
        for name, node in snapshot.nodes.items()
        if node.capacity is not None and (usage := node.usage.resources) is not None
    }


def _static_loads(snapshot: Snapshot) -> dict[NodeId, NodeLoad]:
    loads = {
        name: NodeLoad(node.capacity, NO_RESOURCES)
        for name, node in snapshot.nodes.items()
        if node.capacity is not None
    }
    for _, guest in sorted(snapshot.guests.items()):
        for node_id in guest.occupied_nodes:
            if node_id in loads and guest.limit is not None:
                loads[node_id] = loads[node_id].with_started_guest(guest.limit)
    return loads
