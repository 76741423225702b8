"""Repairs by single moves, of violations that a plan for a large cluster leaves.

The search moves guests with a strict affinity as one group. A group whose rules are
contradictory, or that is too expensive to gather, stays as a whole, although one of its
guests may repair a rule alone. Here each guest moves alone, except with those that a
strict affinity keeps together now. The move that repairs most rules is the first one;
among equals that with most violations, then that with the least migration cost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from opendrs.arrays import MoveGroup
from opendrs.model import (
    Affinity,
    AntiAffinity,
    GuestId,
    MutualAntiAffinity,
    NodeAffinity,
    NodeId,
    Snapshot,
)
from opendrs.optimizer import FEASIBILITY_SLACK, Floats, Indices, Mask
from opendrs.policies.optimize.encoding import EncodedCluster
from opendrs.policies.optimize.movable_groups import (
    EncodedGroup,
    MovableGroups,
    movable_units,
)
from opendrs.rules import domains, drain_rules, excess, violations

StrictRule = Affinity | AntiAffinity | NodeAffinity


@dataclass(frozen=True, slots=True)
class RepairMove:
    """Move of one guest, or of several that must move together."""

    guests: MoveGroup
    target: NodeId


@dataclass(frozen=True, slots=True, order=True)
class _Gain:
    """A move with what it repairs and costs; the least is the best.

    Attributes:
        rules: Number of rules that it repairs, negative.
        violations: Number of violations that it repairs, negative.
        migration_cost: Cost of its migrations, in GiB.
        cost: Increase of the imbalance.
        unit: Index of the unit that moves.
        target: Index of the target.
    """

    rules: float
    violations: float
    migration_cost: float
    cost: float
    unit: int
    target: int


class _Effects:
    """Effects of the moves of one unit to each of N nodes.

    Attributes:
        is_safe: True for targets at which no rule is newly violated; shape (N,).
        rules: Number of repaired rules; shape (N,).
        violations: Number of repaired violations; shape (N,).
    """

    def __init__(self, is_safe: Mask) -> None:
        self.is_safe = is_safe
        self.rules: Floats = np.zeros(len(is_safe))
        self.violations: Floats = np.zeros(len(is_safe))

    def repair(
        self, violations: float, targets: Mask | int | slice, *, all_: bool
    ) -> None:
        """Count repaired *violations* at *targets*, and the rule if these are all."""
        self.violations[targets] += violations
        self.rules[targets] += all_


class _RuleState:
    """A strict rule, and the number of its guests on each node.

    Args:
        rule: The rule.
        nodes: Node of each of its active guests; a migrating one is on two.
        moves: Sources and targets of those of its guests that have moved.
        domain_of: Domain of each node, if the rule is about domains.
    """

    def __init__(
        self,
        rule: StrictRule,
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

    def add_effects(
        self, count: int, source: NodeId, effects: _Effects, index: Mapping[NodeId, int]
    ) -> None:
        """Add the effects of moves of *count* of its guests from *source*."""
        others = +(self._counts - Counter({source: count}))
        if isinstance(self._rule, NodeAffinity):
            self._add_node_affinity(self._rule, count, source, effects, index)
        elif isinstance(self._rule, AntiAffinity) and not self._rule.is_pairwise:
            self._add_limit(self._rule, count, source, effects, index)
        elif isinstance(self._rule, AntiAffinity):
            effects.is_safe[_indices(others, index)] = False
            if others[source]:
                remaining = [count, *others.values()]
                effects.repair(
                    count * others[source], slice(None), all_=max(remaining) == 1
                )
        else:
            self._add_affinity(others, source, effects, index)

    def _add_limit(
        self,
        rule: AntiAffinity,
        count: int,
        source: NodeId,
        effects: _Effects,
        index: Mapping[NodeId, int],
    ) -> None:
        present: Counter[str] = Counter()
        for node, guests in self._counts.items():
            present[self._domain_of[node]] += guests
        home, most = self._domain_of[source], rule.max_guests
        leaves = np.array([self._domain_of[node] != home for node in index])
        there = np.array([present[self._domain_of[node]] for node in index])
        effects.is_safe &= ~leaves | (there + count <= most)
        above = excess(present[home], most)
        repaired = above - excess(present[home] - count, most)
        if repaired:
            total = sum(excess(each, most) for each in present.values())
            effects.repair(repaired, leaves, all_=total == repaired)

    def _add_affinity(
        self,
        others: Collection[NodeId],
        source: NodeId,
        effects: _Effects,
        index: Mapping[NodeId, int],
    ) -> None:
        # Guests with an affinity start together if they have the same two nodes.
        used = [target for node, target in self._moves if node == source]
        effects.is_safe[_indices(used, index)] = False
        if set(others) == {source}:  # kept now, by a guest that does not move
            effects.is_safe[:] = False
        elif len(others) == 1 and (node := min(others)) in index:
            effects.repair(1, index[node], all_=True)

    def _add_node_affinity(
        self,
        rule: NodeAffinity,
        count: int,
        source: NodeId,
        effects: _Effects,
        index: Mapping[NodeId, int],
    ) -> None:
        allowed = np.zeros(len(index), np.bool_)
        allowed[_indices(rule.nodes, index)] = True
        if source in rule.nodes:
            effects.is_safe &= allowed
            return
        misplaced = sum(
            number for node, number in self._counts.items() if node not in rule.nodes
        )
        effects.repair(count, allowed, all_=misplaced == count)


def _active_nodes(guests: Iterable[GuestId], snapshot: Snapshot) -> list[NodeId]:
    """Return the node of each active one of *guests*; a migrating one is on two."""
    found = [snapshot.guests[name] for name in guests if name in snapshot.guests]
    active = [guest for guest in found if guest.is_active]
    return [node for guest in active for node in guest.occupied_nodes]


def _side_states(
    rule: MutualAntiAffinity, snapshot: Snapshot, unit_of: Mapping[GuestId, int]
) -> Iterator[tuple[int, _SideState, int]]:
    """Yield the units of both sides, each with its side and its number of guests."""
    sides = rule.guests, rule.other_guests
    nodes = [Counter(_active_nodes(each, snapshot)) for each in sides]
    units = [Counter(unit_of[x] for x in each if x in unit_of) for each in sides]
    for here, there in ((0, 1), (1, 0)):
        for unit, count in units[here].items():
            side = _SideState(nodes[here], nodes[there], units[there][unit])
            yield unit, side, count


def _indices(nodes: Iterable[NodeId], index: Mapping[NodeId, int]) -> Indices:
    """Return the indices of those of *nodes* that have metrics."""
    return np.array([index[node] for node in nodes if node in index], np.intp)


class _SideState:
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

    def add_effects(
        self, count: int, source: NodeId, effects: _Effects, index: Mapping[NodeId, int]
    ) -> None:
        """Add the effects of moves of *count* guests of this side from *source*."""
        others = +(self._opposite - Counter({source: self._within}))
        effects.is_safe[_indices(others, index)] = False
        if repaired := count * others[source]:
            total = sum(each * self._own[node] for node, each in others.items())
            is_all = total == repaired and not self._within
            effects.repair(repaired, slice(None), all_=is_all)


class SingleRepairs:
    """Single moves that repair violated strict rules.

    Args:
        cluster: The cluster before the moves.
        groups: Its move groups.
        moved: Source and target of guests that have moved, and may not move again.
    """

    def __init__(
        self,
        cluster: EncodedCluster,
        groups: MovableGroups,
        moved: Mapping[GuestId, tuple[NodeId, NodeId]],
    ) -> None:
        snapshot = cluster.snapshot
        strict = [each for each in violations(snapshot) if each.strict]
        violated = {guest for each in strict for guest in each.guests}
        nodes = frozenset(cluster.node_ids)
        units = []
        for unit in movable_units(snapshot, groups, nodes):
            names = {guest.id for guest in unit}
            if names.isdisjoint(moved) and not names.isdisjoint(violated):
                units.append(EncodedGroup(unit, unit[0].node))
        self._cluster = cluster.with_groups(units)
        self._index = self._cluster.arrays.index
        self._rules_of = self._read_rules(moved)
        arrays = self._cluster.arrays
        available, usable = arrays.available, arrays.usable
        self._is_known = np.asarray(np.isfinite(available).all(axis=1))
        self._free = np.floor(np.where(np.isfinite(available), available, 0.0))
        self._usable = np.floor(np.where(np.isfinite(usable), usable, 0.0))
        self._load = self._cluster.load.copy()

    def _read_rules(
        self, moved: Mapping[GuestId, tuple[NodeId, NodeId]]
    ) -> list[list[tuple[_RuleState | _SideState, int]]]:
        """Return the rules of each unit, each with the number of guests of the unit."""
        snapshot, unit_of = self._cluster.snapshot, self._cluster.group_of
        found: list[list[tuple[_RuleState | _SideState, int]]]
        found = [[] for _ in self._cluster.groups]
        for rule in (*snapshot.rules, *drain_rules(snapshot)):
            if isinstance(rule, MutualAntiAffinity) and rule.strict:
                for unit, side, count in _side_states(rule, snapshot, unit_of):
                    found[unit].append((side, count))
            if not (isinstance(rule, StrictRule) and rule.strict):
                continue
            counts = Counter(unit_of[name] for name in rule.guests if name in unit_of)
            if not counts:
                continue
            nodes = _active_nodes(rule.guests, snapshot)
            moves = {moved[name] for name in rule.guests if name in moved}
            domain_of: Mapping[NodeId, str] = {}
            if isinstance(rule, AntiAffinity) and not rule.is_pairwise:
                domain_of = domains(snapshot, rule.domain)
            state = _RuleState(rule, nodes, moves, domain_of)
            for unit, count in counts.items():
                found[unit].append((state, count))
        return found

    def moves(self, gib: float, migrations: float) -> Iterator[RepairMove]:
        """Yield moves, each of which is safe after those before it.

        Args:
            gib: Most memory to transfer, in GiB.
            migrations: Most migrations.
        """
        groups = self._cluster.groups
        left = set(range(len(groups)))
        has_moved = True
        while has_moved:
            has_moved = False
            gains = [gain for unit in left if (gain := self._best(unit)) is not None]
            for former in sorted(gains):
                guests = groups[former.unit].guests
                transfer = float(self._cluster.movable.transfer[former.unit])
                if transfer > gib or len(guests) > migrations:
                    continue
                gain = self._best(former.unit)
                if gain is None:
                    continue
                self._move(gain)
                left.remove(gain.unit)
                gib -= transfer
                migrations -= len(guests)
                has_moved = True
                yield RepairMove(guests, self._cluster.node_ids[gain.target])

    def _best(self, unit: int) -> _Gain | None:
        """Return the best move of *unit* that repairs something; None without one."""
        cluster = self._cluster
        arrays, guests = cluster.arrays, cluster.groups[unit].guests
        has_memory = (self._free >= arrays.required[unit]).all(axis=1)
        effects = _Effects(arrays.classes.suited(guests) & self._is_known & has_memory)
        effects.is_safe[cluster.origin[unit]] = False
        for state, count in self._rules_of[unit]:
            state.add_effects(count, guests[0].node, effects, self._index)
        demand = cluster.movable.demand[unit]
        full = self._load + demand > cluster.capacity * (1 + FEASIBILITY_SLACK)
        full &= cluster.limited_resources
        targets = np.flatnonzero(
            effects.is_safe & (effects.violations > 0) & ~full.any(axis=1)
        )
        if not len(targets):
            return None
        repaired = effects.violations[targets]
        cost = self._added_imbalance(demand)[targets]
        best = np.lexsort((cost, -repaired, -effects.rules[targets]))[0]
        return _Gain(
            -float(effects.rules[targets[best]]),
            -float(repaired[best]),
            float(cluster.movable.migration_cost[unit]),
            float(cost[best]),
            unit,
            int(targets[best]),
        )

    def _added_imbalance(self, demand: Floats) -> Floats:
        """Return how much *demand* adds to the imbalance of each node; shape (N,)."""
        capacity, balanced = self._cluster.capacity, self._cluster.balanced_load
        before = np.square(self._load / capacity - balanced)
        after = np.square((self._load + demand) / capacity - balanced)
        added: Floats = (after - before).sum(axis=1)
        return added

    def _move(self, gain: _Gain) -> None:
        cluster, unit, target = self._cluster, gain.unit, gain.target
        source = int(cluster.origin[unit])
        required, demand = cluster.arrays.required[unit], cluster.movable.demand[unit]
        freed = self._free[source] + required
        self._free[source] = np.minimum(freed, self._usable[source])
        self._free[target] -= required
        self._load[source] -= demand
        self._load[target] += demand
        for state, count in self._rules_of[unit]:
            state.move(count, cluster.node_ids[source], cluster.node_ids[target])
