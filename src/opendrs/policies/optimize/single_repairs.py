"""Repairs by single moves, of violations that a plan for a large cluster leaves.

The search moves guests with a strict affinity as one group. A group whose rules are
contradictory, or that is too expensive to gather, stays as a whole, although one of its
guests may repair a rule alone. Here each guest moves alone, except with those that a
strict affinity keeps together now. The move that repairs most rules is the first one;
among equals that with most violations, then that with the least migration cost. Where
a small budget ends the repairs early, violations may come before rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

import numpy as np

from opendrs.arrays import MoveGroup
from opendrs.model import (
    Affinity,
    AntiAffinity,
    GuestId,
    MutualAntiAffinity,
    NodeAffinity,
    NodeId,
)
from opendrs.optimizer import FEASIBILITY_SLACK, Floats
from opendrs.policies.optimize.encoding import EncodedCluster
from opendrs.policies.optimize.movable_groups import (
    MovableGroups,
    movable_units,
)
from opendrs.policies.optimize.move_effects import (
    AffinityState,
    MoveEffects,
    NodeAffinityState,
    RuleState,
    active_nodes,
    side_states,
)
from opendrs.rules import domain_nodes, domains, drain_rules, violations

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
        repaired: Numbers of rules and of violations that it repairs, both negative, in
            the order in which they count.
        migration_cost: Cost of its migrations, in GiB.
        cost: Increase of the imbalance.
        unit: Index of the unit that moves.
        target: Index of the target.
    """

    repaired: tuple[float, float]
    migration_cost: float
    cost: float
    unit: int
    target: int


class SingleRepairs:
    """Single moves that repair violated strict rules.

    Args:
        cluster: The cluster before the moves.
        groups: Its move groups.
        moved: Source and target of guests that have moved, and may not move again.
        rules_first: True if moves that repair most rules come first, False for those
            that repair most violations.
    """

    def __init__(
        self,
        cluster: EncodedCluster,
        groups: MovableGroups,
        moved: Mapping[GuestId, tuple[NodeId, NodeId]],
        *,
        rules_first: bool = True,
    ) -> None:
        self._rules_first = rules_first
        snapshot = cluster.snapshot
        strict = [each for each in violations(snapshot) if each.strict]
        violated = {guest for each in strict for guest in each.guests}
        nodes = frozenset(cluster.node_ids)
        units = [
            unit
            for unit in movable_units(snapshot, groups, nodes, among=violated)
            if all(guest.id not in moved for guest in unit.guests)
        ]
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
    ) -> list[list[tuple[RuleState, int]]]:
        """Return the rules of each unit, each with the number of guests of the unit."""
        snapshot, unit_of = self._cluster.snapshot, self._cluster.group_of
        found: list[list[tuple[RuleState, int]]]
        found = [[] for _ in self._cluster.groups]
        for rule in (*snapshot.rules, *drain_rules(snapshot)):
            if isinstance(rule, MutualAntiAffinity) and rule.strict:
                for unit, side, count in side_states(rule, snapshot, unit_of):
                    found[unit].append((side, count))
            if not (isinstance(rule, StrictRule) and rule.strict):
                continue
            counts = Counter(unit_of[name] for name in rule.guests if name in unit_of)
            if not counts:
                continue
            state = self._read_rule(rule, moved)
            for unit, count in counts.items():
                found[unit].append((state, count))
        return found

    def _read_rule(
        self, rule: StrictRule, moved: Mapping[GuestId, tuple[NodeId, NodeId]]
    ) -> RuleState:
        snapshot = self._cluster.snapshot
        nodes = active_nodes(rule.guests, snapshot)
        if isinstance(rule, NodeAffinity):
            outside: Iterable[NodeId] = ()
            if rule.domain:
                known = domain_nodes(snapshot, rule.domain).values()
                outside = self._index.keys() - chain.from_iterable(known)
            return NodeAffinityState(rule, nodes, self._index, outside)
        moves = {moved[name] for name in rule.guests if name in moved}
        domain_of: Mapping[NodeId, str] = {}
        if isinstance(rule, AntiAffinity) and not rule.is_pairwise:
            domain_of = domains(snapshot, rule.domain)
        return AffinityState(rule, nodes, moves, domain_of)

    def moves(self, gib: float, migrations: float) -> Iterator[RepairMove]:
        """Yield moves, each of which is safe after those before it.

        Args:
            gib: Most memory to transfer, in GiB.
            migrations: Most migrations.
        """
        groups = self._cluster.groups
        transfer: list[float] = self._cluster.movable.transfer.tolist()
        sizes = [len(group.guests) for group in groups]

        def is_affordable(unit: int) -> bool:
            return transfer[unit] <= gib and sizes[unit] <= migrations

        left = set(range(len(groups)))
        has_moved = True
        while has_moved:
            has_moved = False
            left = set(filter(is_affordable, left))
            gains = [gain for unit in left if (gain := self._best(unit)) is not None]
            for unit in [gain.unit for gain in sorted(gains)]:
                gain = self._best(unit) if is_affordable(unit) else None
                if gain is None:
                    continue
                self._move(gain)
                left.remove(unit)
                gib -= transfer[unit]
                migrations -= sizes[unit]
                has_moved = True
                target = self._cluster.node_ids[gain.target]
                yield RepairMove(groups[unit].guests, target)

    def _best(self, unit: int) -> _Gain | None:
        """Return the best move of *unit* that repairs something; None without one."""
        cluster = self._cluster
        arrays, guests = cluster.arrays, cluster.groups[unit].guests
        has_memory = (self._free >= arrays.required[unit]).all(axis=1)
        suited = arrays.classes.suited(guests)
        effects = MoveEffects(self._index, suited & self._is_known & has_memory)
        effects.is_safe[cluster.origin[unit]] = False
        for state, count in self._rules_of[unit]:
            state.add_effects(count, guests[0].node, effects)
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
        rules = effects.rules[targets]
        primary, secondary = repaired, rules
        if self._rules_first:
            primary, secondary = rules, repaired
        best = np.lexsort((cost, -secondary, -primary))[0]
        return _Gain(
            (-float(primary[best]), -float(secondary[best])),
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
