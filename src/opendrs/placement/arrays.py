"""Snapshot as arrays for the placement of guests that must start elsewhere.

The guests of a move group that are on one node are a part. A part is what leaves when
its node fails: the rest of its group, if there is any, stays where it is.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from opendrs.arrays import ClusterArrays, Mask, MoveGroup, move_groups
from opendrs.model import (
    Action,
    GuestId,
    Limits,
    NodeId,
    PowerOff,
    PowerOn,
    Resources,
    Snapshot,
    Usage,
)
from opendrs.placement.domain_limits import PartLimit
from opendrs.rules import NO_GUESTS, UNLISTED, CompiledRules, compile_rules

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

NO_NODE = -1  # index of the node of a part that is not placed
# Rows of the available resources; committed CPU is counted in millicores.
MEASURED, COMMITTED, CPU, COMMITTED_CPU = range(4)
NO_PARTS: Indices = np.empty(0, np.intp)


@dataclass(frozen=True, slots=True, eq=False)
class DisplacedGroup:
    """Part that needs another node.

    Attributes:
        part: Its index.
        allowed: Nodes that hardware and strict node affinities allow; shape (N,).
        required: Measured memory, committed memory, CPU and committed CPU that they
            require; infinity if unknown; shape (4,).
        demand: CPU and memory that they add to the usage of their node; unknown
            amounts count 0; shape (2,).
        apart: Parts that must be on other nodes.
        limits: Limits of failure domains that count its guests.
        mates: Other parts of its move group.
        gathers: Whether it must be on a node with one of its mates. A part that is on
            another node already violates the affinity, and may go on doing so.
    """

    part: int
    allowed: Mask
    required: Floats
    demand: Floats
    apart: Indices
    limits: tuple[PartLimit, ...]
    mates: Indices
    gathers: bool

    @property
    def has_rules(self) -> bool:
        """Return whether the nodes of other guests decide where it may be."""
        return bool(self.apart.size or self.limits or self.gathers)


class PlacementArrays:
    """N nodes and P parts of move groups as arrays; read-only.

    Nodes and groups are in the order of names. Nodes whose capacity or usage is unknown
    receive no guests: a node that is not measured is never treated as empty.

    Attributes:
        snapshot: The cluster.
        limits: Limits of the operator.
        rules: Its compiled rules.
        parts: Guests of each part.
        node_ids: Names of the nodes.
        index: Index of each node.
        part_of: Index of the part of each active guest.
        node_of: Node of each part; shape (P,).
        target_of: Target of the migration in progress of each part; shape (P,).
        capacity: Cores and bytes of each node; NaN if unknown; shape (N, 2).
        usage: Measured use of each node; NaN if unknown; shape (N, 2).
        available: Measured memory, committed memory, CPU and committed CPU that each
            node has available; -infinity if unknown; shape (4, N).
        usable: The same of an empty node; CPU is not limited; shape (4, N).
        required: The same that each part requires; infinity if unknown; shape (P, 4).
        limits_cpu: True if a node limits committed CPU; otherwise all of it is 0.
        is_measured: Nodes with known capacity and usage; shape (N,).
        is_online: Nodes that may receive guests; shape (N,).

    Args:
        snapshot: The cluster.
        limits: Limits of the operator.
    """

    def __init__(self, snapshot: Snapshot, limits: Limits) -> None:
        self.snapshot = snapshot
        self.limits = limits
        self.rules: CompiledRules = compile_rules(snapshot)
        self.parts = tuple(_parts(snapshot, self.rules))
        cluster = ClusterArrays(snapshot, self.rules, limits, self.parts)
        self._classes = cluster.classes
        self.node_ids: tuple[NodeId, ...] = cluster.node_ids
        self.index: Mapping[NodeId, int] = cluster.index
        self.part_of: Mapping[GuestId, int] = cluster.group_of
        self.node_of: Indices = cluster.node_of
        self.target_of: Indices = np.array(
            [self._target_index(part) for part in self.parts], np.intp
        )
        nodes = [snapshot.nodes[name] for name in self.node_ids]
        self.capacity = _rows(each.capacity for each in nodes)
        self.usage = _rows(each.usage for each in nodes)
        self.is_measured: Mask = np.all(np.isfinite(self.capacity + self.usage), axis=1)
        self.is_online: Mask = np.array([each.online for each in nodes], np.bool_)
        free_cpu = self.capacity[:, 0] - self.usage[:, 0]
        free_cpu[np.isnan(free_cpu)] = -np.inf
        self.limits_cpu = cluster.limits_cpu
        self.available: Floats = np.vstack(
            (cluster.available.T[:2], free_cpu, self._committed(cluster.available))
        )
        free = cluster.usable
        unlimited = np.full(len(nodes), np.inf)
        self.usable: Floats = np.vstack((free.T[:2], unlimited, self._committed(free)))
        cpu = np.array([_used_cpu(part) for part in self.parts], float)
        required = cluster.required
        self.required: Floats = np.column_stack(
            (required[:, :2], cpu, self._committed(required))
        )
        self._demand: Floats = np.where(np.isfinite(self.required), self.required, 0.0)[
            :, [CPU, MEASURED]
        ]
        self._allowed: dict[Hashable, Mask] = {}

    @cached_property
    def parts_on(self) -> tuple[tuple[int, ...], ...]:
        """Parts on each node."""
        lists: list[list[int]] = [[] for _ in self.node_ids]
        for part, node in enumerate(self.node_of.tolist()):
            lists[node].append(part)
        return tuple(map(tuple, lists))

    @cached_property
    def limit_arrays(self) -> tuple[PartLimit, ...]:
        """Limits of the guests in failure domains."""
        return tuple(
            PartLimit.of(each, self.parts, self.part_of, self.node_ids)
            for each in self.rules.domain_limits
        )

    def _committed(self, amounts: Floats) -> Floats:
        """Return the committed CPU of *amounts*; 0 if it is not limited; shape (n,)."""
        return amounts[:, 2] if self.limits_cpu else np.zeros(len(amounts))

    def displaced_group(self, part: int, *, gathers: bool = False) -> DisplacedGroup:
        """Return *part* as a group that needs another node.

        Args:
            part: Index of the part.
            gathers: Whether it must be on a node with another part of its move group.
        """
        return DisplacedGroup(
            part=part,
            allowed=self._allowed_nodes(part),
            required=self.required[part],
            demand=self._demand[part],
            apart=self.related_parts(part, self.rules.apart),
            limits=tuple(
                self.limit_arrays[index]
                for index in sorted(
                    {
                        index
                        for guest in self.parts[part]
                        for index in self.rules.limits_of.get(guest.id, ())
                    }
                )
            ),
            mates=self.related_parts(part, self.rules.together),
            gathers=gathers,
        )

    def suited(self, part: int) -> Mask:
        """Return the online nodes with hardware that suits *part*; shape (N,)."""
        return self._classes.suited(self.parts[part])

    def permitted(self, part: int) -> Mask:
        """Return the nodes that strict node affinities allow for *part*."""
        return self._classes.permitted(self.parts[part])

    def has_cores(self, part: int) -> Mask:
        """Return the nodes with as many cores as the largest guest of *part*."""
        cores: Mask = self.capacity[:, 0] >= _max_cores(self.parts[part])
        return cores

    def priority(self, part: int) -> Floats:
        """Return the priority of each node for *part* by node affinities; shape (N,).

        Higher is better; 0 without rules that rank nodes.
        """
        total = np.zeros(len(self.node_ids))
        for rule in self.rules.rankings.get(self.parts[part][0].id, ()):
            ranks = np.full(len(self.node_ids), UNLISTED)
            for name, rank in rule.nodes.items():
                if name in self.index:
                    ranks[self.index[name]] = rank
            total += rule.weight * ranks
        return total

    def related_parts(
        self, part: int, relation: Mapping[GuestId, frozenset[GuestId]]
    ) -> Indices:
        """Return the other parts with a guest that *relation* names for *part*."""
        if not relation:
            return NO_PARTS
        related = {
            self.part_of[other]
            for guest in self.parts[part]
            for other in relation.get(guest.id, NO_GUESTS)
            if other in self.part_of
        } - {part}
        return np.array(sorted(related), np.intp) if related else NO_PARTS

    def _allowed_nodes(self, part: int) -> Mask:
        guests = self.parts[part]
        key = (self._classes.class_of(guests), _max_cores(guests))
        if key not in self._allowed:
            self._allowed[key] = (
                self.suited(part) & self.permitted(part) & self.has_cores(part)
            )
        return self._allowed[key]

    def _target_index(self, part: MoveGroup) -> int:
        targets = [each.migrating_to for each in part if each.migrating_to is not None]
        return self.index[targets[0]] if targets else NO_NODE


def matters(action: Action, arrays: PlacementArrays) -> bool:
    """Return whether *action* concerns an active guest, or the power of a node."""
    if isinstance(action, PowerOn | PowerOff):
        return True
    return action.guest in arrays.part_of


def is_plain(actions: Sequence[Action], arrays: PlacementArrays) -> bool:
    """Return whether *actions* are moves of whole measured parts, or power-offs."""
    if any(isinstance(each, PowerOn) for each in actions):
        return False
    targets = {
        each.guest: each.target
        for each in actions
        if not isinstance(each, PowerOn | PowerOff)
    }
    parts = {arrays.part_of[each] for each in targets}
    return all(
        len({targets.get(guest.id) for guest in arrays.parts[part]}) == 1
        and bool(np.isfinite(arrays.required[part]).all())
        for part in parts
    )


def part_moves(
    actions: Sequence[Action], arrays: PlacementArrays
) -> list[tuple[int, int]]:
    """Return the part and the target node of each move among *actions*."""
    found = {
        arrays.part_of[each.guest]: arrays.index[each.target]
        for each in actions
        if not isinstance(each, PowerOn | PowerOff)
    }
    return [*found.items()]


def _parts(snapshot: Snapshot, rules: CompiledRules) -> Iterable[MoveGroup]:
    """Yield the guests of each move group on each node, in order of names."""
    for group in move_groups(snapshot, rules):
        if len(group) == 1:
            yield group
            continue
        for node in sorted({guest.node for guest in group}):
            yield tuple(guest for guest in group if guest.node == node)


def _max_cores(part: MoveGroup) -> float:
    return max(0.0 if each.limit is None else each.limit.cpu for each in part)


def _used_cpu(part: MoveGroup) -> float:
    return sum(np.inf if each.usage.cpu is None else each.usage.cpu for each in part)


def _rows(amounts: Iterable[Resources | Usage | None]) -> Floats:
    """Return cores and bytes of each of *amounts*, NaN if unknown; shape (n, 2)."""
    pairs = [(None, None) if x is None else (x.cpu, x.memory) for x in amounts]
    return np.array(pairs, float).reshape(-1, 2)
