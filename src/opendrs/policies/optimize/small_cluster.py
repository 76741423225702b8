"""Placements of a small cluster: what each violates, and the moves between them.

Each rule counts as the operator wrote it, not as rules that affinity passes on to other
guests.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, combinations, product

import numpy as np

from opendrs.arrays import MoveGroup
from opendrs.model import (
    Affinity,
    AntiAffinity,
    Guest,
    GuestId,
    Mobility,
    MutualAntiAffinity,
    NodeAffinity,
    NodeId,
    Snapshot,
    has_mapped_copies,
    rule_guests,
)
from opendrs.optimizer import (
    Floats,
    Indices,
    Mask,
    PlacementGraph,
    ReachablePlacements,
    UnitLimit,
)
from opendrs.policies.optimize.encoding import EncodedCluster
from opendrs.policies.optimize.movable_groups import (
    EncodedGroup,
    MovableGroups,
    movable_units,
)
from opendrs.rules import Violation, domain_nodes, domains, drain_rules

StrictRule = Affinity | AntiAffinity | MutualAntiAffinity | NodeAffinity
MAX_PLACEMENTS = 60_000  # some tenths of a second
MAX_MOVES = 200  # units times nodes of a cluster whose good placements are searched
MAX_BITS = 62  # violations of node rules that one unit can have


def small_cluster_units(
    snapshot: Snapshot,
    groups: MovableGroups,
    nodes: Collection[NodeId],
    *,
    complete: bool = True,
) -> tuple[EncodedGroup, ...]:
    """Return the guests that may migrate; empty if they are too many.

    Each is on one node, with those that must move with it. The first arguments are
    those of `movable_units`.

    Args:
        snapshot: The cluster.
        groups: Its move groups.
        nodes: Nodes with metrics.
        complete: Whether all placements are examined, or good ones are searched.
    """
    units: list[EncodedGroup] = []
    for unit in movable_units(snapshot, groups, nodes):
        units.append(unit)
        is_few = len(nodes) * len(units) <= MAX_MOVES
        if complete:
            is_few = len(nodes) ** len(units) <= MAX_PLACEMENTS
        if not is_few:
            return ()
    return tuple(units)


@dataclass(frozen=True, slots=True)
class _RuleMembers:
    """Guests of a strict rule: those of units, and the nodes of the others.

    Attributes:
        units: Units that contain a member, one entry for each member.
        fixed: Nodes of the members that do not move; -1 for nodes without metrics.
        fixed_guests: These members.
    """

    units: tuple[int, ...]
    fixed: tuple[int, ...]
    fixed_guests: tuple[Guest, ...]

    @property
    def can_share_node(self) -> bool:
        """True if the members that do not move share a node with metrics."""
        return -1 not in self.fixed and len(set(self.fixed)) <= 1

    @property
    def fixed_node(self) -> int:
        """Node of the members that do not move; -1 without such members."""
        return min(self.fixed, default=-1)


class SmallCluster:
    """All placements of the units of a small cluster.

    Attributes:
        cluster: Cluster whose groups are the units.

    Args:
        cluster: Cluster whose groups are the units.
    """

    def __init__(self, cluster: EncodedCluster) -> None:
        self.cluster = cluster
        self._unit_of = cluster.group_of
        snapshot = cluster.snapshot
        self._rules = [
            rule
            for rule in (*snapshot.rules, *drain_rules(snapshot))
            if isinstance(rule, StrictRule) and rule.strict
        ]

    @classmethod
    def of(
        cls, cluster: EncodedCluster, groups: MovableGroups, *, complete: bool = True
    ) -> SmallCluster | None:
        """Return the placements of *cluster*; None if its units are too many.

        Disks that change their storage make the space of a placement depend on the way
        to it: then it is None as well.

        Args:
            cluster: The cluster.
            groups: Its move groups.
            complete: Whether all placements are examined, or good ones are searched.
        """
        if cluster.arrays.space.names and any(
            map(has_mapped_copies, cluster.snapshot.guests.values())
        ):
            return None
        units = small_cluster_units(
            cluster.snapshot, groups, cluster.node_ids, complete=complete
        )
        small = cls(cluster.with_groups(units))
        return None if not units or small._has_too_many_rules else small

    def restricted(self, assignments: Indices) -> SmallCluster:
        """Return the cluster with these placements only; shape (U, S)."""
        other = SmallCluster(self.cluster)
        other.graph = replace(self.graph, subset=assignments)
        return other

    @property
    def _has_too_many_rules(self) -> bool:
        """True if the violations of node rules of a unit do not fit into a bit set."""
        return any(len(self._allowed(unit)) > MAX_BITS for unit in self.units)

    @property
    def units(self) -> Sequence[MoveGroup]:
        """The units that may move, U."""
        return [group.guests for group in self.cluster.groups]

    def _allowed(self, unit: MoveGroup) -> list[Collection[NodeId]]:
        """Return the nodes of each strict node rule of *unit*, for each of its guests.

        Guests that belong in one domain do not leave another one for a node in none.
        """
        found: list[Collection[NodeId]] = []
        for rule in self._rules:
            if isinstance(rule, NodeAffinity):
                sets: list[Collection[NodeId]] = [rule.nodes]
                if rule.domain:
                    known = domain_nodes(self.cluster.snapshot, rule.domain)
                    sets.append(frozenset(chain.from_iterable(known.values())))
                found += sum(guest.id in rule.guests for guest in unit) * sets
        return found

    def _forbidden(self, unit: MoveGroup) -> Mask:
        """Return True for nodes that each node rule of *unit* forbids; (rules, N)."""
        nodes, allowed = self.cluster.node_ids, self._allowed(unit)
        rows = [[name not in each for name in nodes] for each in allowed]
        return np.array(rows, np.bool_).reshape(len(rows), len(nodes))

    def permitted(self, unit: MoveGroup) -> Mask:
        """Return True for nodes that no node rule of *unit* forbids; shape (N,)."""
        return np.asarray(~self._forbidden(unit).any(axis=0))

    def _violated(self, unit: MoveGroup) -> Indices:
        """Return the bit set of the node rules that *unit* violates on each node."""
        forbidden = self._forbidden(unit)
        bits = np.left_shift(1, np.arange(len(forbidden), dtype=np.int64))
        violated: Indices = bits @ forbidden
        return violated

    @cached_property
    def graph(self) -> PlacementGraph:
        """The placements, and the moves between them, with what they transfer."""
        cluster, arrays = self.cluster, self.cluster.arrays
        known = np.isfinite(arrays.available).all(axis=1)
        suited = np.array([arrays.classes.suited(unit) for unit in self.units])
        live = [
            all(guest.effective_mobility is Mobility.LIVE for guest in unit)
            for unit in self.units
        ]
        return PlacementGraph(
            origin=cluster.origin,
            required=arrays.required,
            available=np.floor(
                np.where(np.isfinite(arrays.available), arrays.available, 0)
            ),
            usable=np.floor(np.where(np.isfinite(arrays.usable), arrays.usable, 0)),
            possible=suited & known,
            violated=np.array([self._violated(unit) for unit in self.units]),
            avoided=self._avoided(),
            apart=tuple(sorted(self._pairs_apart())),
            together=tuple(self._joinable()),
            limits=tuple(
                self._limit(rule, self._members(rule.guests))
                for rule in self._rules
                if isinstance(rule, AntiAffinity) and not rule.is_pairwise
            ),
            transfer=cluster.movable.transfer,
            migrations=cluster.movable.guest_count.astype(np.int64),
            returns=np.array(live, np.bool_),
        )

    def _members(self, guests: Iterable[GuestId]) -> _RuleMembers:
        units, fixed, fixed_guests = [], [], []
        for name in sorted(guests):
            guest = self.cluster.snapshot.guests.get(name)
            if name in self._unit_of:
                units.append(self._unit_of[name])
            elif guest is not None and guest.is_active:
                index = self.cluster.arrays.index
                fixed += [index.get(node, -1) for node in guest.occupied_nodes]
                fixed_guests.append(guest)
        return _RuleMembers(tuple(units), tuple(fixed), tuple(fixed_guests))

    def _avoided(self) -> Mask:
        """Return the nodes of fixed guests with anti-affinity to each unit; (U, N)."""
        avoided = np.zeros((len(self.units), len(self.cluster.node_ids)), np.bool_)
        for rule in self._rules:
            if isinstance(rule, AntiAffinity) and rule.is_pairwise:
                members = self._members(rule.guests)
                self._avoid(avoided, members, members)
            elif isinstance(rule, MutualAntiAffinity):
                one, other = self._sides(rule)
                self._avoid(avoided, one, other)
                self._avoid(avoided, other, one)
        return avoided

    @staticmethod
    def _avoid(avoided: Mask, members: _RuleMembers, others: _RuleMembers) -> None:
        """Close the nodes of fixed *others* to the units of *members*."""
        for unit in members.units:
            avoided[unit, [node for node in others.fixed if node >= 0]] = True

    def _sides(
        self, rule: MutualAntiAffinity, guests: Collection[GuestId] | None = None
    ) -> tuple[_RuleMembers, _RuleMembers]:
        """Return the members of both sides of *rule*, only *guests* if given."""
        one, other = rule.guests, rule.other_guests
        if guests is not None:
            one, other = one.intersection(guests), other.intersection(guests)
        return self._members(one), self._members(other)

    def _pairs_apart(self) -> set[tuple[int, int]]:
        pairs = set()
        for rule in self._rules:
            if isinstance(rule, AntiAffinity) and rule.is_pairwise:
                units = sorted(set(self._members(rule.guests).units))
                pairs |= set(combinations(units, 2))
            elif isinstance(rule, MutualAntiAffinity):
                one, other = self._sides(rule)
                for pair in product(set(one.units), set(other.units)):
                    pairs.add((min(pair), max(pair)))
        return {(one, other) for one, other in pairs if one != other}

    def _joinable(self) -> Iterator[tuple[tuple[int, ...], int]]:
        """Yield the units of each affinity rule that moves can keep or violate."""
        for rule in self._rules:
            if isinstance(rule, Affinity):
                members = self._members(rule.guests)
                units = tuple(sorted(set(members.units)))
                several = len(units) > 1 or members.fixed
                if units and several and members.can_share_node:
                    yield units, members.fixed_node

    @cached_property
    def violations(self) -> tuple[Floats, Floats]:
        """Number of violated strict rules, and of their violations; both (S,)."""
        rules, total = np.zeros(self.graph.count), np.zeros(self.graph.count)
        for rule in self._rules:
            guests = rule_guests(rule)
            if not self._members(guests).units:
                continue
            found = self._violations_of(rule, guests)
            rules += found > 0
            total += found
        return rules, total

    def _violations_of(self, rule: StrictRule, guests: Collection[GuestId]) -> Floats:
        """Return how often *guests* violate *rule* in each placement; shape (S,)."""
        if isinstance(rule, MutualAntiAffinity):
            return self._sharing_sides(*self._sides(rule, guests))
        members = self._members(guests)
        if isinstance(rule, NodeAffinity):
            return self._misplaced(rule, members)
        if isinstance(rule, Affinity):
            return (~self._are_together(members)).astype(np.float64)
        if not rule.is_pairwise:
            return self._limit(rule, members).above(self.graph.assignments)
        return self._sharing(members)

    def _limit(self, rule: AntiAffinity, members: _RuleMembers) -> UnitLimit:
        """Return the limit of *rule* with the nodes and units of *members*."""
        snapshot, nodes = self.cluster.snapshot, self.cluster.node_ids
        domain_of = domains(snapshot, rule.domain)
        number = {
            name: place for place, name in enumerate(sorted({*domain_of.values()}))
        }
        row = np.array([number[domain_of[name]] for name in nodes], np.int64)
        size = np.bincount(np.array(members.units, np.int64), minlength=len(self.units))
        fixed = [
            number[domain]
            for guest in members.fixed_guests
            for domain in {domain_of[node] for node in guest.occupied_nodes}
        ]
        return UnitLimit(size, row, rule.max_guests, tuple(fixed))

    def _misplaced(self, rule: NodeAffinity, members: _RuleMembers) -> Floats:
        """Return how many of *members* are not on the nodes of *rule*; shape (S,)."""
        allowed = np.array([name in rule.nodes for name in self.cluster.node_ids])
        misplaced = ~allowed[self.graph.assignments[list(members.units)]]
        fixed = sum(
            any(node not in rule.nodes for node in guest.occupied_nodes)
            for guest in members.fixed_guests
        )
        count: Floats = misplaced.sum(axis=0).astype(np.float64) + fixed
        return count

    def _sharing(self, members: _RuleMembers) -> Floats:
        """Return how many pairs of *members* share a node; shape (S,)."""
        where = self.graph.assignments[list(members.units)]
        pairs = np.zeros(self.graph.count)
        for node in range(self.graph.node_count):
            count = (where == node).sum(axis=0) + members.fixed.count(node)
            pairs += count * (count - 1) / 2
        return pairs

    def _sharing_sides(self, one: _RuleMembers, other: _RuleMembers) -> Floats:
        """Return how many pairs of both sides share a node; shape (S,)."""
        pairs = np.zeros(self.graph.count)
        for node in range(self.graph.node_count):
            counts = [
                (self.graph.assignments[list(each.units)] == node).sum(axis=0)
                + each.fixed.count(node)
                for each in (one, other)
            ]
            pairs += counts[0] * counts[1]
        return pairs

    def _are_together(self, members: _RuleMembers) -> Mask:
        """Return the placements in which *members* share a node; shape (S,)."""
        if not members.can_share_node:
            return np.zeros(self.graph.count, np.bool_)
        return self.graph.are_together(members.units, members.fixed_node)

    def repairs(self, violation: Violation) -> bool:
        """Return True if safe moves reach a placement without *violation*."""
        rule, guests = violation.rule, violation.guests
        if not self._members(guests).units or not isinstance(rule, StrictRule):
            return False
        repaired = self._violations_of(rule, guests) == 0
        return bool((repaired & self._is_reached).any())

    @cached_property
    def _is_reached(self) -> Mask:
        return np.isfinite(ReachablePlacements(self.graph).transfer)
