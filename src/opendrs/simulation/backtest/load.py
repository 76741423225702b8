"""Load of a placement under the recorded demand, computed over arrays.

The demand of a node is the recorded usage of its guests and of the node itself. It is
unknown (NaN) if a part of it is unknown: the usage of the node, or that of a guest on
another node than recorded. An unmeasured guest on its recorded node is part of the
usage of that node.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opendrs.metrics import ImbalanceMetric, imbalances
from opendrs.model import Snapshot
from opendrs.rules import violations
from opendrs.simulation.backtest.record import Floats, Indices, LoadRecord, Mask

NOWHERE = -1  # index of the node of a guest that does not exist
CPU, MEMORY = range(2)
TOLERANCE = 1e-9  # relative; a full node is not contended because of rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Placement of the guests during one snapshot of a record.

    Attributes:
        index: Index of the snapshot, which determines the demand.
        node_of: Node of each guest; `NOWHERE` if it does not exist; shape (G,).
        target_of: Target of each migrating guest; `NOWHERE` for others; shape (G,).
        online: True for nodes that may receive guests; shape (N,).
        reachable: True for nodes that are on; shape (N,).
        strict_violations: Number of violations of strict rules.
    """

    index: int
    node_of: Indices
    target_of: Indices
    online: Mask
    reachable: Mask
    strict_violations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementLoad:
    """Load of a placement.

    Attributes:
        contended: Guests on nodes whose demand for cores or memory exceeds their
            capacity.
        contended_cpu: Those for which it is the cores.
        contended_memory: Those for which it is the memory.
        highest: Highest CPU or memory load of an online node, as a fraction.
        imbalance: Coefficient of variation of the node loads, each the mean of CPU and
            memory load; over the online nodes.
    """

    contended: int
    contended_cpu: int
    contended_memory: int
    highest: float
    imbalance: float


def placement_of(record: LoadRecord, index: int, cluster: Snapshot) -> Placement:
    """Return the placement of *cluster* during snapshot *index*."""
    node_of = np.full(len(record.guest_ids), NOWHERE, np.int64)
    target_of = node_of.copy()
    for guest in cluster.guests.values():
        row = record.guest_index[guest.id]
        node_of[row] = record.node_index[guest.node]
        if guest.migrating_to is not None:
            target_of[row] = record.node_index[guest.migrating_to]
    known = [cluster.nodes.get(name) for name in record.node_ids]
    return Placement(
        index=index,
        node_of=node_of,
        target_of=target_of,
        online=np.array([node is not None and node.online for node in known]),
        reachable=np.array([node is not None and node.reachable for node in known]),
        strict_violations=sum(each.strict for each in violations(cluster)),
    )


def node_demand(record: LoadRecord, placement: Placement) -> Floats:
    """Return the cores and bytes demanded on each node; NaN if unknown; shape (N, 2).

    A migrating guest uses cores on its source, and memory on both nodes.
    """
    index, nodes = placement.index, len(record.node_ids)
    usage, active = record.usage[index], record.active[index]
    exists = active & (placement.node_of != NOWHERE)
    arriving = exists & (placement.target_of != NOWHERE)
    known = np.nan_to_num(usage)
    demand = record.host_usage[index].copy()
    for kind in (CPU, MEMORY):
        demand[:, kind] += np.bincount(
            placement.node_of[exists], known[exists, kind], nodes
        )
        displaced = exists & np.isnan(usage[:, kind])
        displaced &= placement.node_of != record.node_of[index]
        demand[placement.node_of[displaced], kind] = np.nan
        demand[record.node_of[index, displaced], kind] = np.nan
    demand[:, MEMORY] += np.bincount(
        placement.target_of[arriving], known[arriving, MEMORY], nodes
    )
    result: Floats = np.maximum(demand, 0.0)
    return result


def placement_load(record: LoadRecord, placement: Placement) -> PlacementLoad | None:
    """Return the load of *placement*; None if that of a node is unknown."""
    reachable, online = placement.reachable, placement.online
    if not online.any():
        return None
    demand = node_demand(record, placement)
    capacity = record.capacity[placement.index]
    load = demand / capacity
    if np.isnan(load[reachable]).any():
        return None
    exceeded = reachable[:, None] & (load > 1 + TOLERANCE)
    exists = record.active[placement.index] & (placement.node_of != NOWHERE)
    guests = np.bincount(placement.node_of[exists], minlength=len(reachable))
    mean = load[online].mean(axis=1)
    return PlacementLoad(
        contended=int(guests[exceeded.any(axis=1)].sum()),
        contended_cpu=int(guests[exceeded[:, CPU]].sum()),
        contended_memory=int(guests[exceeded[:, MEMORY]].sum()),
        highest=float(load[online].max()),
        imbalance=float(imbalances(mean[:, None], ImbalanceMetric.CV)[0]),
    )
