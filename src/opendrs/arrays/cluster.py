"""Snapshot as arrays, each computed when it is first read."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from opendrs.arrays.domain_occupancy import Domain, free_places
from opendrs.arrays.load_columns import LoadColumns
from opendrs.arrays.move_groups import MoveGroup
from opendrs.arrays.placement_classes import PlacementClasses
from opendrs.arrays.storage_columns import StorageColumns
from opendrs.metrics import LoadModel, NodeLoad, demand, node_loads, sum_in_order
from opendrs.model import (
    NO_RESOURCES,
    Guest,
    GuestId,
    Limits,
    NodeId,
    Snapshot,
    resource_pair,
)
from opendrs.rules import (
    AvailableMemory,
    CompiledRules,
    FeasibilityChecker,
    guest_priorities,
    required_memory,
    usable_memory,
)

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]
# Bytes of measured and of committed memory, millicores of committed CPU, bytes on each
# storage of `StorageColumns`, and steps of each load of `LoadColumns`.
ResourceAmounts = tuple[float, ...]


@dataclass(frozen=True, eq=False)
class ClusterArrays:
    """Snapshot as arrays of N nodes and G move groups.

    Resources are CPU (cores) and memory (bytes). What nodes have available has K
    columns: measured memory, committed memory, millicores of committed CPU if it is
    limited on some node, the space of storages that local disks are copied to, and
    further loads, in this order. Nodes and groups are in the order of names, which
    resolves ties.

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
    def priorities(self) -> Mapping[GuestId, float]:
        """Priority of each guest that a rule gives one."""
        return guest_priorities(self.snapshot)

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
        amounts = resource_columns(rows, -np.inf, limits_cpu=self.limits_cpu)
        further = self.further.available(self.node_ids)
        return np.hstack((amounts, self.space.available(self.node_ids), further))

    @cached_property
    def usable(self) -> Floats:
        """The same for an empty node."""
        nodes = (self.snapshot.nodes[name] for name in self.node_ids)
        rows = (usable_memory(node, self.limits) for node in nodes)
        amounts = resource_columns(rows, -np.inf, limits_cpu=self.limits_cpu)
        further = self.further.usable(self.node_ids)
        return np.hstack((amounts, self.space.usable(self.node_ids), further))

    @cached_property
    def required(self) -> Floats:
        """Resources that each group requires; infinity if unknown; shape (G, K)."""
        return self.required_by(self.groups)

    @cached_property
    def space(self) -> StorageColumns:
        """Space of storages that local disks are copied to."""
        return StorageColumns(self.snapshot, self.limits)

    @cached_property
    def further(self) -> LoadColumns:
        """Further loads that are balanced or limited."""
        return LoadColumns(self.snapshot, self.limits)

    def required_by(self, groups: Sequence[MoveGroup]) -> Floats:
        """Return the resources that each of *groups* requires; shape (n, K)."""
        rows = map(required_memory, groups)
        amounts = resource_columns(rows, np.inf, limits_cpu=self.limits_cpu)
        further = self.further.required(groups)
        return np.hstack((amounts, self.space.required(groups), further))

    def amounts_of(self, guest: Guest) -> tuple[ResourceAmounts, ResourceAmounts]:
        """Return what *guest* requires on another node, and frees on its own.

        Both have K columns, or 3 and the further ones if no node limits committed CPU.
        """
        needed = resource_amounts(
            required_memory([guest]), math.inf, limits_cpu=self.limits_cpu
        )
        further = self.further.required_by([guest])
        if not guest.disks:
            amounts = (*needed, *(0.0 for _ in self.space.names), *further)
            return amounts, amounts
        return (
            (*needed, *self.space.required_by([guest]), *further),
            (*needed, *self.space.released(guest), *further),
        )

    @cached_property
    def anti_affine_guests(self) -> Mapping[int, frozenset[GuestId]]:
        """Guests with strict anti-affinity on each node that has any, by its index."""
        guests_on: defaultdict[int, list[GuestId]] = defaultdict(list)
        guests = self.snapshot.guests
        for name in self.rules.apart:
            for node in guests[name].occupied_nodes:
                guests_on[self.index[node]].append(name)
        return {node: frozenset(names) for node, names in guests_on.items()}

    @cached_property
    def free_places(self) -> Mapping[Domain, int]:
        """Places that each domain of a strict limit has left; may be negative."""
        return free_places(self.snapshot, self.rules)

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
) -> tuple[float, float, float]:
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
