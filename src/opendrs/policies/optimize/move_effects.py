"""Effects of moves of few guests on strict rules: repairs, and new violations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping

import numpy as np

from opendrs.model import (
    Affinity,
    AntiAffinity,
    GuestId,
    MutualAntiAffinity,
    NodeAffinity,
    NodeId,
    Snapshot,
)
from opendrs.optimizer import Floats, Indices, Mask
from opendrs.rules import excess


class MoveEffects:
    """Effects of the moves of one unit to each of N nodes.

    Attributes:
        index: Index of each node with metrics.
        is_safe: True for targets at which no rule is newly violated; shape (N,).
        rules: Number of repaired rules; shape (N,).
        violations: Number of repaired violations; shape (N,).
    """

    def __init__(self, index: Mapping[NodeId, int], is_safe: Mask) -> None:
        self.index = index
        self.is_safe = is_safe
        self.rules: Floats = np.zeros(len(is_safe))
        self.violations: Floats = np.zeros(len(is_safe))

    def repair(
        self, violations: float, targets: Mask | int | slice, *, all_: bool
    ) -> None:
        """Count repaired *violations* at *targets*, and the rule if these are all."""
        self.violations[targets] += violations
        self.rules[targets] += all_


class AffinityState:
    """A strict affinity or anti-affinity, and the number of its guests on each node.

    Args:
        rule: The rule.
        nodes: Node of each of its active guests; a migrating one is on two.
        moves: Sources and targets of those of its guests that have moved.
        domain_of: Domain of each node, if the rule is about domains.
    """

    def __init__(
        self,
        rule: Affinity | AntiAffinity,
        nodes: list[NodeId],
        moves: set[tuple[NodeId, NodeId]],
        domain_of: Mapping[NodeId, str],
    ) -> None:
        self._rule = rule
        self._domain_of = domain_of
        self._counts = Counter(nodes)
        self._moves = moves

    def move(self, count: int, source: NodeId, target: NodeId) -> None:
        """Move *count* of its guests."""
        self._counts[source] -= count
        self._counts[target] += count
        self._moves.add((source, target))

    def add_effects(self, count: int, source: NodeId, effects: MoveEffects) -> None:
        """Add the effects of moves of *count* of its guests from *source*."""
        if isinstance(self._rule, AntiAffinity) and not self._rule.is_pairwise:
            self._add_limit(self._rule, count, source, effects)
            return
        others = +(self._counts - Counter({source: count}))
        if isinstance(self._rule, AntiAffinity):
            effects.is_safe[_indices(others, effects.index)] = False
            if others[source]:
                remaining = [count, *others.values()]
                effects.repair(
                    count * others[source], slice(None), all_=max(remaining) == 1
                )
        else:
            self._add_affinity(others, source, effects)

    def _add_limit(
        self, rule: AntiAffinity, count: int, source: NodeId, effects: MoveEffects
    ) -> None:
        present: Counter[str] = Counter()
        for node, guests in self._counts.items():
            present[self._domain_of[node]] += guests
        home, most = self._domain_of[source], rule.max_guests
        domains = [self._domain_of[node] for node in effects.index]
        leaves = np.array([domain != home for domain in domains])
        there = np.array([present[domain] for domain in domains])
        effects.is_safe &= ~leaves | (there + count <= most)
        above = excess(present[home], most)
        repaired = above - excess(present[home] - count, most)
        if repaired:
            total = sum(excess(each, most) for each in present.values())
            effects.repair(repaired, leaves, all_=total == repaired)

    def _add_affinity(
        self, others: Collection[NodeId], source: NodeId, effects: MoveEffects
    ) -> None:
        index = effects.index
        # Guests with an affinity start together if they have the same two nodes.
        used = [target for node, target in self._moves if node == source]
        effects.is_safe[_indices(used, index)] = False
        if set(others) == {source}:  # kept now, by a guest that does not move
            effects.is_safe[:] = False
        elif len(others) == 1 and (node := min(others)) in index:
            effects.repair(1, index[node], all_=True)


class NodeAffinityState:
    """A strict node affinity, and the number of its guests on nodes that it forbids.

    Args:
        rule: The rule.
        nodes: Node of each of its active guests; a migrating one is on two.
        index: Index of each node with metrics.
        outside: Nodes to which no guest moves: if the rule demands a domain, those that
            are in none.
    """

    def __init__(
        self,
        rule: NodeAffinity,
        nodes: list[NodeId],
        index: Mapping[NodeId, int],
        outside: Iterable[NodeId] = (),
    ) -> None:
        self._nodes = rule.nodes
        self._outside = _indices(outside, index)
        self._misplaced = sum(node not in rule.nodes for node in nodes)
        self._is_allowed: Mask = np.zeros(len(index), np.bool_)
        self._is_allowed[_indices(rule.nodes, index)] = True

    def move(self, count: int, source: NodeId, target: NodeId) -> None:
        """Move *count* of its guests."""
        self._misplaced -= count * (source not in self._nodes)
        self._misplaced += count * (target not in self._nodes)

    def add_effects(self, count: int, source: NodeId, effects: MoveEffects) -> None:
        """Add the effects of moves of *count* of its guests from *source*."""
        if source in self._nodes:
            effects.is_safe &= self._is_allowed
        else:
            effects.is_safe[self._outside] = False
            is_all = self._misplaced == count
            effects.repair(count, self._is_allowed, all_=is_all)


class SideState:
    """One side of an anti-affinity between two sides, and both on each node.

    Args:
        own: Number of guests of this side on each node.
        opposite: Number of guests of the other side on each node.
        within: Guests of the other side that the unit contains.
    """

    def __init__(
        self, own: Counter[NodeId], opposite: Counter[NodeId], within: int
    ) -> None:
        self._own, self._opposite, self._within = own, opposite, within

    def move(self, count: int, source: NodeId, target: NodeId) -> None:
        """Move *count* guests of this side."""
        self._own[source] -= count
        self._own[target] += count

    def add_effects(self, count: int, source: NodeId, effects: MoveEffects) -> None:
        """Add the effects of moves of *count* guests of this side from *source*."""
        others = +(self._opposite - Counter({source: self._within}))
        effects.is_safe[_indices(others, effects.index)] = False
        if repaired := count * others[source]:
            total = sum(each * self._own[node] for node, each in others.items())
            is_all = total == repaired and not self._within
            effects.repair(repaired, slice(None), all_=is_all)


RuleState = AffinityState | NodeAffinityState | SideState


def active_nodes(guests: Iterable[GuestId], snapshot: Snapshot) -> list[NodeId]:
    """Return the node of each active one of *guests*; a migrating one is on two."""
    found = [snapshot.guests[name] for name in guests if name in snapshot.guests]
    active = [guest for guest in found if guest.is_active]
    return [node for guest in active for node in guest.occupied_nodes]


def side_states(
    rule: MutualAntiAffinity, snapshot: Snapshot, unit_of: Mapping[GuestId, int]
) -> Iterator[tuple[int, SideState, int]]:
    """Yield the units of both sides, each with its side and its number of guests."""
    sides = rule.guests, rule.other_guests
    nodes = [Counter(active_nodes(each, snapshot)) for each in sides]
    units = [Counter(unit_of[x] for x in each if x in unit_of) for each in sides]
    for here, there in ((0, 1), (1, 0)):
        for unit, count in units[here].items():
            side = SideState(nodes[here], nodes[there], units[there][unit])
            yield unit, side, count


def _indices(nodes: Iterable[NodeId], index: Mapping[NodeId, int]) -> Indices:
    """Return the indices of those of *nodes* that have metrics."""
    return np.array([index[node] for node in nodes if node in index], np.intp)
