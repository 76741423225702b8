"""State of a snapshot while its best moves are selected one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from opendrs.arrays.allowed_nodes import NO_NODES, AllowedNodes
from opendrs.arrays.assignment import AssignmentState
from opendrs.arrays.balanced_columns import balanced_columns
from opendrs.arrays.cluster import ClusterArrays
from opendrs.arrays.cluster_after_moves import ClusterAfterMoves
from opendrs.arrays.evaluation import TOLERANCE, BestMove, exact_imbalances
from opendrs.arrays.move_groups import (
    MobilityFilter,
    MoveGroup,
    MoveGroups,
    compile_move_groups,
    migrations_of,
)
from opendrs.arrays.move_scores import MoveArrays, MoveScores
from opendrs.arrays.placement_classes import Mask
from opendrs.metrics import ImbalanceMetric, NodeLoad, divisor
from opendrs.model import FurtherLoad, Limits, NodeId, Snapshot
from opendrs.rules import CompiledRules, compile_rules


class SelectionState:
    """Cluster after the moves so far, as a snapshot and as arrays.

    Each move group moves at most once.

    Attributes:
        rules: Compiled rules.
        move_groups: Movable and skipped guests.
        cluster: Cluster before the moves: nodes with a known load, movable groups.
        nodes: Its nodes, in the order of the arrays.
        arrays: Nodes and movable groups after the moves.

    Args:
        snapshot: The cluster.
        limits: Limits of the operator.
        mobility_filter: Guests that may move, and the load that counts.
        further: Further loads that count in the mean load of a node.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        limits: Limits,
        mobility_filter: MobilityFilter,
        further: Sequence[FurtherLoad] = (),
    ) -> None:
        self.rules: CompiledRules = compile_rules(snapshot)
        self.move_groups: MoveGroups = compile_move_groups(
            snapshot, self.rules, limits, mobility_filter
        )
        load_model = mobility_filter.load_model
        groups = tuple(self.move_groups.movable.values())
        self.cluster = cluster = ClusterArrays(
            snapshot, self.rules, limits, groups, load_model
        )
        self.nodes: tuple[NodeId, ...] = cluster.node_ids
        self._after = ClusterAfterMoves(
            snapshot, self.rules, limits, load_model, further
        )
        self._assignment = AssignmentState(
            cluster.node_of, cluster.required, cluster.available, cluster.usable
        )
        self._allowed_nodes = AllowedNodes(cluster)
        allowed, class_of = self._allowed_nodes.by_class()
        balanced = balanced_columns(cluster, further)
        self.arrays = MoveArrays(
            capacity=balanced.capacity,
            usage=balanced.usage,
            demand=balanced.demand,
            share=balanced.share,
            node_of=self._assignment.node_of,
            class_of=class_of,
            allowed=allowed,
            available=self._assignment.available,
            required=cluster.required,
        )

    @property
    def snapshot(self) -> Snapshot:
        """Return the cluster after the moves."""
        return self._after.snapshot

    def group(self, best: BestMove) -> MoveGroup:
        """Return the move group of *best*."""
        return self.members(best.group)

    def target(self, best: BestMove) -> NodeId:
        """Return the target node of *best*."""
        return self.nodes[best.target]

    def members(self, index: int) -> MoveGroup:
        """Return the guests of the group at *index* of the arrays."""
        return self.cluster.groups[index]

    def feasible_mask(self, index: int) -> Mask:
        """Return the feasible nodes of the group at *index*; shape (N,)."""
        arrays = self.arrays
        mask: Mask = arrays.allowed[arrays.class_of[index]] & (
            self._assignment.has_resources(index)
        )
        mask[arrays.node_of[index]] = False
        return mask

    def rejection(self, index: int, node: int) -> str | None:
        """Return why the node at *node* is infeasible for the group at *index*."""
        return self._after.feasibility.rejection(self.members(index), self.nodes[node])

    def apply(self, best: BestMove) -> None:
        """Apply the move *best*; later selections start from the result."""
        self.place(best.group, best.target)

    def place(self, index: int, node: int) -> None:
        """Move the group at *index* to the node at *node*; it does not move again."""
        self._after.migrate(migrations_of(self.members(index), self.nodes[node]))
        arrays = self.arrays
        source, demand = int(arrays.node_of[index]), arrays.demand[index]
        arrays.usage[source] = np.maximum(arrays.usage[source] - demand, 0.0)
        arrays.usage[node] += demand
        self._assignment.place(index, node)
        self._allowed_nodes.record_move(index, node)
        arrays.class_of[index] = NO_NODES
        related = self._allowed_nodes.related_groups(index)
        rows = {int(arrays.class_of[other]): other for other in related}
        for row, other in rows.items():
            if row != NO_NODES:
                self._allowed_nodes.update_targets(
                    other, arrays.allowed[row], (source, node)
                )

    def close_target(self, node: int) -> None:
        """Let no further group move to the node at *node*."""
        self._assignment.available[node] = -np.inf

    def better_infeasible_nodes(
        self, best: BestMove, metric: ImbalanceMetric
    ) -> Iterator[tuple[str, str]]:
        """Yield the infeasible nodes that would give less imbalance than *best*.

        Each item is the node with that imbalance, and why it is infeasible.
        """
        group = np.array([best.group])
        others = np.arange(len(self.nodes)) != self.arrays.node_of[best.group]
        bounds = MoveScores(self.arrays).variations(group)[0]
        limit = (best.imbalance * divisor(len(self.nodes), metric)) ** 2
        (better,) = np.nonzero(others & (bounds <= limit * (1 + TOLERANCE)))
        futures = exact_imbalances(
            self.arrays, np.repeat(group, len(better)), better, metric
        )
        for future, node in sorted(zip(futures, better.tolist(), strict=True)):
            if future >= best.imbalance:
                break
            detail = self.rejection(best.group, node)
            if detail is not None:
                yield f"{self.nodes[node]} (imbalance {future:.3f})", detail

    def unplaceable_groups(self) -> Iterator[tuple[MoveGroup, dict[NodeId, str]]]:
        """Yield each group without a feasible node, and why each node is infeasible."""
        for group in self.move_groups.movable.values():
            infeasible = self._after.feasibility.infeasible_nodes(group)
            if len(infeasible) == len(self.cluster.snapshot.nodes) - 1:
                yield group, infeasible

    def current_loads(self) -> dict[NodeId, NodeLoad]:
        """Return the loads after the moves so far, in order of name."""
        return self._after.loads
