"""Assignment of move groups to nodes, with the arrays kept up to date."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from opendrs.arrays.cluster import ClusterArrays
from opendrs.arrays.evaluation import BestMove, exact_imbalances
from opendrs.arrays.move_groups import (
    MobilityFilter,
    MoveGroup,
    MoveGroups,
    compile_move_groups,
    migrations_of,
)
from opendrs.metrics import ImbalanceMetric, NodeLoad, demand, node_loads, sum_in_order
from opendrs.model import NO_RESOURCES, GuestId, Limits, NodeId, Snapshot
from opendrs.rules import (
    NO_GUESTS,
    AvailableMemory,
    CompiledRules,
    FeasibilityChecker,
    compile_rules,
    required_memory,
    usable_memory,
)

NodeMask = npt.NDArray[np.bool_]
NO_NODES = 0  # class of the groups without an allowed node


class AssignmentState:
    """Cluster compiled for the selection of moves, which are applied one by one.

    Each move group moves at most once.
    """

    def __init__(
        self, snapshot: Snapshot, limits: Limits, mobility_filter: MobilityFilter
    ) -> None:
        self.snapshot = snapshot
        self.rules: CompiledRules = compile_rules(snapshot)
        self.move_groups: MoveGroups = compile_move_groups(
            snapshot, self.rules, limits, mobility_filter
        )
        self.loads = node_loads(snapshot, mobility_filter.load_model)
        self._limits = limits
        self._load_model = mobility_filter.load_model
        self._nodes = tuple(self.loads)
        self._leaders = tuple(
            leader
            for leader, group in self.move_groups.movable.items()
            if group[0].node in self.loads
        )
        self._group_of = {
            guest.id: index
            for index, leader in enumerate(self._leaders)
            for guest in self.move_groups.movable[leader]
        }
        self._index = {name: index for index, name in enumerate(self._nodes)}
        self._feasibility = FeasibilityChecker(snapshot, self.rules, limits)
        self._compatible: dict[object, NodeMask] = {}
        self._usable_memory = _pairs(
            _memory_pair(usable_memory(snapshot.nodes[name], limits), missing=-np.inf)
            for name in self._nodes
        )
        self.arrays = self._compile()

    def group(self, best: BestMove) -> MoveGroup:
        """Return the move group of *best*."""
        return self.members(best.group)

    def target(self, best: BestMove) -> NodeId:
        """Return the target node of *best*."""
        return self._nodes[best.target]

    @property
    def nodes(self) -> tuple[NodeId, ...]:
        """Return the nodes in the order of the arrays, which is that of names."""
        return self._nodes

    def members(self, index: int) -> MoveGroup:
        """Return the guests of the group at *index* of the arrays."""
        return self.move_groups.movable[self._leaders[index]]

    def feasible_mask(self, index: int) -> NodeMask:
        """Return the feasible nodes of the group at *index*; shape (N,)."""
        arrays = self.arrays
        mask: NodeMask = arrays.allowed[arrays.class_of[index]] & (
            arrays.required[index] <= arrays.available
        ).all(axis=1)
        mask[arrays.node_of[index]] = False
        return mask

    def rejection(self, index: int, node: int) -> str | None:
        """Return why the node at *node* is infeasible for the group at *index*."""
        return self._feasibility.rejection(self.members(index), self._nodes[node])

    def apply(self, best: BestMove) -> None:
        """Apply the move *best*; later selections start from the result."""
        self.place(best.group, best.target)

    def place(self, index: int, node: int) -> None:
        """Move the group at *index* to the node at *node*; it does not move again."""
        group, target = self.members(index), self._nodes[node]
        for migration in migrations_of(group, target):
            self.snapshot = self.snapshot.apply(migration)
        self._feasibility = FeasibilityChecker(self.snapshot, self.rules, self._limits)
        self._update_arrays(index, node)
        self.arrays.class_of[index] = NO_NODES
        for other in self._related_groups(group) - {index}:
            row = self.arrays.class_of[other]
            if row != NO_NODES:
                self.arrays.allowed[row] = self._allowed_nodes(self.members(other))

    def better_infeasible_nodes(
        self, best: BestMove, metric: ImbalanceMetric
    ) -> Iterator[tuple[str, str]]:
        """Yield the infeasible nodes that would give less imbalance than *best*.

        Each item is the node with that imbalance, and why it is infeasible.
        """
        group = self.group(best)
        infeasible = self._feasibility.infeasible_nodes(group)
        known = [name for name in sorted(infeasible) if name in self._index]
        if not known:
            return
        futures = exact_imbalances(
            self.arrays,
            np.full(len(known), best.group),
            np.array([self._index[name] for name in known]),
            metric,
        )
        for name, future in sorted(zip(known, futures, strict=True), key=_by_imbalance):
            if future < best.imbalance:
                yield f"{name} (imbalance {future:.3f})", infeasible[name]

    def unplaceable_groups(self) -> Iterator[tuple[MoveGroup, dict[NodeId, str]]]:
        """Yield each group without a feasible node, and why each node is infeasible."""
        for group in self.move_groups.movable.values():
            infeasible = self._feasibility.infeasible_nodes(group)
            if len(infeasible) == len(self.snapshot.nodes) - 1:
                yield group, infeasible

    def current_loads(self) -> dict[NodeId, NodeLoad]:
        """Return the loads after the moves so far, in order of name."""
        return node_loads(self.snapshot, self._load_model)

    def _compile(self) -> ClusterArrays:
        movable = [self.members(index) for index in range(len(self._leaders))]
        rows, class_of = self._placement_classes(movable)
        loads = self.loads.values()
        available = [self._feasibility.available_memory[name] for name in self._nodes]
        return ClusterArrays(
            capacity=_pairs((v.capacity.cpu, v.capacity.memory) for v in loads),
            usage=_pairs((v.usage.cpu, v.usage.memory) for v in loads),
            demand=_pairs(self._demand(group) for group in movable),
            node_of=np.array(
                [self._index[group[0].node] for group in movable], np.intp
            ),
            class_of=np.array(class_of, np.intp),
            allowed=np.array(rows, bool),
            available=_pairs(_memory_pair(each, missing=-np.inf) for each in available),
            required=_pairs(
                _memory_pair(required_memory(group), missing=np.inf)
                for group in movable
            ),
        )

    def _demand(self, group: MoveGroup) -> tuple[float, float]:
        parts = [demand(guest, self._load_model) or NO_RESOURCES for guest in group]
        return (
            sum_in_order(part.cpu for part in parts),
            float(sum(part.memory for part in parts)),
        )

    def _placement_classes(
        self, movable: Iterable[MoveGroup]
    ) -> tuple[list[NodeMask], list[int]]:
        """Return one mask of allowed nodes per class, and the class of each group.

        The first class is `NO_NODES`. A group has a class of its own if the placement
        of other guests affects its allowed nodes. The others share a class with the
        groups of the same rules and hardware.
        """
        rows: list[NodeMask] = [np.zeros(len(self._nodes), bool)]
        shared: dict[object, int] = {}
        class_of = []
        for group in movable:
            key: object = (
                group[0].id if self._related_guests(group) else self._class_key(group)
            )
            if key not in shared:
                shared[key] = len(rows)
                rows.append(self._allowed_nodes(group))
            class_of.append(shared[key])
        return rows, class_of

    def _allowed_nodes(self, group: MoveGroup) -> NodeMask:
        """Return the nodes allowed for *group* by rules, hardware and other guests."""
        key = self._class_key(group)
        if key not in self._compatible:
            self._compatible[key] = np.array(
                [
                    self._feasibility.is_compatible(group, self.snapshot.nodes[name])
                    for name in self._nodes
                ],
                bool,
            )
        row = self._compatible[key].copy()
        for name in self._contested_nodes(group):
            if self._feasibility.affinity_conflict(group, name) is not None:
                row[self._index[name]] = False
        return row

    def _class_key(self, group: MoveGroup) -> object:
        """Return a key of the allowed nodes of *group*, other guests aside."""
        leader = group[0].id
        return (
            self.snapshot.nodes[group[0].node].architecture,
            frozenset(guest.cpu_model for guest in group),
            self.rules.nodes.get(leader),
            tuple(id(rule) for rule in self.rules.rankings.get(leader, ())),
        )

    def _related_guests(self, group: MoveGroup) -> set[GuestId]:
        """Return the guests with an affinity or anti-affinity to *group*."""
        rules = self.rules
        relations = (rules.apart, rules.soft_apart, rules.soft_together)
        return {
            other
            for guest in group
            for relation in relations
            for other in relation.get(guest.id, NO_GUESTS)
        } - {guest.id for guest in group}

    def _related_groups(self, group: MoveGroup) -> set[int]:
        return {
            self._group_of[guest]
            for guest in self._related_guests(group)
            if guest in self._group_of
        }

    def _contested_nodes(self, group: MoveGroup) -> Iterable[NodeId]:
        """Return the nodes that related guests may make infeasible."""
        if any(guest.id in self.rules.soft_together for guest in group):
            return self._nodes
        return {
            name
            for guest in self._related_guests(group)
            for name in self.snapshot.guests[guest].occupied_nodes
            if name in self._index
        }

    def _update_arrays(self, group: int, target: int) -> None:
        arrays = self.arrays
        source = arrays.node_of[group]
        arrays.usage[source] = np.maximum(
            arrays.usage[source] - arrays.demand[group], 0.0
        )
        arrays.usage[target] += arrays.demand[group]
        freed = arrays.available[source] + arrays.required[group]
        arrays.available[source] = np.minimum(freed, self._usable_memory[source])
        arrays.available[target] -= arrays.required[group]
        arrays.node_of[group] = target


def _pairs(values: Iterable[tuple[float, float]]) -> npt.NDArray[np.float64]:
    return np.array(list(values), float).reshape(-1, 2)


def _memory_pair(memory: AvailableMemory, missing: float) -> tuple[float, float]:
    return (
        missing if memory.measured is None else memory.measured,
        missing if memory.committed is None else memory.committed,
    )


def _by_imbalance(pair: tuple[NodeId, float]) -> tuple[float, NodeId]:
    return pair[1], pair[0]
