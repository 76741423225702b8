"""Columns of the load that single moves balance: CPU, memory and further loads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from opendrs.arrays.cluster import ClusterArrays, Floats
from opendrs.model import FurtherLoad

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BalancedColumns:
    """N nodes and G move groups with the R resources whose mean load is balanced.

    Attributes:
        capacity: Capacity of each node; shape (N, R).
        usage: Used amounts of each node, as a copy; shape (N, R).
        demand: Amounts that move with each group; unknown ones count 0; shape (G, R).
        share: Share of each resource in the mean load of each node, with the sum 1;
            shape (N, R). None for equal shares.
    """

    capacity: Floats
    usage: Floats
    demand: Floats
    share: Floats | None


def balanced_columns(
    cluster: ClusterArrays, further: Sequence[FurtherLoad]
) -> BalancedColumns:
    """Return CPU and memory of *cluster*, and one column for each of *further*.

    A node that has no capacity of a load, or was not measured, is not compared by it:
    the load has no share in its mean.
    """
    usage = cluster.usage.copy()
    if not further:
        return BalancedColumns(cluster.capacity, usage, cluster.demand, None)
    nodes = [cluster.snapshot.nodes[name] for name in cluster.node_ids]

    def table(
        rows: Sequence[T], value: Callable[[T, FurtherLoad], float | None]
    ) -> Floats:
        values = [[value(row, load) for load in further] for row in rows]
        return np.array(values, float).reshape(len(rows), len(further))

    fraction = table(nodes, lambda node, load: load.used_fraction(node))
    known = ~np.isnan(fraction)
    capacity = table(nodes, lambda node, load: node.load_capacities.get(load.name, 1))
    used = np.where(known, fraction, 0.0) * capacity
    moved = table(
        cluster.groups,
        lambda group, load: sum(each.loads.get(load.name, 0) for each in group),
    )
    weight = np.hstack(
        (np.ones_like(cluster.capacity), known * [each.weight for each in further])
    )
    return BalancedColumns(
        np.hstack((cluster.capacity, capacity)),
        np.hstack((usage, used)),
        np.hstack((cluster.demand, moved)),
        weight / weight.sum(axis=1, keepdims=True),
    )
