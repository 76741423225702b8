"""Encoding of a snapshot as arrays for the optimizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from opendrs.arrays import ClusterArrays
from opendrs.metrics import LoadModel, demand
from opendrs.model import GIB, NO_RESOURCES, Guest, Limits, NodeId, Snapshot
from opendrs.optimizer import Floats, Indices, Mask
from opendrs.policies.optimize.movable_groups import EncodedGroup
from opendrs.policies.optimize.movable_guests import (
    MovableGuests,
    sum_rows,
    with_repeated,
)
from opendrs.rules import (
    MILLICORES,
    AvailableMemory,
    CompiledRules,
    drained_nodes,
)

# The R resources: cores; bytes of used memory and of committed memory; millicores of
# committed CPU, if a node limits it; bytes of the storages that local disks are copied
# to; steps of further loads; and once more the memory that is balanced, if nodes may
# give different parts of it. Balance is relative to all memory of a node.
CPU, USED, COMMITTED = range(3)


# cores may be used this much above the mean utilization, if that is more
CPU_OVERCOMMIT = 1.25
# capacity of nodes that are not compared, by a further load or since they are drained,
# relative to the others, so that no guest changes their load
UNCOMPARED = 1e9


class EncodedCluster:
    """Cluster as arrays; each move group that may migrate is a group of the problem.

    A group that runs on several nodes starts at its home.

    Attributes:
        arrays: Nodes with metrics and the move groups as arrays.
        snapshot: Cluster.
        rules: Compiled rules.
        limits: Limits of the operator.
        groups: Move groups that may migrate.
        node_ids: Nodes with metrics, in the order of the rows.
        feasibility: Feasible nodes of guests.
        group_of: Group of each guest that may migrate.
        fill: Fraction of its memory to which each node may be filled.

    Args:
        snapshot: Cluster; no group may be at home on a node without metrics.
        rules: Compiled rules.
        groups: Move groups that may migrate.
        limits: Limits of the operator.
        load_model: Load that counts.
        fill: Fraction of its memory to which each node may be filled, as a reserve for
            the guests of failed nodes.
        balanced: Balanced load of the decision; None for that of *groups*.
    """

    def __init__(  # noqa: PLR0913 - the cluster, the move groups and their bounds
        self,
        snapshot: Snapshot,
        rules: CompiledRules,
        groups: Sequence[EncodedGroup],
        limits: Limits,
        load_model: LoadModel,
        *,
        fill: float = 1.0,
        balanced: Floats | None = None,
    ) -> None:
        self.groups = tuple(groups)
        self.arrays = ClusterArrays(
            snapshot,
            rules,
            limits,
            groups=tuple(group.guests for group in groups),
            load_model=load_model,
        )
        self.snapshot = snapshot
        self.rules = rules
        self.limits = limits
        self.node_ids = self.arrays.node_ids
        self.feasibility = self.arrays.feasibility
        self.group_of = self.arrays.group_of
        self._load_model = load_model
        self.fill = fill
        self._balanced = balanced

    def with_groups(self, groups: Sequence[EncodedGroup]) -> EncodedCluster:
        """Return the same cluster with other *groups*."""
        if groups is self.groups:
            return self
        return self._other(self.snapshot, groups)

    def in_snapshot(self, snapshot: Snapshot) -> EncodedCluster:
        """Return the cluster as in *snapshot*, without groups."""
        return self._other(snapshot, ())

    def _other(
        self, snapshot: Snapshot, groups: Sequence[EncodedGroup]
    ) -> EncodedCluster:
        """Return the cluster with other contents, and the same balanced load."""
        return EncodedCluster(
            snapshot,
            self.rules,
            groups,
            self.limits,
            self._load_model,
            fill=self.fill,
            balanced=self.balanced_load,
        )

    @cached_property
    def origin(self) -> Indices:
        """Home of each group; shape (G,)."""
        index = self.arrays.index
        return np.array([index[each.home] for each in self.groups], np.int64)

    @cached_property
    def all_nodes(self) -> ClusterArrays:
        """Cluster for sequencing: also nodes whose load is unknown."""
        return ClusterArrays(self.snapshot, self.rules, self.limits)

    @cached_property
    def common_node(self) -> Indices:
        """Node of all guests of each group; -1 if they are on several; shape (G,)."""
        index = self.arrays.index
        nodes = ([guest.node for guest in each.guests] for each in self.groups)
        return np.array(
            [
                index.get(first, -1) if all(each == first for each in others) else -1
                for first, *others in nodes
            ],
            np.int64,
        )

    @cached_property
    def movable(self) -> MovableGuests:
        """Guests of the groups as arrays."""
        return MovableGuests(
            self.groups,
            self.arrays,
            self._load_model,
            repeated=self._repeated,
        )

    @cached_property
    def _repeated(self) -> int | None:
        """Resource that is balanced, if nodes may give different parts of it."""
        usable = self._usable[:, self.memory_resource - 1]
        parts = usable / self.arrays.capacity[:, 1]
        alike = np.allclose(parts, parts.max(initial=0.0), rtol=1e-9, atol=0.0)
        return None if alike else self.memory_resource

    @cached_property
    def _usable(self) -> Floats:
        """Amounts that each node may give, without CPU; shape (N, K)."""
        usable = self.arrays.usable
        return np.where(np.isfinite(usable), usable, 0.0)

    @cached_property
    def limited_resources(self) -> Mask:
        """True for resources of which a node gives no more than its capacity; (R,)."""
        limited = np.ones(self.capacity.shape[1], np.bool_)
        limited[CPU] = False
        if self._repeated is not None:
            limited[self._repeated] = False
        return limited

    @cached_property
    def total_capacity(self) -> Floats:
        """All of each resource of each node; shape (N, R)."""
        capacity = self.arrays.capacity
        columns = [capacity, capacity[:, 1]]
        if self.arrays.limits_cpu:
            columns.append(capacity[:, 0] * MILLICORES)
        columns.extend(np.maximum(self.arrays.space.usable(self.node_ids), 1.0).T)
        columns.extend(self.arrays.further.usable(self.node_ids).T)
        return with_repeated(np.column_stack(columns), self._repeated)

    @cached_property
    def capacity(self) -> Floats:
        """Most that each node that receives a group holds; shape (N, R)."""
        total = self.total_capacity
        busy = self._known_load[:, CPU].sum() / total[:, CPU].sum()
        cpu = total[:, CPU] * max(1.0, CPU_OVERCOMMIT * busy)
        limit = np.column_stack((cpu, self._usable))
        limit[:, USED] = np.minimum(limit[:, USED], total[:, USED] * self.fill)
        limit = with_repeated(limit, self._repeated)
        if self._repeated is not None:
            most = (limit[:, -1] / total[:, -1]).max()
            limit[:, self._repeated] = total[:, self._repeated] * most
        if self._uncompared is not None:
            unlimited = UNCOMPARED * limit.max(axis=0)
            limit = np.where(self._uncompared, unlimited, limit)
        # At least one unit, since loads are relative to the capacity.
        result: Floats = np.where(limit <= 0, 1.0, limit)
        return result

    @cached_property
    def load_resources(self) -> Mapping[str, int]:
        """Resource of each further load."""
        loads = self.arrays.further.loads
        first = 1 + self._usable.shape[1] - len(loads)
        return {each.name: first + index for index, each in enumerate(loads)}

    @cached_property
    def _uncompared(self) -> Mask | None:
        """True for nodes that are not compared by a resource; (N, R).

        They have no known capacity or load of it. None if there is no further load.
        """
        if not self.load_resources:
            return None
        uncompared = np.zeros(self.total_capacity.shape, np.bool_)
        columns = list(self.load_resources.values())
        uncompared[:, columns] = ~self.arrays.further.compared(self.node_ids)
        return uncompared

    @cached_property
    def mean_capacity(self) -> Floats:
        """Mean capacity of the nodes that are compared by each resource; (R,)."""
        if self._uncompared is None:
            mean: Floats = self.capacity.mean(axis=0)
            return mean
        compared = ~self._uncompared
        return safe_divide(
            (self.capacity * compared).sum(axis=0), compared.sum(axis=0).astype(float)
        )

    @cached_property
    def _known_load(self) -> Floats:
        """Load of each node as measured, with each group at home; shape (N, R)."""
        return self._known_base_load + sum_rows(
            self.origin, self.movable.demand, len(self.node_ids)
        )

    @cached_property
    def load(self) -> Floats:
        """Load of each node with each group at home; shape (N, R)."""
        if self._uncompared is None:
            return self._known_load
        return self.base_load + sum_rows(
            self.origin, self.movable.demand, len(self.node_ids)
        )

    @cached_property
    def base_load(self) -> Floats:
        """Load of each node without the groups; shape (N, R).

        A node that is not compared by a further load has the balanced one, so that it
        has no part in the imbalance. What guests from there bring to other nodes does
        not change the balanced load.
        """
        if self._uncompared is None:
            return self._known_base_load
        balanced = self.balanced_load * self.capacity
        return np.where(self._uncompared, balanced, self._known_base_load)

    @cached_property
    def _known_base_load(self) -> Floats:
        """The same as measured; 0 for resources by which a node is not compared."""
        available = self.arrays.available
        free = np.where(np.isfinite(available), available, 0.0)
        base = np.column_stack((self.arrays.usage[:, CPU], self.arrays.usable - free))
        base = with_repeated(base, self._repeated)
        left: Floats = base - self._present_load
        return left

    @cached_property
    def _present_load(self) -> Floats:
        """Demand of the groups on each node before the plan; (N, R)."""
        return self._group_load(self.snapshot)

    def load_in(self, snapshot: Snapshot) -> Floats:
        """Return the load of each node with the groups as in *snapshot*; (N, R)."""
        return self.base_load + self._group_load(snapshot)

    def _group_load(self, snapshot: Snapshot) -> Floats:
        """Return the demand of the groups on each node in *snapshot*; (N, R)."""
        movable = self.movable
        now = (snapshot.guests[guest.id].node for guest in movable.guests)
        where = np.array([self.arrays.index[node] for node in now], np.int64)
        return sum_rows(where, movable.guest_demand, len(self.node_ids))

    @cached_property
    def balanced_load(self) -> Floats:
        """Balanced load, as a fraction of the capacity; shape (R,).

        It is that of the present placement, as in `BalanceMeasure`, also if a group
        does not run at its home. Nodes that are drained have no capacity for it. Of
        their load, that of the groups counts, which leave them.
        """
        if self._balanced is not None:
            return self._balanced
        kept = ~self.is_drained
        base = np.where(kept[:, None], self._known_base_load, 0.0)
        load, capacity = base + self._present_load, self.capacity
        if self._uncompared is not None:
            load = np.where(self._uncompared, 0.0, load)
            capacity = np.where(self._uncompared, 0.0, capacity)
        return safe_divide(load.sum(axis=0), capacity[kept].sum(axis=0))

    @cached_property
    def is_drained(self) -> Mask:
        """True for nodes that are drained; shape (N,)."""
        drained = drained_nodes(self.snapshot)
        return np.array([name in drained for name in self.node_ids], np.bool_)

    @property
    def memory_resource(self) -> int:
        """Resource that counts for the balance of memory."""
        return COMMITTED if self._load_model is LoadModel.STATIC else USED

    @cached_property
    def mean_memory(self) -> float:
        """Mean memory in use on a node, in GiB."""
        return max(float(self.load[:, USED].mean()) / GIB, 1e-9)

    def available_memory(self, name: NodeId) -> AvailableMemory:
        """Return the memory available on the node *name*."""
        return self.feasibility.available_memory[name]

    def demand_of(self, guests: Sequence[Guest]) -> tuple[float, ...]:
        """Return the demand of *guests*; unknown demand counts 0; R amounts."""
        cpu = sum(
            (demand(guest, self._load_model) or NO_RESOURCES).cpu for guest in guests
        )
        (row,) = self.arrays.required_by([tuple(guests)])
        amounts = (cpu, *np.where(np.isfinite(row), row, 0.0).tolist())
        return (
            amounts if self._repeated is None else (*amounts, amounts[self._repeated])
        )


def safe_divide(dividend: Floats, divisor: Floats) -> Floats:
    """Return the quotient, 0 where the divisor is 0."""
    result: Floats = np.zeros_like(divisor)
    np.divide(dividend, divisor, out=result, where=divisor > 0)
    return result
