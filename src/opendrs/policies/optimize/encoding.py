"""Encode a snapshot as arrays for the optimizer, and decode to names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from opendrs.metrics import LoadModel, demand, node_loads
from opendrs.model import GIB, NO_RESOURCES, Guest, Limits, Mobility, NodeId, Snapshot
from opendrs.optimizer import Floats, Indices, Mask
from opendrs.planning import ASSUMED_BANDWIDTH
from opendrs.policies.optimize.movable_groups import EncodedGroup
from opendrs.rules import (
    AvailableMemory,
    CompiledRules,
    FeasibilityChecker,
    required_memory,
)

RESOURCES = 3
CPU, USED, COMMITTED = range(RESOURCES)  # cores, and bytes used and promised
TRANSFER_OVERHEAD = 0.25  # GiB that a move is taken to cost besides its memory

COLD_COST_FACTOR = (
    4.0  # how much dearer it is to move a guest that must be stopped for that
)

MAX_DIRTY_RATIO = (
    0.9  # part of the bandwidth from which copying is taken not to get dearer
)


class MovableGuests:
    """The guests that may be moved: H of them in G units.

    Attributes:
        guests: They, unit by unit.
        group_of_guest: The unit of each; shape (H,).

    Args:
        groups: The units.
        load_model: What counts as load.
        limits: What the operator allows.
    """

    def __init__(
        self, groups: Sequence[EncodedGroup], load_model: LoadModel, limits: Limits
    ) -> None:
        self.guests = tuple(guest for group in groups for guest in group.guests)
        sizes = [len(group.guests) for group in groups]
        self.group_of_guest: Indices = np.repeat(np.arange(len(sizes)), sizes)
        self._group_count = len(groups)
        displaced = [
            guest.node != each.home for each in groups for guest in each.guests
        ]
        self._is_displaced = np.array(displaced, np.bool_)
        self._load_model = load_model
        self._limits = limits

    @cached_property
    def guest_demand(self) -> Floats:
        """What each guest takes; what is not known counts 0; shape (H, R)."""
        cpu = [
            (demand(guest, self._load_model) or NO_RESOURCES).cpu
            for guest in self.guests
        ]
        rows = [
            (c, *known_memory(required))
            for c, required in zip(cpu, self._required, strict=True)
        ]
        return np.array(rows, float).reshape(-1, RESOURCES)

    @cached_property
    def is_known(self) -> Mask:
        """Whether it is known what memory each unit takes; shape (G,)."""
        missing = [None in (each.measured, each.committed) for each in self._required]
        is_known: Mask = self._sum_by_group(np.array(missing, np.bool_)) == 0
        return is_known

    @cached_property
    def _required(self) -> tuple[AvailableMemory, ...]:
        """What each guest asks of a node."""
        return tuple(required_memory((guest,)) for guest in self.guests)

    @cached_property
    def demand(self) -> Floats:
        """What each unit takes of each resource; shape (G, R)."""
        return sum_rows(self.group_of_guest, self.guest_demand, self._group_count)

    @cached_property
    def transfer(self) -> Floats:
        """The memory that leaving home transfers more than staying, in GiB; (G,)."""
        return self._sum_by_group(self._memory * ~self._is_displaced)

    @cached_property
    def gather_transfer(self) -> Floats:
        """The memory that bringing each unit home transfers, in GiB; shape (G,)."""
        return self._sum_by_group(self._memory * self._is_displaced)

    @cached_property
    def displaced_count(self) -> int:
        """How many guests are not at home."""
        return int(self._is_displaced.sum())

    @cached_property
    def guest_count(self) -> Floats:
        """How many guests move more when a unit leaves its home; shape (G,)."""
        return self._sum_by_group(~self._is_displaced)

    @cached_property
    def migration_cost(self) -> Floats:
        """What leaving home costs more than staying, in GiB or what is as bad; (G,).

        Pages that are written while they are copied are copied again, so that memory V
        takes about V / (1 - D/B) at a dirty rate D and a bandwidth B. What has to be
        stopped is dearer.

        Source:
            Clark et al., Live migration of virtual machines (NSDI 2005).
        """
        bandwidth = self._limits.bandwidth or ASSUMED_BANDWIDTH
        dirty = np.array([guest.dirty_rate or 0.0 for guest in self.guests]) / bandwidth
        live = np.array(
            [guest.effective_mobility is Mobility.LIVE for guest in self.guests],
            np.bool_,
        )
        copied = (
            self._memory / (1 - np.minimum(dirty, MAX_DIRTY_RATIO)) + TRANSFER_OVERHEAD
        )
        stopped = COLD_COST_FACTOR * (self._memory + TRANSFER_OVERHEAD)
        return self._sum_by_group(np.where(live, copied, stopped) * ~self._is_displaced)

    @cached_property
    def _memory(self) -> Floats:
        """The memory of each guest, in GiB; shape (H,)."""
        return np.array([guest.usage.memory or 0 for guest in self.guests]) / GIB

    def _sum_by_group(self, each: Floats | Mask) -> Floats:
        """Return the sum over the guests of each unit; shape (G,)."""
        return np.bincount(self.group_of_guest, each, self._group_count).astype(
            np.float64
        )


def known_memory(memory: AvailableMemory) -> tuple[float, float]:
    """Return the memory used and promised of *memory*; what is not known counts 0."""
    return memory.measured or 0.0, memory.committed or 0.0


def sum_rows(where: Indices, rows: Floats, count: int) -> Floats:
    """Return the sum of the rows of each of *count* places; shape (count, R)."""
    columns = [np.bincount(where, each, count) for each in rows.T]
    return np.column_stack(columns).astype(np.float64)


CPU_OVERCOMMIT = 1.25  # processors may be promised this often where all are busy


class EncodedCluster:
    """A cluster as a search sees it: each party that may travel is a unit.

    Where a party is not together yet, the search begins with it at home.

    Attributes:
        snapshot: The cluster.
        rules: Its rules.
        groups: Who may be moved.
        loads: What each node that is known has and holds.
        node_ids: Those nodes, in the order of the columns.
        feasibility: Where guests may go.
        group_of: The unit of each guest that may be moved.

    Args:
        snapshot: The cluster; every online node must be measured.
        rules: Its rules.
        groups: Who may be moved.
        limits: What the operator allows.
        load_model: What counts as load.
        fill: The part of its memory to which each node may be filled, so that others
            can take in what runs there.
    """

    def __init__(  # noqa: PLR0913 - the cluster, who moves, and what bounds them
        self,
        snapshot: Snapshot,
        rules: CompiledRules,
        groups: Sequence[EncodedGroup],
        limits: Limits,
        load_model: LoadModel,
        *,
        fill: float = 1.0,
    ) -> None:
        self.snapshot = snapshot
        self.rules = rules
        self.groups = tuple(groups)
        self._limits = limits
        self._load_model = load_model
        self._fill = fill
        self.loads = node_loads(snapshot, load_model)
        self.node_ids: tuple[NodeId, ...] = tuple(self.loads)
        self._index = {name: index for index, name in enumerate(self.node_ids)}
        self.group_of = {
            guest.id: index
            for index, group in enumerate(self.groups)
            for guest in group.guests
        }
        self.feasibility = FeasibilityChecker(snapshot, rules, limits)

    def with_groups(self, groups: Sequence[EncodedGroup]) -> EncodedCluster:
        """Return the same cluster, of which these *groups* may be moved."""
        return EncodedCluster(
            self.snapshot,
            self.rules,
            groups,
            self._limits,
            self._load_model,
            fill=self._fill,
        )

    @cached_property
    def origin(self) -> Indices:
        """The home of each unit; shape (G,)."""
        return np.array([self._index[each.home] for each in self.groups], np.int64)

    @cached_property
    def movable(self) -> MovableGuests:
        """The guests of the units, as columns."""
        return MovableGuests(self.groups, self._load_model, self._limits)

    @cached_property
    def total_capacity(self) -> Floats:
        """What each node has: cores, memory and memory; shape (N, R)."""
        return np.array(
            [
                (load.capacity.cpu, load.capacity.memory, load.capacity.memory)
                for load in self.loads.values()
            ],
            float,
        )

    @cached_property
    def capacity(self) -> Floats:
        """What each node holds at most once units arrive; shape (N, R)."""
        busy = self.load[:, CPU].sum() / self.total_capacity[:, CPU].sum()
        limit_ratio = np.array(
            [
                max(1.0, CPU_OVERCOMMIT * busy),
                min(1 - self._limits.memory_headroom, self._fill),
                self._limits.memory_overcommit,
            ]
        )
        # A byte where the limits allow none: who has nothing has no part of it taken.
        limit: Floats = np.maximum(
            self.total_capacity * limit_ratio, 1.0 * (limit_ratio == 0)
        )
        return limit

    @cached_property
    def load(self) -> Floats:
        """What is taken of each node with each unit at home; shape (N, R)."""
        return self.base_load + sum_rows(
            self.origin, self.movable.demand, len(self.node_ids)
        )

    @cached_property
    def base_load(self) -> Floats:
        """What is taken of each node by all but the units; shape (N, R)."""
        free = np.array(
            [known_memory(self.available_memory(name)) for name in self.node_ids], float
        )
        limit_ratio = np.array([1 - self._limits.memory_headroom, 1.0])
        limit_ratio[1] = self._limits.memory_overcommit
        base = np.column_stack(
            (
                [load.usage.cpu for load in self.loads.values()],
                self.total_capacity[:, 1:] * limit_ratio - free.reshape(-1, 2),
            )
        )
        left: Floats = base - self._group_load(self.snapshot)
        return left

    def load_in(self, snapshot: Snapshot) -> Floats:
        """Return what is taken of each node with each unit as in *snapshot*; (N, R)."""
        return self.base_load + self._group_load(snapshot)

    def _group_load(self, snapshot: Snapshot) -> Floats:
        """Return what units take of each node in *snapshot*; shape (N, R)."""
        movable = self.movable
        now = (snapshot.guests[guest.id].node for guest in movable.guests)
        where = np.array([self._index[node] for node in now], np.int64)
        return sum_rows(where, movable.guest_demand, len(self.node_ids))

    @cached_property
    def balanced_load(self) -> Floats:
        """The part of its capacity that each node has taken evenly; shape (R,)."""
        return safe_divide(self.load.sum(axis=0), self.capacity.sum(axis=0))

    @property
    def memory_resource(self) -> int:
        """The resource whose evenness is looked at besides that of processors."""
        return COMMITTED if self._load_model is LoadModel.STATIC else USED

    @cached_property
    def mean_memory(self) -> float:
        """The memory in use on a node, on average, in GiB."""
        return max(float(self.load[:, USED].mean()) / GIB, 1e-9)

    def memory_by_node(self) -> Iterator[tuple[float, float]]:
        """Yield the memory of each node, and what of it is in use, in bytes."""
        yield from zip(
            self.total_capacity[:, USED].tolist(),
            self.load[:, USED].tolist(),
            strict=True,
        )

    def available_memory(self, name: NodeId) -> AvailableMemory:
        """Return the memory that the node called *name* can still take in."""
        return self.feasibility.available_memory[name]

    def demand_of(self, guests: Sequence[Guest]) -> tuple[float, float, float]:
        """Return what *guests* take; what is not known counts 0, and stays."""
        cpu = sum(
            (demand(guest, self._load_model) or NO_RESOURCES).cpu for guest in guests
        )
        return cpu, *known_memory(required_memory(guests))


def safe_divide(dividend: Floats, divisor: Floats) -> Floats:
    """Return the quotient, and 0 where nothing is divided by."""
    result: Floats = np.zeros(RESOURCES)
    np.divide(dividend, divisor, out=result, where=divisor > 0)
    return result
