"""Arrays of nodes and guests, compiled from a snapshot and the memory of the policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from opendrs.arrays import (
    ClusterArrays,
    MobilityFilter,
    MoveGroup,
    MoveGroups,
    compile_move_groups,
)
from opendrs.metrics import LoadModel
from opendrs.model import (
    Limits,
    Node,
    NodeId,
    NodeState,
    Snapshot,
    Usage,
    copied_size,
)
from opendrs.policies.consolidation.detector import OverloadCounters
from opendrs.policies.consolidation.history import Floats, Integers, Mask
from opendrs.policies.consolidation.memory import ConsolidationMemory, is_measured
from opendrs.policies.consolidation.power_curve import PowerCurve
from opendrs.rules import compile_rules

TIE_BREAK_DIGITS = 9  # values are rounded so that ties are broken by name


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeArrays:
    """Nodes as arrays, in the order of their names.

    Attributes:
        cpu: Cores of each node; shape (nodes,).
        base_load: Cores used outside the guests of `GuestArrays`, newest sample
            last; shape (nodes, samples).
        available: Free memory in bytes, by usage and by commitment; shape (nodes, 2).
        usable: The same for an empty node.
        measured: True for nodes that are online and measured, and so may give and
            receive guests; shape (nodes,).
        can_power_on: True for nodes that may be powered on.
        has_immovable_guests: True for nodes that cannot be drained.
        watts: One row of eleven values per power curve.
        curve_of: Row of the power curve of each node; shape (nodes,).
        watts_per_core: Power at full load divided by the cores; shape (nodes,).
    """

    cpu: Floats
    base_load: Floats
    available: Floats
    usable: Floats
    measured: Mask
    can_power_on: Mask
    has_immovable_guests: Mask
    watts: Floats
    curve_of: Integers
    watts_per_core: Floats = field(init=False)

    def __post_init__(self) -> None:
        """Derive `watts_per_core`."""
        watts_per_core = np.round(
            self.watts[self.curve_of, -1] / self.cpu, TIE_BREAK_DIGITS
        )
        object.__setattr__(self, "watts_per_core", watts_per_core)


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestArrays:
    """Move groups as arrays, in the order of their names; each counts as one guest.

    Attributes:
        node_of: Node of each guest; shape (guests,).
        samples: Cores used by each guest, newest sample last, padded with zeros on
            the left; shape (guests, samples).
        lengths: Number of valid samples; shape (guests,).
        cpu_limit: Most cores each guest can use; shape (guests,).
        memory: Bytes that a migration of each guest transfers.
        required: Memory that each guest requires, as in `NodeArrays.available`;
            shape (guests, 2).
        movable: True for guests that may migrate now.
    """

    node_of: Integers
    samples: Floats
    lengths: Integers
    cpu_limit: Floats
    memory: Floats
    required: Floats
    movable: Mask


@dataclass(frozen=True, slots=True)
class AgentReports:
    """Load states and evictions reported by the nodes themselves.

    Attributes:
        overloaded: True for nodes that report overload; shape (nodes,).
        underloaded: True for nodes that report underload; shape (nodes,).
        evictions: Guests to evict from each overloaded node, in order of
            preference; row indices.
    """

    overloaded: Mask
    underloaded: Mask
    evictions: Mapping[int, Sequence[int]]


class TargetFilter(Protocol):
    """Nodes that rules and hardware allow for each guest, given the moves so far."""

    def allowed_targets(self, guest: int) -> Mask:
        """Return the nodes to which *guest* may migrate, regardless of capacity."""

    def record_move(self, guest: int, target: int) -> None:
        """Record that *guest* is on *target* now."""


MOBILITY = MobilityFilter(load_model=LoadModel.DYNAMIC, allow_cold_migration=False)


class ConsolidationInput:
    """Snapshot and memory of a cluster, compiled for consolidation.

    Attributes:
        cluster: The nodes in order of name, and the movable groups on measured nodes.
            Nodes that may be powered on are online in it, with zero usage.
        move_groups: Movable and skipped guests.
        measured: True for nodes that are online and measured; shape (nodes,).
        node_arrays: The nodes as arrays.
        guest_arrays: The guests as arrays.
        powered_off: Nodes that may be powered on.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        memory: ConsolidationMemory,
        limits: Limits,
        curve: PowerCurve,
        *,
        manage_power: bool,
    ) -> None:
        self._memory = memory
        off = _powered_off_nodes(snapshot) if manage_power else ()
        self.powered_off: frozenset[NodeId] = frozenset(off)
        now = _as_powered_on(snapshot, self.powered_off)
        rules = compile_rules(now)
        self.move_groups: MoveGroups = compile_move_groups(now, rules, limits, MOBILITY)
        groups = (
            group
            for group in self.move_groups.movable.values()
            if is_measured(snapshot.nodes[group[0].node])
        )
        self.cluster = ClusterArrays(now, rules, limits, tuple(groups))
        self.measured = np.array(
            [is_measured(snapshot.nodes[name]) for name in self.cluster.node_ids], bool
        )
        histories = [*memory["nodes"].values(), *memory["guests"].values()]
        self._width = max(map(len, histories), default=0)
        self.guest_arrays = self._build_guest_arrays()
        self.node_arrays = self._build_node_arrays(curve)

    def counters(self) -> OverloadCounters:
        """Return the counters of the detector for each node."""
        rows = [
            self._memory["overload_counters"].get(name, [0, 0])
            for name in self.cluster.node_ids
        ]
        columns = np.array(rows, dtype=np.int64).reshape(-1, 2)
        return OverloadCounters(columns[:, 0], columns[:, 1])

    def updated_memory(self, counters: OverloadCounters) -> ConsolidationMemory:
        """Return the memory with *counters* in it."""
        rows: dict[str, list[int]] = {
            name: [int(counters.samples[row]), int(counters.overloaded[row])]
            for row, name in enumerate(self.cluster.node_ids)
            if self.measured[row]
        }
        return {**self._memory, "overload_counters": rows}

    def mean_guest_memory(self) -> Floats:
        """Return the mean memory of the guests of each node, in bytes."""
        hosts = len(self.cluster.node_ids)
        count = np.bincount(self.guest_arrays.node_of, minlength=hosts)
        total = np.bincount(self.guest_arrays.node_of, self.guest_arrays.memory, hosts)
        return np.asarray(total / np.maximum(count, 1), dtype=np.float64)

    def is_empty(self, node: NodeId) -> bool:
        """Return True if no guest, running or stopped, is on *node*."""
        return node not in self._occupied

    def _build_guest_arrays(self) -> GuestArrays:
        groups, required = self.cluster.groups, self.cluster.required
        measured, nodes = required[:, 0], self.cluster.snapshot.nodes
        copied = [
            sum(copied_size(guest, nodes[guest.node]) for guest in group)
            for group in groups
        ]
        return GuestArrays(
            node_of=self.cluster.node_of,
            samples=np.array([*map(self._samples, groups)], float).reshape(
                -1, self._width
            ),
            lengths=np.array([*map(self._history_length, groups)], np.int64),
            cpu_limit=np.array([*map(self._cpu_limit, groups)], float),
            memory=np.where(np.isfinite(measured), measured, 0.0) + copied,
            required=required,
            movable=np.ones(len(groups), np.bool_),
        )

    def _cpu_limit(self, group: MoveGroup) -> float:
        """Return the cores *group* can use; without a limit, those of its node."""
        whole = _cores(self.cluster.snapshot.nodes[group[0].node])
        limits = [guest.limit.cpu if guest.limit else 0.0 for guest in group]
        return min(whole, sum(limit or whole for limit in limits))

    def _history_length(self, group: MoveGroup) -> int:
        return max(len(self._memory["guests"].get(guest.id, ())) for guest in group)

    def _samples(self, group: MoveGroup) -> Floats:
        """Return the CPU of *group* per sample, padded to the width of all arrays.

        Within a group, a shorter history is extended back to the longest one with
        its own first sample.
        """
        row, length = np.zeros(self._width), self._history_length(group)
        for guest in group:
            samples = self._memory["guests"].get(guest.id, [])
            row[self._width - length :] += _pad_history(samples, length)
        return row

    def _build_node_arrays(self, curve: PowerCurve) -> NodeArrays:
        cluster, snapshot = self.cluster, self.cluster.snapshot
        nodes = [snapshot.nodes[name] for name in cluster.node_ids]
        # A stopped guest occupies its node, and one that may be migrating occupies two.
        self._occupied = {
            row
            for guest in snapshot.guests.values()
            for row in (guest.node, *guest.occupied_nodes)
        }
        samples_of = self._memory["nodes"]
        rows = [
            _pad_history(samples_of.get(node.id, []), self._width) for node in nodes
        ]
        base_load = np.array(rows, float).reshape(-1, self._width)
        has_immovable = np.zeros(len(nodes), np.bool_)
        for _, guest in sorted(snapshot.guests.items()):
            if guest.id in cluster.group_of:
                continue
            for name in (guest.node, *guest.occupied_nodes):
                has_immovable[cluster.index[name]] = True
            if guest.is_active:
                samples = self._memory["guests"].get(guest.id, [])
                base_load[cluster.index[guest.node]] += _pad_history(
                    samples, self._width
                )
        return NodeArrays(
            cpu=np.array([_cores(node) for node in nodes], float),
            base_load=base_load,
            available=cluster.available,
            usable=cluster.usable,
            measured=self.measured,
            can_power_on=np.array(
                [n in self.powered_off for n in cluster.node_ids], np.bool_
            ),
            has_immovable_guests=has_immovable,
            watts=np.array([curve.watts], float),
            curve_of=np.zeros(len(nodes), np.int64),
        )


def _powered_off_nodes(snapshot: Snapshot) -> Iterable[NodeId]:
    """Yield the empty nodes that are known to be powered off."""
    occupied = {row for g in snapshot.guests.values() for row in g.occupied_nodes}
    for name, node in snapshot.nodes.items():
        is_off = node.state is NodeState.OFFLINE and node.capacity is not None
        if is_off and name not in occupied:
            yield name


def _as_powered_on(snapshot: Snapshot, nodes: Iterable[NodeId]) -> Snapshot:
    powered_on = {
        name: replace(snapshot.nodes[name], state=NodeState.ONLINE, usage=Usage(0.0, 0))
        for name in nodes
    }
    return replace(snapshot, nodes={**snapshot.nodes, **powered_on})


def _cores(node: Node) -> float:
    return node.capacity.cpu if node.capacity is not None else 1.0


def _pad_history(samples: Sequence[float], length: int) -> Floats:
    """Return *samples* extended to *length* with copies of the first sample.

    A node that was not measured for a while, or a guest that has just started, has
    no earlier samples. Zeros would claim that it used nothing.
    """
    if not samples:
        return np.zeros(length)
    return np.array([samples[0]] * (length - len(samples)) + [*samples], float)
