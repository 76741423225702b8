"""Snapshot as arrays, each computed when it is first read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from opendrs.arrays.move_groups import MoveGroup
from opendrs.arrays.placement_classes import PlacementClasses
from opendrs.metrics import LoadModel, NodeLoad, demand, node_loads, sum_in_order
from opendrs.model import NO_RESOURCES, GuestId, Limits, NodeId, Snapshot, resource_pair
from opendrs.rules import (
    AvailableMemory,
    CompiledRules,
    FeasibilityChecker,
    required_memory,
    usable_memory,
)

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]
# Bytes of measured and of committed memory, and millicores of committed CPU.
ResourceAmounts = tuple[float, float, float]


@dataclass(frozen=True, eq=False)
class ClusterArrays:
    """Snapshot as arrays of N nodes and G move groups.

    Resources are CPU (cores) and memory (bytes). What nodes have available has K
    columns: measured memory, committed memory and, if committed CPU is limited on some
    node, millicores of committed CPU, in this order. Nodes and groups are in the order
    of names, which resolves ties.

    Attributes:
        snapshot: Cluster.
        rules: Its compiled rules.
        limits: Limits of the operator.
        groups: Move groups; each starts on the node of its first guest.
        load_model: Load that counts. The nodes are those whose load is known; without
            a load model they are all nodes, and there are no loads.
    """

    snapshot: Snapshot
    rules: CompiledRules
    limits: Limits
    groups: tuple[MoveGroup, ...] = ()
    load_model: LoadModel | None = None

    @cached_property
    def loads(self) -> Mapping[NodeId, NodeLoad]:
        """Load of each node, in order of name."""
        if self.load_model is None:
            return {}
        return node_loads(self.snapshot, self.load_model)

    @cached_property
    def node_ids(self) -> tuple[NodeId, ...]:
        """Nodes in the order of the arrays."""
        nodes = self.snapshot.nodes
        return tuple(sorted(nodes) if self.load_model is None else self.loads)

    @cached_property
    def index(self) -> Mapping[NodeId, int]:
        """Index of each node."""
        return {name: index for index, name in enumerate(self.node_ids)}

    @cached_property
    def group_of(self) -> Mapping[GuestId, int]:
        """Index of the group of each guest."""
        return {
            guest.id: index
            for index, group in enumerate(self.groups)
            for guest in group
        }

    @cached_property
    def feasibility(self) -> FeasibilityChecker:
        """Feasible nodes of guests."""
        return FeasibilityChecker(self.snapshot, self.rules, self.limits)

    @cached_property
    def classes(self) -> PlacementClasses:
        """Nodes that suit the guests, other guests aside."""
        return PlacementClasses(self.snapshot, self.rules, self.feasibility, self.index)

    @cached_property
    def capacity(self) -> Floats:
        """Capacity of each node; shape (N, 2)."""
        return _pairs(resource_pair(load.capacity) for load in self.loads.values())

    @cached_property
    def usage(self) -> Floats:
        """Used resources of each node; shape (N, 2)."""
        return _pairs(resource_pair(load.usage) for load in self.loads.values())

    @cached_property
    def demand(self) -> Floats:
        """Resources that move with each group; unknown ones count 0; shape (G, 2)."""
        return _pairs(self._demand(group) for group in self.groups)

    @cached_property
    def node_of(self) -> Indices:
        """Node of each group; shape (G,)."""
        return np.array([self.index[group[0].node] for group in self.groups], np.intp)

    @cached_property
    def limits_cpu(self) -> bool:
        """True if the committed CPU of some node is limited: K is 3."""
        usable = map(self.limits.usable_resources, self.snapshot.nodes.values())
        return any(each and each.committed_cpu is not None for each in usable)

    @cached_property
    def available(self) -> Floats:
        """Available resources of each node; -infinity if unknown; shape (N, K)."""
        available = self.feasibility.available_memory
        rows = (available[name] for name in self.node_ids)
        return resource_columns(rows, -np.inf, limits_cpu=self.limits_cpu)

    @cached_property
    def usable(self) -> Floats:
        """The same for an empty node."""
        nodes = (self.snapshot.nodes[name] for name in self.node_ids)
        rows = (usable_memory(node, self.limits) for node in nodes)
        return resource_columns(rows, -np.inf, limits_cpu=self.limits_cpu)

    @cached_property
    def required(self) -> Floats:
        """Resources that each group requires; infinity if unknown; shape (G, K)."""
        rows = map(required_memory, self.groups)
        return resource_columns(rows, np.inf, limits_cpu=self.limits_cpu)

    @cached_property
    def anti_affine_guests(self) -> Mapping[int, frozenset[GuestId]]:
        """Guests with strict anti-affinity on each node that has any, by its index."""
        guests_on: defaultdict[int, list[GuestId]] = defaultdict(list)
        guests = self.snapshot.guests
        for name in self.rules.apart:
            for node in guests[name].occupied_nodes:
                guests_on[self.index[node]].append(name)
        return {node: frozenset(names) for node, names in guests_on.items()}

    def _demand(self, group: MoveGroup) -> tuple[float, float]:
        if self.load_model is None:
            return 0.0, 0.0
        parts = [demand(guest, self.load_model) or NO_RESOURCES for guest in group]
        return (
            sum_in_order(part.cpu for part in parts),
            float(sum(part.memory for part in parts)),
        )


def resource_amounts(
    memory: AvailableMemory, missing: float, *, limits_cpu: bool
) -> ResourceAmounts:
    """Return *memory* as numbers, with *missing* for unknown values.

    Args:
        memory: Resources that are available or required.
        missing: Number for what is unknown.
        limits_cpu: False if the committed CPU of no node is limited; it is 0 then.
    """
    cpu = memory.millicores if limits_cpu else 0.0
    return (
        missing if memory.measured is None else memory.measured,
        missing if memory.committed is None else memory.committed,
        missing if cpu is None else cpu,
    )


def resource_columns(
    amounts: Iterable[AvailableMemory], missing: float, *, limits_cpu: bool
) -> Floats:
    """Return one row of `resource_amounts` per amount; shape (n, K).

    K is 3 with *limits_cpu* and 2 without it.
    """
    count = 3 if limits_cpu else 2
    rows = [
        resource_amounts(each, missing, limits_cpu=limits_cpu)[:count]
        for each in amounts
    ]
    return np.array(rows, float).reshape(-1, count)


def _pairs(values: Iterable[tuple[float, float]]) -> Floats:
    return np.array(list(values), float).reshape(-1, 2)
