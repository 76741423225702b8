"""Measure of the imbalance that the goal balance minimizes, for one decision.

The balanced load is that of the cluster before the plan. A plan may change the load of
the nodes that are compared by a further load, because guests come from other nodes, or
go there. A balanced load that changed with the plan would be another measure than that
of the search, of its lower bound, and of the cluster before the plan.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from opendrs.metrics import NodeLoad
from opendrs.model import (
    FurtherLoad,
    LoadAmounts,
    Node,
    NodeId,
    Resources,
    Snapshot,
    resource_pair,
)
from opendrs.optimizer import Floats

EQUAL_WEIGHTS = (1.0, 1.0)


@dataclass(frozen=True, slots=True)
class BalanceMeasure:
    """RMS deviation of node loads from a balanced load, relative to it.

    Attributes:
        further: Further loads that count.
        weights: Weights of CPU, of memory, and of the further loads.
        balanced: Balanced load of each of them, as a fraction of the capacity.
    """

    further: tuple[FurtherLoad, ...]
    weights: tuple[float, ...]
    balanced: tuple[float, ...]

    @classmethod
    def of(  # noqa: PLR0913, PLR0917 - the cluster and what counts
        cls,
        snapshot: Snapshot,
        loads: Mapping[NodeId, NodeLoad],
        kept: Collection[NodeId],
        weights: tuple[float, ...],
        further: Sequence[FurtherLoad],
        departing: Iterable[tuple[NodeId, Resources, LoadAmounts]] = (),
    ) -> BalanceMeasure:
        """Return the measure for plans of *snapshot*.

        Args:
            snapshot: Cluster before the plan.
            loads: Loads of its nodes.
            kept: Nodes that are not drained.
            weights: Weights of CPU, of memory, and of the first *further* loads. If all
                are 0, CPU and memory count.
            further: Further loads that are balanced.
            departing: Nodes, demands and further loads of guests that may migrate.
                Those of drained nodes are to come to the others.
        """
        counted = tuple(further[: len(weights) - 2])
        if not any(weights):
            counted, weights = (), EQUAL_WEIGHTS
        used, capacity = _amounts(snapshot, loads, counted)
        stays = [name in kept for name in loads]
        total = used[stays].sum(axis=0)
        for name, amount, amounts in departing:
            if name in loads and name not in kept:
                node = snapshot.nodes[name]
                more = (_share(each, node, amounts) for each in counted)
                total += (*resource_pair(amount), *more)
        balanced = total / np.maximum(capacity[stays].sum(axis=0), 1e-9)
        return cls(counted, weights, tuple(balanced.tolist()))

    def deviation(self, snapshot: Snapshot, loads: Mapping[NodeId, NodeLoad]) -> float:
        """Return the RMS deviation of the nodes with *loads* from the balanced load.

        A node that is not compared by a further load deviates by 0.
        """
        if not loads:
            return 0.0
        used, capacity = _amounts(snapshot, loads, self.further)
        ratio = used / np.maximum(capacity, 1e-9)
        balanced, weight = np.array(self.balanced), np.array(self.weights)
        away = np.divide(ratio, balanced, out=np.ones_like(ratio), where=balanced > 0)
        away = np.where(capacity > 0, away - 1, 0.0)
        mean = float((np.square(away).mean(axis=0) * weight).sum() / weight.sum())
        return math.sqrt(mean)


def _amounts(
    snapshot: Snapshot,
    loads: Mapping[NodeId, NodeLoad],
    further: Sequence[FurtherLoad],
) -> tuple[Floats, Floats]:
    """Return what nodes use and have of CPU, memory and *further* loads; (N, R) each.

    Both are 0 if a node is not compared by a further load.
    """
    pairs = (resource_pair(each.usage) for each in loads.values())
    used = np.array([*pairs], np.float64).reshape(-1, 2)
    pairs = (resource_pair(each.capacity) for each in loads.values())
    capacity = np.array([*pairs], np.float64).reshape(-1, 2)
    if not further:
        return used, capacity
    rows = [[_pair(load, snapshot.nodes[name]) for load in further] for name in loads]
    more = np.array(rows, np.float64).reshape(len(rows), len(further), 2)
    return np.hstack((used, more[:, :, 0])), np.hstack((capacity, more[:, :, 1]))


def _pair(load: FurtherLoad, node: Node) -> tuple[float, float]:
    """Return the amount and the capacity of *load*; 0 if *node* is not compared."""
    if load.used_fraction(node) is None:
        return 0.0, 0.0
    return node.loads[load.name], node.load_capacities[load.name]


def _share(load: FurtherLoad, node: Node, amounts: LoadAmounts) -> float:
    """Return what a guest on *node* brings of *load*; 0 if *node* is not compared."""
    return 0.0 if load.used_fraction(node) is None else amounts.get(load.name, 0.0)
