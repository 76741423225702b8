"""Guests that could be added to a cluster, and nodes that it could do without."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

import numpy as np

from opendrs.errors import ModelError, UnknownGuestError
from opendrs.model import Guest, GuestId, Limits, NodeId, Resources, Snapshot
from opendrs.placement.arrays import (
    COMMITTED,
    COMMITTED_CPU,
    CPU,
    MEASURED,
    PlacementArrays,
)
from opendrs.placement.search import SearchBudget, place_groups
from opendrs.placement.state import PlacementState
from opendrs.placement.what_if import immovable_guests
from opendrs.rules import MILLICORES


@dataclass(frozen=True, slots=True)
class GuestSize:
    """Size of a guest that could be added.

    Attributes:
        limit: Virtual cores and memory; cpu 0 if unlimited.
        usage: Cores and memory that it uses.

    Raises:
        ModelError: It has no memory, or uses no CPU.
    """

    limit: Resources
    usage: Resources

    def __post_init__(self) -> None:
        if self.limit.memory <= 0 or self.usage.memory <= 0 or self.usage.cpu <= 0:
            raise ModelError(
                "size: expected more than 0 cores and 0 bytes, got a limit of "
                f"{self.limit.cpu:g} and {self.limit.memory}, a usage of "
                f"{self.usage.cpu:g} and {self.usage.memory}"
            )


@dataclass(frozen=True, slots=True)
class AdditionalGuests:
    """Guests of one size that fit in addition to those of the cluster.

    Attributes:
        size: Size of each.
        count: Number that fits altogether.
        nodes: Number that fits on each node where at least one does.
    """

    size: GuestSize
    count: int
    nodes: tuple[tuple[NodeId, int], ...]


def size_like(snapshot: Snapshot, guest: GuestId) -> GuestSize:
    """Return the size of *guest*; an unknown limit or usage is that of the other.

    Raises:
        UnknownGuestError: The guest is not in the snapshot.
        ModelError: Neither its limit nor its usage is known.
    """
    found = snapshot.guests.get(guest)
    if found is None:
        raise UnknownGuestError(f"guest {guest} is not in the cluster")
    size = _size(found)
    if size is None:
        raise ModelError(f"{guest}: limit and usage are unknown")
    return size


def median_size(snapshot: Snapshot) -> GuestSize | None:
    """Return the median of limits and usages of the active guests.

    Guests of unknown size do not count. None if there are no others.
    """
    sizes = [
        size
        for guest in snapshot.guests.values()
        if guest.is_active and (size := _size(guest)) is not None
    ]
    if not sizes:
        return None
    limits, usages = [size.limit for size in sizes], [size.usage for size in sizes]
    return GuestSize(
        Resources(median(x.cpu for x in limits), int(median(x.memory for x in limits))),
        Resources(median(x.cpu for x in usages), int(median(x.memory for x in usages))),
    )


def _size(guest: Guest) -> GuestSize | None:
    limit, usage = guest.limit, guest.usage
    cpu = usage.cpu or (limit.cpu if limit else 0.0)
    memory = usage.memory or (limit.memory if limit else 0)
    if cpu <= 0 or memory <= 0:
        return None
    cores = limit.cpu if limit else 0.0
    limit_memory = limit.memory if limit and limit.memory else memory
    return GuestSize(Resources(cores, limit_memory), Resources(cpu, memory))


def additional_guests(
    snapshot: Snapshot, size: GuestSize, limits: Limits
) -> AdditionalGuests:
    """Return how many guests of *size* fit in addition.

    Each node takes as many as its cores, its memory, measured and committed, and its
    committed CPU allow.
    Nodes that are not online or not measured take none. No rule applies to the guests.
    """
    state = PlacementState(PlacementArrays(snapshot, limits))
    arrays = state.arrays
    per_guest = np.zeros(4)
    per_guest[MEASURED], per_guest[CPU] = size.usage.memory, size.usage.cpu
    per_guest[COMMITTED] = size.limit.memory
    if arrays.limits_cpu:
        cores = size.limit.cpu or size.usage.cpu
        per_guest[COMMITTED_CPU] = max(1.0, round(cores * MILLICORES))
    accepts = state.is_open & (arrays.capacity[:, 0] >= size.limit.cpu)
    available = np.where(accepts, np.maximum(state.available, 0.0), 0.0)
    rows = per_guest > 0
    counts = np.floor(available[rows] / per_guest[rows, None])
    counts = counts.min(axis=0).astype(int)
    nodes = tuple(
        (name, count)
        for name, count in zip(arrays.node_ids, counts.tolist(), strict=True)
        if count
    )
    return AdditionalGuests(size, int(counts.sum()), nodes)


@dataclass(frozen=True, slots=True)
class DispensableNodes:
    """Nodes that the cluster could do without.

    Attributes:
        nodes: Nodes whose guests all fit on the other nodes, in the order in which they
            are drained. There may be larger sets: they are found one by one.
        migrations: Number of guests that are on other nodes afterwards.
    """

    nodes: tuple[NodeId, ...]
    migrations: int


def dispensable_nodes(snapshot: Snapshot, limits: Limits) -> DispensableNodes:
    """Return nodes that could be drained together, with all rules kept.

    The nodes with the least committed memory are drained first, each by best fit onto
    the nodes that remain. No node uses more than its cores and its memory afterwards.
    Nodes that are not measured, or have a guest that must not migrate, remain.
    """
    arrays = PlacementArrays(snapshot, limits)
    state = PlacementState(arrays, limits_cpu=True)
    immovable = immovable_guests(arrays, arrays.node_ids, limits)
    fixed_nodes = {snapshot.guests[name].node for name in immovable}
    drained: list[NodeId] = []
    for node in _drain_order(arrays):
        name = arrays.node_ids[node]
        if name in fixed_nodes or not state.is_open[node] or state.is_open.sum() < 2:
            continue
        if _drain(state, node):
            drained.append(name)
    moved = np.flatnonzero(state.node_of != arrays.node_of)
    migrations = sum(len(arrays.parts[part]) for part in moved)
    return DispensableNodes(tuple(drained), migrations)


def _drain_order(arrays: PlacementArrays) -> Iterator[int]:
    """Yield the nodes by the memory that their guests require, the least first."""
    required = np.zeros(len(arrays.node_ids))
    np.add.at(required, arrays.node_of, arrays.required[:, COMMITTED])
    yield from np.argsort(required, kind="stable").tolist()


def _drain(state: PlacementState, node: int) -> bool:
    """Place all guests of *node* on other open nodes, or none; return which."""
    parts = tuple(np.flatnonzero(state.node_of == node).tolist())
    groups = [state.arrays.displaced_group(part) for part in parts]
    available, usage = state.available.copy(), state.usage.copy()
    state.displace(parts, node)
    if place_groups(state, groups, SearchBudget(steps=0)).fits:
        return True
    state.available, state.usage = available, usage
    state.node_of[list(parts)] = node
    state.is_open[node] = True
    return False
